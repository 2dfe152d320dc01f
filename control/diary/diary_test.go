package diary

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/kv/mem"
)

// Five minutes of samples, one a second, become two of the history: the mean
// of two minutes each, as shares of the machine. The additional report of a
// primary that has risen adds nothing.
func TestDiaryKeepsTheMeanOfTwoMinutes(t *testing.T) {
	store, err := history.Open(t.Context(), mem.New(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := New(store, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		go func() { kept <- d.Keep(ctx) }()
		from := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
		if err := d.Event(cluster.Event{At: from, Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "here", CPU: 8 * cluster.Core, Memory: 32 * cluster.GB}}); err != nil {
			t.Fatal(err)
		}
		for second := range 300 {
			use := cluster.Resources{CPU: 2 * cluster.Core, Memory: 8 * cluster.GB}
			if second%2 == 1 {
				use.CPU = 4 * cluster.Core
			}
			ev := cluster.Event{At: from.Add(time.Duration(second) * time.Second), Kind: cluster.UseReported, Use: []cluster.Use{{On: "here", Primary: use}}}
			if err := d.Event(ev); err != nil {
				t.Fatal(err)
			}
			if second%10 == 0 {
				ev.Use = []cluster.Use{{On: "here", Primary: cluster.Resources{CPU: 8 * cluster.Core, Memory: use.Memory}}}
				if err := d.Event(ev); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		stop()
		if err := <-kept; err != context.Canceled {
			t.Fatal(err)
		}
		n := 0
		for s, err := range store.Samples(t.Context(), "here", from, from.Add(time.Hour)) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if math.Abs(float64(s.CPU)-3.0/8) > 0.01 || s.Mem != 0.25 {
				t.Errorf("%+v", s)
			}
		}
		if n != 2 {
			t.Errorf("%d samples", n)
		}
	})
}
