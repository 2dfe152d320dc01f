package upkeep_test

import (
	"testing"
	"time"

	"gleaner/fabric/upkeep"
)

// Upkeep takes its share of the time, and rests a minute at most: what is lost does not wait three times as long as a large vDisk takes to be removed.
func TestRest(t *testing.T) {
	for _, tc := range []struct {
		took  time.Duration
		share float64
		want  time.Duration
	}{
		{0, 0.25, 0}, {time.Second, 0.25, 3 * time.Second}, {time.Second, 0.5, time.Second}, {time.Second, 1, 0}, {time.Hour, 0.25, time.Minute}, {time.Second, 1e-9, time.Minute},
	} {
		if got := upkeep.Rest(tc.took, tc.share); got != tc.want {
			t.Errorf("after %v it rests for %v, want %v", tc.took, got, tc.want)
		}
	}
}

// The share goes from the ceiling to the floor as the load goes up.
func TestShare(t *testing.T) {
	p := upkeep.Policy{Floor: 0.1, Ceiling: 0.5}
	for load, want := range map[float64]float64{0: 0.5, 0.25: 0.4, 1: 0.1} {
		if got := p.Share(load); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("at load %v it may take %v, want %v", load, got, want)
		}
	}
	if got := upkeep.Default().Share(upkeep.Usual); got != 0.25 {
		t.Errorf("where nothing is known it may take %v", got)
	}
}
