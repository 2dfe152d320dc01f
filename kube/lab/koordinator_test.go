package lab

import (
	"testing"
	"time"

	"gleaner/cluster"
)

// What stands is written again when it differs by more than a tenth, or after five minutes.
func TestKoordinatorWritesWhatDiffers(t *testing.T) {
	k := newKoordinator(cluster.Server{ID: "s", CPU: 100 * cluster.Core, Memory: cluster.GB})
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	note := func(after time.Duration, cores cluster.MilliCPU) cluster.MilliCPU {
		at = at.Add(after)
		return k.Note(at, cluster.Resources{CPU: cores * cluster.Core}).CPU / cluster.Core
	}
	for i, step := range []struct {
		after time.Duration
		uses  cluster.MilliCPU
		want  cluster.MilliCPU
	}{
		{0, 20, 38},                // 60% less 1.1 times the 95th percentile
		{time.Minute, 24, 38},      // 36 is not a tenth less
		{time.Minute, 40, 20},      // the use now is more than the percentile
		{time.Minute, 41, 16},      // the percentile has followed
		{time.Minute, 42, 13},      // to the next step of 2.5%
		{time.Minute, 70, 0},       // never less than nothing
		{10 * time.Minute, 100, 0}, //
	} {
		if got := note(step.after, step.uses); got != step.want {
			t.Errorf("step %d: %d cores, want %d", i, got, step.want)
		}
	}
}
