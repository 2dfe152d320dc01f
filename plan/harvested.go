package plan

import (
	"cmp"
	"container/heap"
	"errors"
	"math"
	"slices"

	"gleaner/input"
	"gleaner/plan/spec"
)

// A Harvest is what tasks of a batch job are planned on harvested cores, in one phase.
type Harvest struct {
	Phase int
	Tasks []int
	Share float64 // of their executions
	Cores float64 // that they keep busy, with the work that is redone
	Redo  float64 // mean factor of work that kills cost
	Hours float64 // how long
}

// harvest computes how much of a job runs on harvested cores: in each phase, the same
// share of the executions of all tasks that may. Requests never do.
func (n *needing) harvest() {
	app := n.in.App
	n.share, n.again = make([]float64, len(app.Tasks)), make([]float64, len(app.Tasks))
	for t := range n.again {
		n.again[t] = 1
	}
	h, job := n.in.Harvested, n.in.SLA.Job
	if h == nil || job == nil {
		return
	}
	cores, kills := supply(*h, *job, len(n.out.Phases) > 1)
	for p := range n.out.Phases {
		n.harvestPhase(p, *h, cores, kills)
	}
}

// supply is how many cores a job gets and how often their tasks are killed: over its
// time if it has one phase, and in the worst hour of it if it has several, because
// it is open when each runs. A job that may start at any time gets the least of all starts, and the most
// kills: those are where it starts or ends with an hour, because in between all sums change evenly.
func supply(h spec.Harvested, job spec.Job, phases bool) (cores, kills float64) {
	starts := []float64{job.Start}
	if job.Start == spec.AnyTime {
		starts = nil
		_, rest := math.Modf(job.Time / 3600)
		for k := range spec.WeekHours {
			starts = append(starts, float64(k), float64(k)+1-rest)
		}
	}
	cores = math.Inf(1)
	for _, start := range starts {
		mean, least, rate := h.Window(start, job.Time/3600)
		if phases {
			mean = least
		}
		cores, kills = min(cores, mean), max(kills, rate)
	}
	return cores, kills
}

func (n *needing) harvestPhase(phase int, h spec.Harvested, cores, kills float64) {
	var busy, net, memory, work float64 // of all executions, with those redone
	out := Harvest{Phase: phase, Hours: n.out.Seconds[phase] / 3600}
	redo := map[int]float64{}
	for _, t := range n.in.App.Starts() {
		p := n.clock.profile(t)
		if n.phase(t) != phase || !n.harvestable(t, p) {
			continue
		}
		again := Redo(h, n.in.App.Tasks[t].Harvest, kills)
		if math.IsInf(again, 1) {
			continue
		}
		redo[t] = again
		out.Tasks = append(out.Tasks, t)
		work += n.freq[t] * p.cpu
		busy += again * n.freq[t] * p.cpu
		memory += again * n.freq[t] * p.cpu * p.memory
		net += again * n.freq[t] * n.sent(p)
	}
	if busy == 0 {
		return
	}
	share := func(cores float64) float64 {
		out := min(1, cores/busy)
		if net > 0 {
			out = min(out, cores*h.BW/net)
		}
		if memory > 0 {
			out = min(out, cores*h.Memory/memory)
		}
		return out
	}
	least, most := n.in.used()
	if out.Share = share(most * cores); out.Share < dust {
		return
	}
	redone := share(least * cores)
	for _, t := range out.Tasks {
		n.share[t], n.again[t] = out.Share, 1-redone+redone*redo[t]
	}
	out.Cores, out.Redo = out.Share*busy, busy/work
	n.out.Harvest = append(n.out.Harvest, out)
}

// harvestable reports whether a task may run on harvested cores: it says so, it computes,
// and it needs nothing that stays on its server.
func (n *needing) harvestable(t int, p *profile) bool {
	local := slices.ContainsFunc(p.accesses, func(a access) bool { return !n.in.App.Datasets[a.dataset].Remote })
	return n.in.App.Tasks[t].Harvest > 0 && p.cpu > 0 && p.held == 0 && !local
}

// sent is the bytes that an execution sends and receives.
func (n *needing) sent(p *profile) float64 {
	sum := 0.0
	for _, a := range p.accesses {
		sum += a.records * a.size
	}
	for _, c := range p.calls {
		sum += c.n * c.message
	}
	return sum
}

