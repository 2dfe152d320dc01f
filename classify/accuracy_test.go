package classify

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"gleaner/cluster"
)

// judge runs the decision alone, without classes.
func judge(tr truth) (cluster.Pattern, Evidence) {
	a := newAnalyst(tr.window)
	s := a.fine.read(tr.window, tr.cpu)
	return a.decide(&a.fine, &s, tr.cpu)
}

func periodRight(e Evidence, tr truth) bool {
	return math.Abs(float64(e.Period)/float64(tr.period)-1) <= 0.05
}

// perKind is how many series of each kind are tried.
func perKind() int {
	if os.Getenv("GLEANER_LONG") != "" {
		return 1000
	}
	return 120
}

// TestAccuracy tries thousands of series of known truth.
func TestAccuracy(t *testing.T) {
	all, allRight := 0, 0
	t.Logf("%-24s %9s %9s %14s %13s", "", "periodic", "constant", "unpredictable", "period wrong")
	for _, k := range kinds {
		var got [4]int
		right, offPeriod := 0, 0
		for i := range perKind() {
			tr := generate(k, uint64(i))
			p, e := judge(tr)
			got[p]++
			switch {
			case p != tr.pattern:
				t.Logf("  %s %d: %s, but %s: %s", k.name, i, tr.note, p, e.Why())
			case p == cluster.Periodic && !periodRight(e, tr):
				offPeriod++
				t.Logf("  %s %d: %s, but period %s: %s", k.name, i, tr.note, e.Period, e.Why())
			default:
				right++
			}
		}
		t.Logf("%-24s %9d %9d %14d %13d", k.name, got[cluster.Periodic], got[cluster.Constant], got[cluster.Unpredictable], offPeriod)
		if share := float64(right) / float64(perKind()); share < 0.97 {
			t.Errorf("%s: right for %.1f%%, want 97%%", k.name, 100*share)
		}
		all, allRight = all+perKind(), allRight+right
	}
	t.Logf("right: %d of %d, %.2f%%", allRight, all, 100*float64(allRight)/float64(all))
	if float64(allRight) < 0.99*float64(all) {
		t.Errorf("right for %d of %d, want 99%%", allRight, all)
	}
}

// TestDriftIsNeverPeriodic tries series that look periodic by chance: random
// walks with every strength of mean reversion, 1/f noise and bursts, all others
// than TestAccuracy's.
func TestDriftIsNeverPeriodic(t *testing.T) {
	tried, wrong := 0, 0
	for _, k := range kinds {
		switch k.name {
		case "random walk", "1/f noise", "short bursts", "long bursts", "regimes":
		default:
			continue
		}
		for i := range 2 * perKind() {
			tr := generate(k, 1<<32+uint64(i))
			tried++
			if p, e := judge(tr); p == cluster.Periodic {
				wrong++
				t.Logf("%s %d: %s, but %s", k.name, i, tr.note, e.Why())
			}
		}
	}
	t.Logf("%d of %d called periodic", wrong, tried)
	if wrong > tried/200 {
		t.Errorf("%d of %d drifting or bursty series called periodic, want at most 1 in 200", wrong, tried)
	}
}

// TestPhaseDoesNotMatter shifts a day and a weekday pattern around the clock.
func TestPhaseDoesNotMatter(t *testing.T) {
	for _, s := range shapes {
		for shift := range 12 {
			c := newChance(uint64(shift))
			w := cluster.Window{From: monday, Step: 5 * time.Minute, Len: 28 * 288}
			tr := over(kind{s.name, func(chance, float64, float64) made {
				return made{curve: func(hours float64) float64 {
					_, p := math.Modf(hours/24 + float64(shift)/12)
					return 0.4 + 0.2*s.at(p)
				}, pattern: cluster.Periodic, period: day, swing: 0.4, note: fmt.Sprintf("%s shifted by %d h", s.name, 2*shift)}
			}}, w, c)
			if p, e := judge(tr); p != cluster.Periodic || !periodRight(e, tr) {
				t.Errorf("%s: %s: %s", tr.note, p, e.Why())
			}
		}
	}
}

// TestStepDoesNotMatter samples the same curves more and less often.
func TestStepDoesNotMatter(t *testing.T) {
	for _, k := range kinds[:7] {
		for _, seconds := range []int{60, 120, 300, 600, 1800, 3600} {
			w := cluster.Window{From: monday, Step: time.Duration(seconds) * time.Second, Len: 28 * 86400 / seconds}
			tr := generateOver(k, w, 5)
			if p, e := judge(tr); p != tr.pattern || p == cluster.Periodic && !periodRight(e, tr) {
				t.Errorf("%s every %d s: %s: %s: %s", k.name, seconds, tr.note, p, e.Why())
			}
		}
	}
}
