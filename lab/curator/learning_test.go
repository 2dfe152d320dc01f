package curator

import (
	"context"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"gleaner/lab"
)

// Learning does no worse than thresholds by more than 2% in any workload; with
// GLEANER_LONG in all five of the paper for three hours, else in two for one.
func TestLearningIsNotWorseThanThresholds(t *testing.T) {
	size := Size{Workloads: []string{"oltp-varying", "oltp-dss"}, Length: time.Hour, Recorded: 1, Seeds: 2, done: func(int, int) {}}
	if os.Getenv("GLEANER_LONG") != "" {
		size.Workloads, size.Length, size.Recorded, size.Seeds = workloads(), 3*time.Hour, 2, 5
	}
	all, err := Learning(context.Background(), size)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Rows {
		_, mean, _ := change(c.Thresholds, c.Learned)
		t.Logf("%s: %+.1f%%", c.Workload, 100*mean)
		if mean > 0.02 || average(c.Thresholds).Runs == 0 {
			t.Errorf("%s: thresholds %+v, learned %+v", c.Workload, average(c.Thresholds), average(c.Learned))
		}
	}
	table := all.Table()
	if len(table.Rows) != len(size.Workloads) || len(table.Rows[0]) != len(table.Columns) {
		t.Errorf("%v", table)
	}
}

func TestSameSeedSameResult(t *testing.T) {
	result, polls, err := run(context.Background(), "oltp-dss", time.Hour, 1, thresholds)
	if err != nil {
		t.Fatal(err)
	}
	again, same, err := run(context.Background(), "oltp-dss", time.Hour, 1, thresholds)
	if err != nil || result != again || !reflect.DeepEqual(polls, same) {
		t.Errorf("%+v, then %+v (%v)", result, again, err)
	}
}

// Thresholds bring the SSDs down to where they stop, and polls are as far apart as
// their decisions say.
func TestThresholdsHoldTheSSDs(t *testing.T) {
	_, polls, err := run(context.Background(), "oltp-varying", time.Hour, 1, thresholds)
	if err != nil {
		t.Fatal(err)
	}
	first, last := polls[0], polls[len(polls)-1]
	if !first.Ran || first.State[0] <= 75 || last.Ran || last.State[0] > 75 {
		t.Errorf("first %+v, last %+v", first, last)
	}
	for i, p := range polls[1:] {
		want := 30 * time.Second
		if polls[i].Ran {
			want = 5 * time.Minute
		}
		if got := p.At.Sub(polls[i].At); got != want {
			t.Fatalf("poll %d: %v after the one before, want %v", i+1, got, want)
		}
	}
}

func TestExperimentsCanBeStopped(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for _, e := range Experiments() {
		if _, _, err := e.Run(ctx, lab.Options{Quick: true, Seeds: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
