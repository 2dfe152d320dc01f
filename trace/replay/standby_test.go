package replay_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/carrier"
	"gleaner/trace/replay/lean"
)

// Another master takes the place of the first in the midst of a run, however the first goes:
// all steps are made, once each, and the report tells the gap.
func TestStandbyTakesOver(t *testing.T) {
	standsBy := replay.Reply{Status: "500", Message: "org.apache.hadoop.ipc.StandbyException: not active"}
	for _, tc := range []struct {
		name    string
		carried bool
		timeout time.Duration
		// The first and the second, which are told when the first goes. They answer nothing with nil.
		first, second func(gone *atomic.Bool, call *trace.Call) *replay.Reply
		killed        bool
	}{
		{name: "killed", killed: true},
		{name: "killed, connections in another process", killed: true, carried: true},
		{name: "it stands by from now on", first: func(gone *atomic.Bool, _ *trace.Call) *replay.Reply {
			if gone.Load() {
				return &standsBy
			}
			return &replay.Reply{Status: "200"}
		}},
		{name: "the second takes its time", killed: true, second: func(gone *atomic.Bool, _ *trace.Call) *replay.Reply {
			if gone.Load() {
				return &replay.Reply{Status: "200"}
			}
			return &standsBy
		}},
		{name: "it answers nobody", timeout: 300 * time.Millisecond, first: func(gone *atomic.Bool, _ *trace.Call) *replay.Reply {
			if gone.Load() {
				return nil
			}
			return &replay.Reply{Status: "200"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var gone atomic.Bool
			quiet := make(chan struct{})
			var second atomic.Int64
			answer := func(own func(*atomic.Bool, *trace.Call) *replay.Reply, count *atomic.Int64) func(*trace.Call) replay.Reply {
				return func(call *trace.Call) replay.Reply {
					count.Add(1)
					echo := lean.Echo(call)
					if own == nil {
						return echo
					}
					reply := own(&gone, call)
					if reply == nil {
						<-quiet
						return echo
					}
					if reply.Message == "" {
						return echo
					}
					return *reply
				}
			}
			var none atomic.Int64
			one, kill := serve(t, "127.0.0.1:0", answer(tc.first, &none))
			t.Cleanup(func() { close(quiet) }) // before the first is stopped
			two, _ := serve(t, "127.0.0.1:0", answer(tc.second, &second))
			both := replay.WithStandbys(open(t, one), open(t, two))
			if tc.carried {
				both = carriedBy(t, both)
			}
			o := options(t, registered, 10, both)
			if tc.timeout > 0 {
				o.Timeout = tc.timeout
			}
			var calls atomic.Int64
			o.Record = func(*trace.Call) {
				if calls.Add(1) == 100 {
					if tc.killed {
						go func() {
							kill()
							time.Sleep(1200 * time.Millisecond)
							gone.Store(true)
						}()
					} else {
						gone.Store(true)
					}
				}
			}
			r, err := replay.Play(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			work := made(r, "work")
			if r.Ended != "done" || work.Answered != 400 || work.Refused > 0 || r.Silenced != 0 || second.Load() < 300 {
				t.Errorf("%s, %+v, %d silent, %d calls to the second", r.Ended, work, r.Silenced, second.Load())
			}
			if tc.second != nil && (len(r.Gaps) != 1 || r.Gaps[0].Seconds < 1) {
				t.Errorf("the gap: %+v", r.Gaps)
			}
		})
	}
}

// carriedBy has the connections of an executor in another place, as another process has them.
func carriedBy(t *testing.T, e replay.Executor) replay.Executor {
	in, to := io.Pipe()
	from, out := io.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		_ = carrier.Serve(context.WithoutCancel(t.Context()), in, out, []replay.Executor{e})
		out.Close()
	})
	t.Cleanup(func() { to.Close(); done.Wait() })
	return carrier.Executor([]*carrier.Carrier{carrier.New(to, from, 0)}, 0, e)
}

// A master that is slow for some, and answers others, keeps serving.
func TestSlowMasterKeepsServing(t *testing.T) {
	var second atomic.Int64
	var slow atomic.Int64
	release := make(chan struct{})
	one, _ := serve(t, "127.0.0.1:0", func(call *trace.Call) replay.Reply {
		if call.Sender == "worker-0" && call.Method == "work" && slow.Add(1) <= 4 {
			<-release
		}
		return lean.Echo(call)
	})
	t.Cleanup(func() { close(release) })
	two, _ := serve(t, "127.0.0.1:0", func(call *trace.Call) replay.Reply { second.Add(1); return lean.Echo(call) })
	o := options(t, registered, 10, replay.WithStandbys(open(t, one), open(t, two)))
	o.Timeout, o.Patience, o.OnError = 300*time.Millisecond, time.Second, replay.Skip
	r, err := replay.Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if work := made(r, "work"); second.Load() > 0 || work.Failed == 0 || work.Answered < 360 {
		t.Errorf("%d calls to the second, %+v", second.Load(), work)
	}
}
