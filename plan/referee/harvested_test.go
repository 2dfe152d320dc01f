package referee

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/spec"
)

// courseOf is the course of a plan.
func courseOf(in plan.Input, p plan.Plan) course {
	out := course{seconds: p.Needs.Seconds}
	if len(p.Needs.Harvest) > 0 {
		out.again = again(in)
		out.harvested = make([]float64, len(in.App.Phases()))
		for _, h := range p.Needs.Harvest {
			out.harvested[h.Phase] = h.Share
		}
	}
	return out
}

// supplied is how many cores a job gets, and how often they are killed: what it gets if it starts when
// it says, or the least of all starts. Sums over hours change evenly between starts and
// ends of hours.
func supplied(in plan.Input) (cores, kills float64) {
	h, job := in.Harvested, in.SLA.Job
	hours := job.Time / 3600
	starts := []float64{job.Start}
	if job.Start < 0 {
		starts = nil
		for k := range 168 {
			starts = append(starts, float64(k), math.Mod(float64(k)-math.Mod(hours, 168)+336, 168))
		}
	}
	cores = math.Inf(1)
	for _, start := range starts {
		held, dead, least := 0.0, 0.0, math.Inf(1)
		for k := int(start); float64(k) < start+hours; k++ {
			part := min(float64(k+1), start+hours) - max(float64(k), start)
			if part > 1e-9 {
				least = min(least, h.Cores[k%168])
			}
			held += part * h.Cores[k%168]
			dead += part * h.Cores[k%168] * h.Kills[k%168]
		}
		if len(in.App.Phases()) > 1 {
			cores = min(cores, least)
		} else {
			cores = min(cores, held/hours)
		}
		if held > 0 {
			kills = max(kills, dead/held)
		}
	}
	return cores, kills
}

// redo is how often the work of a task is done on harvested cores: infinite if it never ends.
func redo(h spec.Harvested, length, kills float64) float64 {
	lost := length / 2
	if h.Measured && h.Lost == 0 {
		lost = 0
	}
	if h.Lost > 0 {
		lost = min(length, h.Lost*max(1, length/h.Task))
	}
	if rest := 1 - kills*lost/3600; rest > 0 {
		return 1 / rest
	}
	return math.Inf(1)
}

// again is how often the work of each task is done if it is harvested; 0 if it may not be.
func again(in plan.Input) []float64 {
	r := reading{in: in, arch: architectures(in)[0], paths: map[int]path{}} // where data lies does not matter
	_, kills := supplied(in)
	out := make([]float64, len(in.App.Tasks))
	for t, task := range in.App.Tasks {
		p := r.path(t)
		times := redo(*in.Harvested, task.Harvest, kills)
		if task.Harvest > 0 && p.cpu > 0 && p.held == 0 && !math.IsInf(times, 1) {
			out[t] = times
		}
		for k := range p.io {
			if !in.App.Datasets[k.dataset].Remote {
				out[t] = 0
			}
		}
	}
	for _, t := range in.App.Tasks {
		for _, op := range t.Path {
			if op.Call != nil {
				out[op.Call.Task] = 0
			}
		}
	}
	return out
}

// redone is how often an execution of a task is done on average.
func (r reading) redone(task int) float64 {
	if r.course.harvested == nil || r.course.again[task] == 0 {
		return 1
	}
	share := r.course.harvested[r.phase(task)]
	return 1 - share + share*r.course.again[task]
}

// divided is how often tasks run on bought servers, and how often they run at all.
func (r reading) divided(f []float64) (bought, done []float64) {
	bought, done = slices.Clone(f), slices.Clone(f)
	if r.course.harvested == nil {
		return bought, done
	}
	for t := range f {
		if r.course.again[t] > 0 {
			bought[t] *= 1 - r.course.harvested[r.phase(t)]
			done[t] *= r.redone(t)
		}
		if bought[t] <= 1e-9*f[t] {
			bought[t] = 0
		}
	}
	return bought, done
}