// Redo is by what factor kills increase the work of tasks of a length, in seconds; infinite if
// they never end. A kill costs the work that was lost where that was measured; of longer
// tasks in proportion more, of shorter ones no less, but at most all of it.
func Redo(h spec.Harvested, length, kills float64) float64 {
	lost := length / 2
	switch {
	case h.Lost > 0:
		lost = min(h.Lost*max(1, length/h.Task), length)
	case h.Measured:
		lost = 0
	}
	if left := 1 - kills*lost/3600; left > 0 {
		return 1 / left
	}
	return math.Inf(1)
}

// A use is how much of the harvested capacity is used, at least and at most: shares of
// it. Needs are exact if both are equal. Otherwise they are no more than those of any use in
// between: bought servers take what the most leaves, and data is read again only for the least.
type use struct {
	least, most float64
	bound       float64
}

func (in Input) used() (least, most float64) {
	if in.use == nil {
		return 1, 1
	}
	return in.use.least, in.use.most
}

// narrow is the width at which a use is not divided any further.
const narrow = 1.0 / 64

type uses []use

func (q uses) Len() int { return len(q) }
func (q uses) Less(i, j int) bool {
	return q[i].bound < q[j].bound || q[i].bound == q[j].bound && q[i].least > q[j].least
}
func (q uses) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *uses) Push(x any)   { *q = append(*q, x.(use)) }
func (q *uses) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// harvesting finds the cheapest plan over all uses of harvested capacity. To use all of it
// may be dear: what is killed reads its data again, and that may take a disk
// more. So uses are bounded, and divided until the bound is the cost.
func harvesting(in Input, o Options, open [][]Choice) (Plan, error) {
	h := &harvestSearch{in: in, o: o, open: open, lower: math.Inf(1)}
	for _, u := range []float64{1, 0} {
		if err := h.try(u); err != nil {
			return Plan{}, err
		}
	}
	if err := h.push(use{least: 0, most: 1}); err != nil {
		return Plan{}, err
	}
	for h.queue.Len() > 0 && !h.stopped {
		u := heap.Pop(&h.queue).(use)
		if h.best != nil && u.bound >= h.best.Cost*(1-max(o.Gap, 1e-9)) || u.most-u.least <= narrow {
			h.lower = min(h.lower, u.bound)
			continue
		}
		middle := (u.least + u.most) / 2
		if err := cmp.Or(h.try(middle), h.push(use{least: u.least, most: middle}), h.push(use{least: middle, most: u.most})); err != nil {
			return Plan{}, err
		}
	}
	return h.finish()
}

type harvestSearch struct {
	in      Input
	o       Options
	open    [][]Choice
	best    *Plan
	queue   uses
	lower   float64
	packed  int
	unfit   error // why the last use that fits nowhere does not
	stopped bool
}

// with searches at a use. A use at which nothing fits has no plan and no error.
func (h *harvestSearch) with(u use) (*Plan, error) {
	in := h.in
	in.use = &u
	p, err := searched(in, h.o, h.open)
	h.packed += p.Packed
	switch {
	case errors.Is(err, ErrStopped) && h.best != nil:
		h.stopped = true
		return nil, nil
	case input.Is(err):
		h.unfit = err
		return nil, nil
	case err != nil:
		return nil, err
	}
	h.stopped = h.stopped || p.Stopped
	return &p, nil
}

// try plans for one use.
func (h *harvestSearch) try(u float64) error {
	p, err := h.with(use{least: u, most: u})
	if p != nil && (h.best == nil || p.Cost < h.best.Cost*(1-1e-9)) {
		h.best = p
	}
	return err
}

// push bounds a range of uses and puts it into the queue.
func (h *harvestSearch) push(u use) error {
	p, err := h.with(u)
	switch {
	case p != nil:
		u.bound = p.LowerBound
		heap.Push(&h.queue, u)
	case h.stopped:
		heap.Push(&h.queue, u) // its bound is 0
	}
	return err
}

func (h *harvestSearch) finish() (Plan, error) {
	if h.best == nil {
		return Plan{}, h.unfit
	}
	for _, u := range h.queue {
		h.lower = min(h.lower, u.bound)
	}
	out := *h.best
	out.LowerBound, out.Packed, out.Stopped = min(h.lower, out.Cost), h.packed, h.stopped
	return out, nil
}
