package cluster

import (
	"math"
	"testing"
	"time"
)

func TestWindows(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 1, 0, minute, 0, 0, time.UTC) }
	for _, tc := range []struct {
		name      string
		w         Window
		from, len int // minutes, slots of five minutes
	}{
		{"as long as asked", WindowBefore(at(60), at(0), 30*time.Minute, 5*time.Minute), 30, 6},
		{"a length of no whole number of slots", WindowBefore(at(60), at(0), 33*time.Minute, 5*time.Minute), 30, 6},
		{"not long before the first sample", WindowBefore(at(60), at(47), time.Hour, 5*time.Minute), 45, 3},
		{"all there is", WindowBefore(at(60), at(2), math.MaxInt64, 5*time.Minute), 0, 12},
		{"shorter than a slot", WindowBefore(at(60), at(0), time.Minute, 5*time.Minute), 60, 0},
		{"until a moment within a slot", Window{at(0), 5 * time.Minute, 12}.Until(at(14)), 0, 2},
		{"until after its end", Window{at(0), 5 * time.Minute, 12}.Until(at(90)), 0, 12},
		{"until before it begins", Window{at(10), 5 * time.Minute, 12}.Until(at(0)), 10, 0},
	} {
		if want := (Window{at(tc.from), 5 * time.Minute, tc.len}); tc.w != want {
			t.Errorf("%s: %+v, want %+v", tc.name, tc.w, want)
		}
	}
}
