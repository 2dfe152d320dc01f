package harvest

import (
	"slices"
	"time"

	"gleaner/cluster"
)

// Thresholds between short and medium, and between medium and long jobs.
type Thresholds struct{ Short, Long time.Duration }

// PaperThresholds hold until there is a history of jobs (OSDI'16 §6.1).
var PaperThresholds = Thresholds{Short: 173 * time.Second, Long: 433 * time.Second}

// Length is the type of a job by how long it took last time; a job that never
// ran is medium (§4.1).
func (t Thresholds) Length(last time.Duration, known bool) Length {
	switch {
	case !known:
		return Medium
	case last < t.Short:
		return Short
	case last > t.Long:
		return Long
	}
	return Medium
}

// A JobRun is one job that has finished: how long it took from its first
// task's start, and the CPU time of its tasks.
type JobRun struct {
	Took time.Duration
	Work float64 // core-seconds
}

const (
	enoughRuns = 50   // with fewer, thresholds are not derived
	knownRuns  = 1000 // how many of the last runs are kept
)

// ThresholdsFrom sets the thresholds so that the work of the short, medium and
// long jobs among runs is in proportion to the spare capacity of the classes
// they prefer: unpredictable, periodic and constant ones (§4.1). It reports
// false if there is too little history, or no class has spare capacity.
func ThresholdsFrom(runs []JobRun, classes []ClassState) (Thresholds, bool) {
	var give [3]float64
	for i := range classes {
		c := &classes[i]
		switch c.Pattern {
		case cluster.Unpredictable:
			give[Short] += float64(max(c.above(c.Mean), 0))
		case cluster.Periodic:
			give[Medium] += float64(max(c.above(c.Mean), 0))
		case cluster.Constant:
			give[Long] += float64(max(c.above(c.Peak), 0))
		}
	}
	capacity := give[Short] + give[Medium] + give[Long]
	if len(runs) < enoughRuns || capacity == 0 {
		return Thresholds{}, false
	}
	runs = slices.SortedFunc(slices.Values(runs), func(a, b JobRun) int { return int(a.Took - b.Took) })
	work := 0.0
	for _, r := range runs {
		work += r.Work
	}
	short := work * give[Short] / capacity
	medium := work * (give[Short] + give[Medium]) / capacity
	return Thresholds{Short: tookAt(runs, short), Long: tookAt(runs, medium)}, true
}

// tookAt adds up runs from the shortest on, and returns the length of the
// first that exceeds work.
func tookAt(runs []JobRun, work float64) time.Duration {
	for _, r := range runs {
		if work -= r.Work; work < 0 {
			return r.Took
		}
	}
	return runs[len(runs)-1].Took
}

// memory is how long each past job took last time, and the last runs of all.
type memory struct {
	last map[string]time.Duration
	runs []JobRun // a ring of the last ones
	next int

	finished int // runs ever
}

func (m *memory) remember(name string, run JobRun) {
	if m.last == nil {
		m.last = map[string]time.Duration{}
	}
	m.last[name] = run.Took
	m.finished++
	if len(m.runs) < knownRuns {
		m.runs = append(m.runs, run)
		return
	}
	m.runs[m.next] = run
	m.next = (m.next + 1) % knownRuns
}
