package carrier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/trace"
	"gleaner/trace/replay"
)

// TestClocksApart: times that another machine tells, and those until which it waits, are by our clock, though its own is an hour off.
func TestClocksApart(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			in, to := io.Pipe()
			from, out := io.Pipe()
			served := make(chan error)
			go func() {
				served <- serve(t.Context(), in, out, []replay.Executor{slow(50 * time.Millisecond)}, ahead)
				out.Close()
			}()
			c := New(to, from, ahead)
			conn, err := Executor([]*Carrier{c}, 0, nil).Dial(t.Context(), replay.Identity{Sender: "a"})
			if err != nil {
				t.Fatal(err)
			}
			for _, tc := range []struct {
				patience time.Duration
				want     error
			}{{time.Second, nil}, {10 * time.Millisecond, context.DeadlineExceeded}} {
				ctx, cancel := context.WithTimeout(t.Context(), tc.patience)
				defer cancel()
				begun, call := time.Now(), &trace.Call{Sender: "a", Method: "m"}
				if _, err := conn.Call(ctx, call); !errors.Is(err, tc.want) {
					t.Errorf("with %v of patience: %v", tc.patience, err)
				}
				if tc.want == nil && (call.Start != begun.UnixNano() || call.End != begun.Add(50*time.Millisecond).UnixNano()) {
					t.Errorf("it took from %v to %v", time.Unix(0, call.Start).Sub(begun), time.Unix(0, call.End).Sub(begun))
				}
			}
			to.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
			<-c.Gone()
		})
	}
}

// TestStarved: that another process has no file left is told from what a target does.
func TestStarved(t *testing.T) {
	in, to := io.Pipe()
	from, out := io.Pipe()
	go func() { _ = Serve(t.Context(), in, out, []replay.Executor{starving{}}) }()
	defer to.Close()
	_, err := Executor([]*Carrier{New(to, from, 0)}, 0, nil).Dial(t.Context(), replay.Identity{Sender: "a"})
	if !replay.Starved(err) || err.Error() != "dial: too many open files" {
		t.Errorf("got %v", err)
	}
}

type starving struct{}

func (starving) Dial(context.Context, replay.Identity) (replay.Conn, error) {
	return nil, fmt.Errorf("dial: %w", syscall.EMFILE)
}

// slow is a target that takes its time.
type slow time.Duration

func (s slow) Dial(context.Context, replay.Identity) (replay.Conn, error) { return s, nil }

func (s slow) Call(ctx context.Context, _ *trace.Call) (replay.Reply, error) {
	select {
	case <-ctx.Done():
		return replay.Reply{}, ctx.Err()
	case <-time.After(time.Duration(s)):
		return replay.Reply{}, nil
	}
}

func (s slow) Close() error { return nil }
