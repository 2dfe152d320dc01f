package referee

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/plan"
)

// seeds are those of a test: a few, many with GLEANER_LONG=1, or those that REFEREE_SEED
// names: 29, or 1-300.
func seeds(t testing.TB, few, many uint64) (from, to uint64) {
	if s := os.Getenv("REFEREE_SEED"); s != "" {
		first, last, several := strings.Cut(s, "-")
		if !several {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 64)
		to, wrong := strconv.ParseUint(last, 10, 64)
		if err := errors.Join(err, wrong); err != nil {
			t.Fatal(err)
		}
		return from, to
	}
	if os.Getenv("GLEANER_LONG") != "" {
		return 1, many
	}
	return 1, few
}

// planned runs the planner for some seconds at most; a panic is an error.
func planned(in plan.Input, colocate bool, limit time.Duration) (p plan.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	began := time.Now()
	return plan.Solve(in, plan.Options{Colocate: colocate, Stop: func() bool { return time.Since(began) > limit }})
}

// proven reports whether a plan claims to be the cheapest.
func proven(p plan.Plan) bool { return p.LowerBound >= p.Cost*(1-tolerance) }

// The planner and the model agree on the cost of the cheapest cluster, and plans are
// as the docs demand. GLEANER_LONG=1 compares 2,000 instances.
func TestAgainstModel(t *testing.T) {
	from, to := seeds(t, 50, 2000)
	agree(t, from, to, func(seed uint64) documents { return documentsOf(seed, 1) })
}

// agree compares the planner with the model on documents of some seeds.
func agree(t *testing.T, from, to uint64, of func(seed uint64) documents) {
	t.Helper()
	var n struct{ compared, refused, unproven, stopped, large, days, rented int }
	for seed := from; seed <= to; seed++ {
		d := of(seed)
		in, err := parse(d.files())
		if err != nil {
			keep(t, seed, d.files(), d.colocate)
			t.Fatal(err)
		}
		p, err := planned(in, d.colocate, 10*time.Second)
		if errors.Is(err, plan.ErrStopped) {
			n.stopped++
			continue
		}
		n.compared++
		n.refused += btoi(err != nil)
		n.unproven += btoi(err == nil && !proven(p))
		n.days += btoi(len(in.SLA.Day) > 0)
		n.rented += btoi(slices.ContainsFunc(p.Servers(in), func(s plan.Server) bool { return s.Hours != nil }))
		wrong := judge(in, d.colocate, p, err)
		if errors.Is(wrong, errTooLarge) {
			n.large++
		} else if wrong != nil {
			t.Errorf("seed %d: %v", seed, wrong)
			keep(t, seed, d.files(), d.colocate)
		}
	}
	t.Logf("%+v", n)
	if n.large > 1+int(to-from)/20 {
		t.Errorf("%d of %d instances are too large for the model", n.large, to-from+1)
	}
}

// split is the course that the plan has, or phases of equal length if there is no plan.
func split(in plan.Input, p plan.Plan) course {
	if in.SLA.Job == nil || len(p.Needs.Seconds) > 0 {
		return courseOf(in, p)
	}
	return course{seconds: cut(in, 0.5)}
}

// cut splits a job's time: a part for its first phase and the rest for all others.
func cut(in plan.Input, part float64) []float64 {
	n := len(in.App.Phases())
	if n == 1 {
		return []float64{in.SLA.Job.Time}
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = in.SLA.Job.Time * (1 - part) / float64(n-1)
	}
	out[0] = in.SLA.Job.Time * part
	return out
}

// errTooLarge is the error for a problem that the model cannot solve.
var errTooLarge = errors.New("too large for the model")

// judge says what is wrong with the planner's answer. A plan must be valid, and the
// model must find nothing below its bound; with two phases, neither at the plan's
// split of the time nor at others.
func judge(in plan.Input, colocate bool, p plan.Plan, err error) error {
	if err != nil && !input.Is(err) {
		return fmt.Errorf("the planner fails: %w", err)
	}
	if err != nil && caps(in) != nil {
		m := model(in, colocate, split(in, p), math.Inf(1))
		if !m.exact {
			return errTooLarge
		}
		if !math.IsInf(m.cost, 1) {
			return fmt.Errorf("refused (%w), and the model has a cluster for %.2f", err, m.cost)
		}
		return nil
	}
	if err != nil {
		cost, known := bound(in, colocate, split(in, p))
		if !math.IsInf(cost, 1) {
			return fmt.Errorf("refused (%w), and the model has a cluster", err)
		}
		if !known {
			return errTooLarge
		}
		return nil
	}
	if err := verify(in, p, colocate); err != nil {
		return fmt.Errorf("planned for %.2f, but %w", p.Cost, err)
	}
	zones := zonesOf(in)
	courses := []course{split(in, p)}
	if in.SLA.Job != nil && len(in.App.Phases()) > 1 {
		for _, part := range []float64{0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9} {
			courses = append(courses, course{seconds: cut(in, part)})
		}
	}
	if in.Harvested != nil {
		courses = harvests(in, courses)
	}
	for _, how := range courses {
		m := model(in, colocate, how, p.LowerBound/zones*(1-tolerance))
		if !math.IsInf(m.cost, 1) {
			return fmt.Errorf("planned for %.2f with nothing below %.2f, and the model has %.2f (%+.4v)", p.Cost, p.LowerBound, zones*m.cost, how)
		}
		if !m.exact {
			return errTooLarge
		}
	}
	return nil
}
