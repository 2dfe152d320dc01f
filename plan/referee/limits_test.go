package referee

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/plan"
)

// A dataset that must use a unit, or must not, is planned as the model plans it
// over the architectures that are left. Neither costs less than a free choice, and the
// cheaper of both costs as much.
func TestLimitsAgainstModel(t *testing.T) {
	from, to := seeds(t, 30, 300)
	held := 0
	for seed := from; seed <= to; seed++ {
		d := documentsOf(seed, 1)
		in, err := parse(d.files())
		if err != nil {
			t.Fatal(err)
		}
		if len(in.App.Phases()) > 1 || len(in.App.Datasets) == 0 {
			continue
		}
		free, err := planned(in, d.colocate, 5*time.Second)
		if err != nil || !proven(free) {
			continue
		}
		w := rand.New(rand.NewPCG(seed, 7))
		limit := plan.Limit{Dataset: w.IntN(len(in.App.Datasets)), Unit: w.IntN(len(in.HW.Units)), Cache: plan.NoCache}
		least := math.Inf(1)
		for _, forbid := range []bool{false, true} {
			limit.Forbid = forbid
			cost, ok := limitedCost(t, seed, in, d.colocate, limit, free)
			if !ok {
				least = math.NaN()
				break
			}
			least = min(least, cost)
		}
		if math.IsNaN(least) {
			continue
		}
		held++
		if math.Abs(least-free.Cost) > tolerance*free.Cost {
			t.Errorf("seed %d: with and without a unit it costs %.2f at least, and freely %.2f", seed, least, free.Cost)
			keep(t, seed, d.files(), d.colocate)
		}
	}
	t.Logf("%d held", held)
	if held == 0 {
		t.Error("no limit was compared")
	}
}

// limitedCost plans within a limit and compares the plan with the model; infinite if
// nothing meets the SLA. It is not ok if either could not prove its answer.
func limitedCost(t *testing.T, seed uint64, in plan.Input, colocate bool, limit plan.Limit, free plan.Plan) (cost float64, ok bool) {
	began := time.Now()
	p, err := plan.Solve(in, plan.Options{Colocate: colocate, Limits: []plan.Limit{limit}, Stop: func() bool { return time.Since(began) > 5*time.Second }})
	if errors.Is(err, plan.ErrStopped) || err == nil && !proven(p) {
		return 0, false
	}
	if err != nil && !input.Is(err) {
		t.Errorf("seed %d: %v", seed, err)
		return 0, false
	}
	uses := func(c choice) bool { return c.store == limit.Unit || c.cache == limit.Unit }
	left := slices.DeleteFunc(architectures(in), func(a []choice) bool { return uses(a[limit.Dataset]) == limit.Forbid })
	cost = math.Inf(1)
	if err == nil {
		cost = p.Cost
		if wrong := verify(in, p, colocate); wrong != nil {
			t.Errorf("seed %d: planned for %.2f, but %v", seed, p.Cost, wrong)
		}
		if uses(architecture(p)[limit.Dataset]) == limit.Forbid {
			t.Errorf("seed %d: the limit %+v is not kept", seed, limit)
		}
	}
	m := among(in, left, colocate, split(in, free), cost/zonesOf(in)*(1-tolerance))
	if !math.IsInf(m.cost, 1) {
		t.Errorf("seed %d: %+v costs %.2f, and the model has %.2f", seed, limit, cost, m.cost)
	}
	return cost, m.exact
}
