package dilation

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// From runs that the model itself made, with true kernel figures, the vector is
// learned exactly.
func TestLearnRecoversAVector(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machines(t)
		p := vectors(t, m, 1, 1)[0]
		runs := seenRuns(t, m, p, p)
		for i, got := range m.Learn(runs) {
			near(t, "share", got, p[i], 1e-4)
		}
	})
}

// If the kernel is wrong about a share, the times correct it towards the truth.
func TestTimesCorrectTheKernel(t *testing.T) {
	m, truth, told := Machine{1, 1}, Vector{0.2, 0.7}, Vector{0.2, 0.1}
	var runs []ObservedRun
	for i := range 12 {
		beside := Vector{0, float64(i % 4)}
		runs = append(runs, ObservedRun{Took: seconds(10 * (1 + m.dot(truth, beside))), Used: told, Beside: beside})
	}
	got := m.Learn(runs)
	if !(got[1] > 0.3 && got[1] < 0.8) {
		t.Errorf("share of the disk %v: the kernel says %v, the times %v", got[1], told[1], truth[1])
	}
	near(t, "share of CPU, on which both agree", got[0], 0.2, 0.05)
}

func TestLearnFromLittle(t *testing.T) {
	m := Machine{2, 1}
	if got := m.Learn(nil); got[0] != 0 || got[1] != 0 {
		t.Errorf("nothing seen: %v", got)
	}
	got := m.Learn([]ObservedRun{{Took: 0, Used: Vector{0.9, 0.4}, Beside: Vector{0, 0}}})
	if err := m.Check(got); err != nil || math.Abs(got[0]-0.9/1.3) > 1e-6 {
		t.Errorf("one run that took no time: %v, %v", got, err)
	}
}

func seenRuns(t *rapid.T, m Machine, truth, told Vector) []ObservedRun {
	alone := rapid.Float64Range(0.1, 1000).Draw(t, "alone")
	var runs []ObservedRun
	for range rapid.IntRange(1, 8).Draw(t, "runs") {
		beside := m.Sum(vectors(t, m, 0, 3)...)
		runs = append(runs, ObservedRun{time.Duration(alone * (1 + m.dot(truth, beside)) * 1e9), told, beside})
	}
	return runs
}

// TestLearnWhenTimesMislead has runs whose times say the opposite of the kernel:
// quick ones beside what was taken for much load, slow ones beside little, because
// somebody else kept the machine busy. What computes is still known to compute.
func TestLearnWhenTimesMislead(t *testing.T) {
	m := Machine{2, 1}
	var runs []ObservedRun
	for range 3 {
		runs = append(runs,
			ObservedRun{Took: seconds(3.7), Used: Vector{0.95, 0}, Beside: Vector{5, 0}},
			ObservedRun{Took: seconds(13), Used: Vector{0.95, 0}, Beside: Vector{1, 0}})
	}
	if got := m.Learn(runs); got[0] < 0.95/2 {
		t.Errorf("learned %.3f", got)
	}
}
