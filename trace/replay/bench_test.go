package replay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
)

// mute answers at once.
type mute struct{}

func (mute) Dial(context.Context, replay.Identity) (replay.Conn, error) { return mute{}, nil }
func (mute) Close() error                                               { return nil }
func (mute) Call(_ context.Context, c *trace.Call) (replay.Reply, error) {
	return replay.Reply{Leaves: c.Request}, nil
}

// BenchmarkBeats shows what a call costs besides the protocol: players that
// beat once in 10 ms, 100,000 calls a second if there is time.
func BenchmarkBeats(b *testing.B) {
	for _, players := range []int{1000} {
		b.Run(fmt.Sprintf("%dplayers", players), func(b *testing.B) {
			p, err := program.Read("p.yaml", []byte(`version: 1
scales: [3]
types:
  - type: worker
    nodes: "n"
    sender: worker-{node}
    calls:
      - {call: register#1, method: register, args: {lease: '={node*7}'}}
      - {call: beat#1, method: beat, args: {lease: '={reply "register#1" "lease"}', count: '={i}', at: '={now ms}', state: idle}}
    steps:
      - call: register#1
    beats:
      - {call: beat#1, every: 10}
`))
			if err != nil {
				b.Fatal(err)
			}
			s, err := grow.Resolve(p, grow.Setting{Scale: players})
			if err != nil {
				b.Fatal(err)
			}
			made := 0
			b.ReportAllocs()
			for b.Loop() {
				r, err := replay.Play(b.Context(), replay.Options{Program: p, Setting: s, Targets: map[string]replay.Executor{"": mute{}}, For: time.Second})
				if err != nil {
					b.Fatal(err)
				}
				made += r.Made
			}
			b.ReportMetric(float64(made)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
