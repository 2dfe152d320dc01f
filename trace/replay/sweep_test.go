package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gleaner/trace/replay"
	"gleaner/trace/replay/judge"
)

// TestKnee: the scale at which a target gives in is found between those given, and it is
// reported if the players are the limit before that.
func TestKnee(t *testing.T) {
	for _, tc := range []struct {
		name   string
		result func(n int) *replay.Result
		want   string
	}{
		{"slow from 700 on", func(n int) *replay.Result {
			r := &replay.Result{Made: 100, Answered: 100}
			if n >= 700 {
				r.Service.P99 = 2000
			}
			return r
		}, "held 662, gave in 718, player 0; played 100 550 662 718 775 1000 : the slowest hundredth of replies took 2000 ms and more"},
		{"overloaded from 120 on, and refuses a little as recorded", func(n int) *replay.Result {
			r := &replay.Result{Made: 100, Answered: 100, Refused: 5}
			if n >= 120 {
				r.Refused, r.Overloaded, r.Calls = 50, 45, []replay.CallResult{{Errors: []replay.Said{{What: "too many nodes", Count: 45}}}}
			}
			return r
		}, "held 114, gave in 128, player 0; played 100 114 128 156 212 325 550 1000 : 45.0% of calls had no reply, or were refused by an overloaded target 45 times: too many nodes"},
		{"the program does not fit from 120 on", func(n int) *replay.Result {
			r := &replay.Result{Made: 100, Answered: 100}
			if n >= 120 {
				r.Refused, r.Unexpected, r.Fault = 1, 1, &replay.Fault{At: 1}
			}
			return r
		}, "held 100, gave in 0, player 0; played 100 1000 broken 1000 : "},
		{"a machine full of others from 5000 on", func(n int) *replay.Result {
			r := &replay.Result{Made: 100, Answered: 100, CPU: judge.CPU{Cores: 2, Players: 0.2, Target: 0.2, Others: 1.6, PlayersWaited: 30}}
			if n >= 5000 {
				r.Service.P99 = 2000
			}
			return r
		}, "held 4937, gave in 0, player 5218; played 100 1000 3250 4375 4937 5218 5500 10000 : "},
		{"players late from 5000 on", func(n int) *replay.Result {
			r := &replay.Result{Made: 100, Answered: 100, Busy: 1, Workers: 9}
			if n >= 5000 {
				r.Lag.P99 = 99
			}
			return r
		}, "held 4937, gave in 0, player 5218; played 100 1000 3250 4375 4937 5218 5500 10000 : "},
		{"never", func(n int) *replay.Result { return &replay.Result{Made: 1, Answered: 1} },
			"held 10000, gave in 0, player 0; played 100 1000 10000 : "},
		{"interrupted", func(n int) *replay.Result { return &replay.Result{Made: 1, Answered: 1, Ended: "interrupted"} },
			"held 0, gave in 0, player 0; played 100 : "},
		{"too few files", func(n int) *replay.Result {
			return &replay.Result{Made: n, Answered: n - n/100, Failed: n / 50, Starved: n / 50}
		},
			"held 0, gave in 0, player 100; played 100 : "},
		{"too short to start all", func(n int) *replay.Result { return &replay.Result{Made: 1, Answered: 1, Behind: n / 2} },
			"held 0, gave in 0, player 0; played 100 : "},
		{"gives nodes up", func(n int) *replay.Result {
			return &replay.Result{Made: 9, Answered: 9, Nodes: map[string]int{"worker": n}, Dead: make([]string, max(0, n-110))}
		}, "held 100, gave in 114, player 0; played 100 114 128 156 212 325 550 1000 : 4 of 114 nodes were declared dead"},
		{"refuses everything, always", func(n int) *replay.Result { return &replay.Result{Made: 20, Answered: 20, Refused: 20, Unexpected: 20} },
			"held 0, gave in 0, player 0; played 100 broken 100 : "},
		{"dies at the smallest scale", func(n int) *replay.Result { return &replay.Result{Made: 47, Answered: 27, Failed: 20} },
			"held 0, gave in 100, player 0; played 100 : 42.6% of calls had no reply, or were refused by an overloaded target"},
	} {
		report, err := replay.Sweep(context.Background(), []int{1000, 100, 10000}, judge.Limits{}, func(_ context.Context, n int) (*replay.Result, error) {
			r := tc.result(n)
			r.Scale = n
			return r, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("held %d, gave in %d, player %d; played ", report.Held, report.GaveIn, report.PlayerLimit)
		for _, r := range report.Runs {
			got += fmt.Sprint(r.Scale, " ")
		}
		if report.Broken > 0 {
			got += fmt.Sprintf("broken %d ", report.Broken)
		}
		if got += strings.TrimSpace(": " + report.Why + " " + strings.Join(report.Said, "; ")); strings.TrimSpace(got) != strings.TrimSpace(tc.want) {
			t.Errorf("%s:\n%s\n%s", tc.name, got, tc.want)
		}
	}
	report, err := replay.Sweep(context.Background(), []int{1, 2}, judge.Limits{}, func(_ context.Context, n int) (*replay.Result, error) {
		if n == 2 {
			return nil, errors.New("gone")
		}
		return &replay.Result{Scale: n}, nil
	})
	if err == nil || len(report.Runs) != 1 {
		t.Errorf("%v, %+v", err, report)
	}
}
