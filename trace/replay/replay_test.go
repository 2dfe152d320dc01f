package replay_test

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/lean"
)

const heartbeat = `version: 1
scales: [3, 4, 6]
types:
  - type: worker
    nodes: "n"
    sender: worker-{node}
    calls:
      - call: register#1
        target: master
        method: register
        args:
          host: host-{node+1}
          lease: ={node*7}
      - call: beat#1
        target: master
        method: beat
        args:
          seq: ={i}
          lease: ={reply "register#1" "lease"}
    steps:
      - call: register#1
    beats:
      - call: beat#1
        every: 300
`

func TestHeartbeats(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go lean.Serve(ctx, l, lean.Echo)
	at, _ := url.Parse("lean://" + l.Addr().String())
	e, err := lean.Open(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Read("p.yaml", []byte(heartbeat))
	if err != nil {
		t.Fatal(err)
	}
	s, err := grow.Resolve(p, grow.Setting{Scale: 50})
	if err != nil {
		t.Fatal(err)
	}
	res, err := replay.Play(ctx, replay.Options{Program: p, Setting: s, Targets: map[string]replay.Executor{"": e}, For: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", res)
}