// most is the largest share of each phase that the supply carries: cores, network and memory beside them.
func most(in plan.Input, seconds []float64) []float64 {
	r := reading{in: in, arch: architectures(in)[0], paths: map[int]path{}, course: course{seconds: seconds}}
	f, again := r.frequencies(), again(in)
	cores, _ := supplied(in)
	out := make([]float64, len(in.App.Phases()))
	for ph := range out {
		var cpu, net, memory float64
		for t, times := range again {
			if times == 0 || r.phase(t) != ph {
				continue
			}
			p := r.path(t)
			cpu += times * f[t] * p.cpu
			memory += times * f[t] * p.cpu * p.coreMemory
			for k, n := range p.io {
				net += times * f[t] * n * k.size
			}
			for _, bytes := range p.sent {
				net += times * f[t] * bytes
			}
		}
		if cpu == 0 {
			continue
		}
		out[ph] = cores / cpu
		if net > 0 {
			out[ph] = min(out[ph], cores*in.Harvested.BW/net)
		}
		if memory > 0 {
			out[ph] = min(out[ph], cores*in.Harvested.Memory/memory)
		}
	}
	return out
}

// harvests are courses with more and more of the supply used, from none to all. Other splits of the time are
// tried with half of it and all.
func harvests(in plan.Input, courses []course) []course {
	out := slices.Clone(courses[:1]) // the plan's
	for i, c := range courses {
		for _, use := range []float64{0, 0.25, 0.5, 0.8, 1} {
			if i > 0 && use != 0.5 && use != 1 {
				continue
			}
			now := course{seconds: c.seconds, again: again(in)}
			for _, x := range most(in, c.seconds) {
				now.harvested = append(now.harvested, min(1, use*x))
			}
			out = append(out, now)
		}
	}
	return out
}

// supply makes documents of a job, most tasks of which may be harvested, and a supply for it.
func supply(seed uint64) (documents, *element) {
	w := writer{Rand: rand.New(rand.NewPCG(seed, 17))}
	w.datasets, w.phases = 1+w.IntN(2), 1+btoi(w.chance(0.2))
	w.tasks = max(w.phases, 1+w.IntN(2))
	d := documents{hw: w.hardware(1), colocate: w.chance(0.4)}
	d.app, d.sla = w.application()
	w.targets(d.sla)
	for _, e := range d.app.all("dataset") {
		if w.chance(0.8) {
			for _, name := range []string{"remote", "private", "partitioned"} {
				e.drop(name)
			}
		}
	}
	for _, e := range d.app.all("task") {
		if w.chance(0.8) {
			e.drop("memory_per")
		}
		if w.chance(0.9) {
			e.set("harvest", pick(w, "10min", "1h", "2h"))
		}
		e.add(el("compute", "time", w.number(1, 100)+"ms"))
	}
	job := d.sla.all("sla")[0]
	longer := pick(w, 1, 10, 33.0) // as long as the supply changes with the hours
	scale(job, "job", longer)
	scale(job, "time", longer)
	if w.chance(0.5) {
		job.set("start", pick(w, "Mon 00:00", "Sun 23:30", "Wed 12:15"))
	}
	week := func(of func() string) string {
		if w.chance(0.3) {
			return of()
		}
		var out []string
		for range 168 {
			out = append(out, of())
		}
		return strings.Join(out, " ")
	}
	most := pick(w, 1, 3, 10, 30.0)
	e := el("harvested", "cores", week(func() string { return fmt.Sprintf("%.3g", most*w.Float64()) }), "BW", pick(w, "10MBps", "1Gbps", "1Gbps"), "memory", pick(w, "1GB", "4GB"))
	if w.chance(0.7) {
		e.set("kills", week(func() string { return fmt.Sprintf("%.3g", w.Float64()) }))
	}
	if w.chance(0.4) {
		e.set("task", "1h")
		e.set("lost", pick(w, "5min", "40min"))
	}
	return d, e
}

// withSupply reads documents with a supply.
func withSupply(t testing.TB, d documents, e *element) plan.Input {
	t.Helper()
	in, err := parse(d.files())
	if err != nil {
		t.Fatal(err)
	}
	h, err := spec.ReadHarvested("supply.xml", []byte(e.text(false)))
	if err != nil {
		t.Fatal(err)
	}
	in.Harvested = &h
	return in
}

// keepSupply keeps the documents of a test that failed.
func keepSupply(t testing.TB, seed uint64, d documents, e *element) {
	keep(t, seed, d.files(), d.colocate)
	dir, err := os.MkdirTemp("", fmt.Sprintf("referee-supply-%d-", seed))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "supply.xml"), []byte(e.text(false)), 0o600)
	}
	t.Logf("with --harvest %s (%v)", filepath.Join(dir, "supply.xml"), err)
}

