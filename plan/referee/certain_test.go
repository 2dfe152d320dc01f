package referee

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// unsure makes some numbers of documents uncertain.
func unsure(seed uint64, d documents) {
	w := writer{Rand: rand.New(rand.NewPCG(seed, 18))}
	vary := func(e *element, name string) {
		old := e.get(name)
		if old == "" || !w.chance(0.6) {
			return
		}
		x, unit := number(old), unitOf(old)
		e.set(name, pick(w, fmt.Sprintf("%g..%g%s", 0.7*x, 1.5*x, unit), fmt.Sprintf("%g..%g..%g%s", x, x, 3*x, unit), fmt.Sprintf("%g%s~20%%", x, unit)))
	}
	for _, e := range d.sla.all("sla") {
		vary(e, "rate")
		vary(e, "time")
		for _, h := range e.all("hours") {
			if h.get("rate") != "0" {
				vary(h, "rate")
			}
		}
	}
	for _, e := range d.app.all("compute") {
		vary(e, "time")
	}
	for _, e := range d.app.all("io") {
		vary(e, "record_size")
	}
	for _, e := range d.app.all("dataset") {
		if e.get("working_set") == "" {
			vary(e, "size")
		}
	}
	for _, e := range d.hw.all("storage_unit") {
		vary(e, "rateR")
	}
}

// drawn reads documents with every uncertain number where at says.
func drawn(f [3][2]string, at func(spec.Number) float64) (in plan.Input, err error) {
	edit := spec.Drawn(at)
	if in.App, err = spec.ReadApplication(f[0][0], []byte(f[0][1]), edit); err != nil {
		return in, err
	}
	if in.HW, err = spec.ReadHardware(f[1][0], []byte(f[1][1]), edit); err != nil {
		return in, err
	}
	in.SLA, err = spec.ReadSLA(f[2][0], []byte(f[2][1]), in.App, edit)
	return in, err
}

// draws are documents with their uncertain numbers; there are none if it is too much for the model to plan
// for each.
func draws(seed uint64, n int) (d documents, u plan.Uncertain, ok bool) {
	d = documentsOf(seed, 1)
	in, err := parse(d.files())
	if err != nil || len(in.App.Phases()) > 1 || len(architectures(in)) > 12 {
		return d, u, false
	}
	unsure(seed, d)
	if d.files() == documentsOf(seed, 1).files() {
		return d, u, false // nothing is uncertain
	}
	if u.Median, err = drawn(d.files(), func(spec.Number) float64 { return 0.5 }); err != nil {
		return d, u, false
	}
	for i := range n {
		chance := rand.New(rand.NewPCG(seed, uint64(100+i)))
		in, err := drawn(d.files(), func(spec.Number) float64 { return chance.Float64() })
		if err != nil {
			return d, u, false
		}
		u.Draws = append(u.Draws, in)
	}
	u.Worse = func(q float64) (plan.Input, error) {
		return drawn(d.files(), func(n spec.Number) float64 { return 0.5 + (q-0.5)*float64(plan.Worse(n)) })
	}
	return d, u, true
}

// The model plans for every draw by itself. A plan that meets k draws costs no less than that of the k-th
// cheapest, and that of the cheapest draw is found. What a plan is said to meet, it meets by the docs; and more
// certainty never costs less.
func TestCertaintyAgainstModel(t *testing.T) {
	from, to := seeds(t, 25, 300)
	const n = 8
	var c struct{ compared, none, large, met, cautious int }
	for seed := from; seed <= to; seed++ {
		d, u, ok := draws(seed, n)
		if !ok {
			continue
		}
		var alone []float64
		exact := true
		for _, in := range u.Draws {
			m := model(in, d.colocate, split(in, plan.Plan{}), math.Inf(1))
			alone, exact = append(alone, zonesOf(in)*m.cost), exact && m.exact
		}
		if !exact {
			c.large++
			continue
		}
		slices.Sort(alone)
		var levels []float64
		for k := range n {
			levels = append(levels, float64(k+1)/n)
		}
		rows, err := plan.Certainties(u, plan.Options{Colocate: d.colocate, Nodes: 200}, levels, func(int, int) {})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		c.compared++
		wrong := func(format string, args ...any) {
			t.Errorf("seed %d: "+format, append([]any{seed}, args...)...)
			keep(t, seed, d.files(), d.colocate)
		}
		before := 0.0
		for k, row := range rows {
			if row.Bound > alone[k]*(1+tolerance) {
				wrong("%d of %d draws are said to cost %.2f at least, and the model has %.2f", k+1, n, row.Bound, alone[k])
			}
			if row.Plan == nil {
				c.none++
				before = math.Inf(1)
				continue
			}
			if cost := row.Plan.Cost; cost < before*(1-tolerance) || cost < alone[k]*(1-tolerance) {
				wrong("%d of %d draws cost %.2f, one less %.2f, and the model has %.2f at least", k+1, n, cost, before, alone[k])
			}
			before = row.Plan.Cost
			met := 0
			for _, in := range u.Draws {
				says, err := row.Plan.Carries(in), carried(in, *row.Plan, d.colocate)
				met += btoi(says)
				c.met += btoi(says)
				c.cautious += btoi(!says && err == nil)
				if says && err != nil {
					wrong("a plan for %.2f is said to carry a draw, and %v", row.Plan.Cost, err)
				}
			}
			if met <= k || math.Abs(row.Met-float64(met)/n) > 1e-9 {
				wrong("%d of %d draws: %d are met, and %v was said", k+1, n, met, row.Met)
			}
		}
		if first := rows[0]; !math.IsInf(alone[0], 1) && (first.Plan == nil || proven(*first.Plan) && first.Plan.Cost > alone[0]*(1+tolerance)) {
			wrong("one draw costs %+v, and the model has %.2f", first, alone[0])
		}
	}
	t.Logf("%+v", c)
	if c.compared == 0 {
		t.Error("nothing was compared")
	}
}