// As TestAgainstModel, with jobs of which a part may be harvested: no use of the supply is cheaper, and no
// plan uses more than there is.
func TestHarvestAgainstModel(t *testing.T) {
	from, to := seeds(t, 20, 600)
	var n struct{ compared, refused, unproven, stopped, large, harvested, part int }
	for seed := from; seed <= to; seed++ {
		d, e := supply(seed)
		in := withSupply(t, d, e)
		p, err := planned(in, d.colocate, 5*time.Second)
		if errors.Is(err, plan.ErrStopped) {
			n.stopped++
			continue
		}
		n.compared++
		n.refused += btoi(err != nil)
		n.unproven += btoi(err == nil && !proven(p))
		if len(p.Needs.Harvest) > 0 {
			n.harvested++
			n.part += btoi(p.Needs.Harvest[0].Share < 1)
		}
		wrong := judge(in, d.colocate, p, err)
		if err == nil && wrong == nil {
			wrong = enough(in, p)
		}
		if wrong == nil {
			wrong = asMuch(in)
		}
		if errors.Is(wrong, errTooLarge) {
			n.large++
		} else if wrong != nil {
			t.Errorf("seed %d: %v", seed, wrong)
			keepSupply(t, seed, d, e)
		}
	}
	t.Logf("%+v", n)
}

// enough says what a plan harvests that there is not.
func enough(in plan.Input, p plan.Plan) error {
	how := courseOf(in, p)
	for ph, x := range most(in, how.seconds) {
		if how.harvested != nil && how.harvested[ph] > min(1, x)*(1+tolerance) {
			return fmt.Errorf("a share of %v is harvested in phase %d, and the supply is for %v", how.harvested[ph], ph, x)
		}
	}
	return nil
}

// asMuch says where planner and model disagree about how much the whole supply carries.
func asMuch(in plan.Input) error {
	seconds := cut(in, 0.5)
	got := make([]float64, len(seconds))
	for _, h := range plan.NeedsOf(in, plan.Architectures(in, 1000)[0], seconds).Harvest {
		got[h.Phase] = h.Share
	}
	for ph, want := range most(in, seconds) {
		if want = min(1, want); math.Abs(got[ph]-want) > tolerance*want+1e-9 {
			return fmt.Errorf("in phase %d the supply carries %v, and %v in the model", ph, got[ph], want)
		}
	}
	return nil
}

// More cores, and fewer kills, never cost more; a job that is not harvested never costs less.
func TestHarvestLaws(t *testing.T) {
	from, to := seeds(t, 10, 200)
	held := 0
	for seed := from; seed <= to; seed++ {
		d, e := supply(seed)
		cost := func(e *element) ([2]float64, bool) {
			in := withSupply(t, d, e)
			p, err := planned(in, d.colocate, 2*time.Second)
			if errors.Is(err, plan.ErrStopped) {
				return [2]float64{}, false
			}
			if err != nil && !input.Is(err) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err != nil {
				return [2]float64{math.Inf(1), math.Inf(1)}, true
			}
			return [2]float64{p.LowerBound, p.Cost}, true
		}
		before, ok := cost(e)
		if !ok {
			continue
		}
		for _, law := range []struct {
			name   string
			factor map[string]float64
			most   float64 // of what it was
			least  float64
		}{
			{"twice the cores", map[string]float64{"cores": 2}, 1, 0},
			{"a tenth of the cores", map[string]float64{"cores": 0.1}, math.Inf(1), 1},
			{"no cores", map[string]float64{"cores": 0}, math.Inf(1), 1},
			{"no kills", map[string]float64{"kills": 0}, 1, 0},
			{"twice the kills", map[string]float64{"kills": 2}, math.Inf(1), 1},
		} {
			after := e.clone()
			for name, k := range law.factor {
				var words []string
				for _, word := range strings.Fields(after.get(name)) {
					words = append(words, fmt.Sprintf("%g", k*number(word)))
				}
				if words != nil {
					after.set(name, strings.Join(words, " "))
				}
			}
			now, ok := cost(after)
			if !ok {
				continue
			}
			held++
			if now[0] > law.most*before[1]*(1+tolerance) || now[1] < law.least*before[0]*(1-tolerance) {
				t.Errorf("seed %d: %s: a cost from %.2f to %.2f became one from %.2f to %.2f", seed, law.name, before[0], before[1], now[0], now[1])
				keepSupply(t, seed, d, e)
			}
		}
	}
	t.Logf("%d held", held)
	if held == 0 {
		t.Error("no law was checked")
	}
}
