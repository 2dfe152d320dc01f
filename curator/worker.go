package curator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
)

// A worker does units of a scan, one at a time.
type worker struct {
	c     *Curator
	scan  scan
	name  string
	first int // where it begins to look for a unit
	jobs  []Job
	*desk // nil until it has a unit
}

// A desk is what a worker needs to do a unit.
type desk struct {
	inputs map[string][]mapping // by table
	pairs  *shuffle.Sorter      // that the ranges emit
	tasks  *shuffle.Sorter      // that the partitions propose
	memory int                  // for merges
	record kv.Record            // that is being mapped: here, so that it is not allocated each time
}

// A mapping is what one job does with the records of a table.
type mapping struct {
	job     string
	filters []func(*kv.Record) bool
	do      func(*kv.Record, *Pairs) error
	out     *Pairs
}

// newWorker makes the nth worker of this process.
func (c *Curator) newWorker(s scan, jobs []Job, n int) *worker {
	return &worker{c: c, scan: s, name: fmt.Sprintf("%s/%d", c.o.Name, n), first: n * s.Units / c.o.Workers, jobs: jobs}
}

// newDesk gives half of the memory to the sorting of pairs, a quarter to that of tasks and a quarter to merges.
func newDesk(jobs []Job, memory, parts int) *desk {
	d := &desk{inputs: map[string][]mapping{}, memory: memory / 4,
		pairs: shuffle.NewSorter(memory/2, parts), tasks: shuffle.NewSorter(memory/4, 1)}
	for i, job := range jobs {
		for k, in := range job.Inputs {
			out := &Pairs{d.pairs, uint16(i), uint8(k)}
			d.inputs[in.Table] = append(d.inputs[in.Table], mapping{job.Name, in.Filters, in.Map, out})
		}
	}
	return d
}

// run does units until all are done, by whomever.
func (w *worker) run(ctx context.Context) error {
	var units []unit // as this worker knows them; nil: to be read again
	var read time.Time
	for wait := time.Millisecond; ; {
		fresh := units == nil || time.Since(read) > w.c.o.Poll
		if fresh {
			var err error
			if units, err = w.look(ctx); err != nil {
				return err
			}
			read = time.Now()
		}
		i, left := next(units, time.Now(), w.first)
		switch {
		case !left && fresh:
			return nil
		case i >= 0:
			var err error
			if units, err = w.do(ctx, units, i); err != nil && !errors.Is(err, kv.ErrConflict) {
				return err
			}
			wait = time.Millisecond
		case fresh: // others have all that is left
			if err := sleep(ctx, wait); err != nil {
				return err
			}
			wait = min(2*wait, w.c.o.Poll)
			units = nil
		default:
			units = nil
		}
	}
}

// look reads the units, once the curator is not paused.
func (w *worker) look(ctx context.Context) ([]unit, error) {
	for {
		p, err := w.c.Paused(ctx)
		if err != nil {
			return nil, err
		}
		if p.Why == "" {
			break
		}
		if err := sleep(ctx, w.c.o.Poll); err != nil {
			return nil, err
		}
	}
	units, err := w.c.units(ctx, w.scan)
	if err != nil {
		return nil, err
	}
	return units, failed(units)
}

// failed gives the error of a job that ended the scan.
func failed(units []unit) error {
	for _, u := range units {
		if u.Error != "" {
			return &jobError{msg: u.Error}
		}
	}
	return nil
}

// do claims a unit and does it. It gives the units as they are then, as far as this worker knows;
// nil if it was not done. It is kv.ErrConflict if another has it, before or meanwhile.
func (w *worker) do(ctx context.Context, units []unit, i int) ([]unit, error) {
	u := units[i]
	cl, err := w.c.claim(ctx, w.scan.ID, u, w.name)
	if err != nil {
		return nil, err
	}
	if w.desk == nil {
		w.desk = newDesk(w.jobs, w.c.o.Memory/w.c.o.Workers, w.scan.Parts)
	}
	held, lost := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { cl.keep(held, lost) })
	if u.maps() {
		err = w.mapRange(held, cl, u)
	} else {
		err = w.reducePartition(held, cl, u, units)
	}
	if err != nil && held.Err() != nil {
		err = context.Cause(held)
	}
	lost(nil)
	keeper.Wait()
	if err == nil {
		units[i] = cl.unit
		return units, nil
	}
	return nil, w.settle(context.WithoutCancel(ctx), cl, units, err)
}

// settle records why a unit was not done, and frees it.
func (w *worker) settle(ctx context.Context, cl *claim, units []unit, err error) error {
	if errors.Is(err, kv.ErrConflict) {
		return err
	}
	change := (*unit).free
	var ofJob *jobError
	if errors.As(err, &ofJob) {
		change = func(u *unit) { u.Error = ofJob.Error() }
	}
	var damaged *shuffle.Damaged
	if errors.As(err, &damaged) {
		err = w.c.redo(ctx, w.scan.ID, units, damaged)
	}
	return errors.Join(err, cl.change(ctx, change))
}

// redo has the unit done again that made a damaged run.
func (c *Curator) redo(ctx context.Context, scan uint64, units []unit, damaged *shuffle.Damaged) error {
	for _, u := range units {
		if slices.ContainsFunc(u.Runs, func(r shuffle.Run) bool { return r.Name == damaged.Run }) {
			u.again()
			return c.set(ctx, scan, &u)
		}
	}
	return damaged // of a merge: nobody else has made it
}

// A jobError is an error of a job's Map or Reduce.
type jobError struct {
	msg string
	err error // nil if it was read from a unit
}

func (e *jobError) Error() string { return e.msg }
func (e *jobError) Unwrap() error { return e.err }

func failure(job, at string, err error) error {
	return &jobError{fmt.Sprintf("curator: job %s: %s: %v", job, at, err), err}
}

// batch is how many records or pairs are read between looks at the pace, the clock and the pause.
const batch = 64 // which take a tenth of a millisecond

// mapRange has every job map the records of a range.
func (w *worker) mapRange(ctx context.Context, cl *claim, u unit) error {
	w.pairs.Reset()
	reader, inputs := w.c.o.Tables[u.Table], w.inputs[u.Table]
	if reader == nil {
		return fmt.Errorf("curator: a range of scan %d is damaged: there is no table %q", w.scan.ID, u.Table)
	}
	n, saved := 0, time.Now()
	for r, err := range reader.Scan(ctx, u.Rest) {
		if err != nil {
			return fmt.Errorf("curator: scan table %s: %w", u.Table, err)
		}
		w.record = r
		if err := mapRecord(inputs, &w.record); err != nil {
			return err
		}
		n++
		full := w.pairs.Full()
		if n < batch && !full {
			continue
		}
		if err := cl.yield(ctx, n); err != nil {
			return err
		}
		n = 0
		if full || time.Since(saved) > w.c.o.TTL {
			if err := w.save(ctx, cl, &u, reader.Rest(u.Rest, r.Key), false); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
	if err := cl.yield(ctx, n); err != nil {
		return err
	}
	return w.save(ctx, cl, &u, kv.Range{}, true)
}

// mapRecord allocates nothing.
func mapRecord(inputs []mapping, r *kv.Record) error {
	for i := range inputs {
		in := &inputs[i]
		if !passes(in.filters, r) {
			continue
		}
		if err := in.do(r, in.out); err != nil {
			return failure(in.job, fmt.Sprintf("record %x, %x", r.Key.Part, r.Key.Row), err)
		}
	}
	return nil
}

func passes(filters []func(*kv.Record) bool, r *kv.Record) bool {
	for _, f := range filters {
		if !f(r) {
			return false
		}
	}
	return true
}

// save writes the pairs so far, and records that only rest is left of the range.
func (w *worker) save(ctx context.Context, cl *claim, u *unit, rest kv.Range, done bool) error {
	made := w.pairs.Len()
	if made > 0 {
		run, err := w.pairs.Write(ctx, w.c.o.Space, fmt.Sprint(cl.name, len(u.Runs)))
		if err != nil {
			return err
		}
		u.Runs = append(u.Runs, run)
	}
	u.Rest = rest
	return cl.change(ctx, func(now *unit) {
		now.Rest, now.Runs, now.Done = u.Rest, u.Runs, done
		now.Read += cl.live.Swap(0)
		now.Made += int64(made)
		now.Live = 0
	})
}

// reducePartition has every job reduce its keys of a partition.
func (w *worker) reducePartition(ctx context.Context, cl *claim, u unit, units []unit) (err error) {
	w.tasks.Reset()
	var sections []shuffle.Section
	for _, other := range units {
		for _, run := range other.Runs {
			if other.maps() {
				sections = append(sections, run.Section(u.Part))
			}
		}
	}
	pairs, err := shuffle.NewMerge(ctx, w.c.o.Space, w.memory, cl.name+"merge-", sections)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pairs.Close()) }()
	g := group{ctx: ctx, pairs: pairs, claim: cl}
	out := proposals{ctx: ctx, w: w, name: cl.name}
	values, propose := Values{group: &g}, out.propose
	for g.next(); g.more && out.err == nil; g.skip() {
		g.begin(w.jobs)
		out.job = g.job.Name
		if err := g.job.Reduce(g.key, &values, propose); err != nil {
			return failure(g.job.Name, fmt.Sprintf("key %x", g.key), err)
		}
	}
	if err := errors.Join(g.err, pairs.Err(), out.err); err != nil {
		return err
	}
	if err := out.flush(); err != nil {
		return err
	}
	return cl.change(ctx, func(now *unit) {
		now.Runs, now.Read, now.Made, now.Live, now.Done = out.runs, g.read, out.made, 0, true
	})
}

// A group goes over the pairs of a merge, key by key.
type group struct {
	ctx   context.Context
	pairs *shuffle.Merge
	claim *claim
	job   *Job
	index uint16 // of the job
	key   []byte
	begun bool // its first value was read
	more  bool // there is a pair
	read  int64
	err   error
}

// next moves to the next pair.
func (g *group) next() {
	if g.read%batch == 0 && g.read > 0 {
		g.err = g.claim.yield(g.ctx, batch)
	}
	g.more = g.err == nil && g.pairs.Next()
	if g.more {
		g.read++
	}
}

// begin makes the present pair's job and key those of the group.
func (g *group) begin(jobs []Job) {
	p := g.pairs.Pair()
	g.job, g.index, g.key, g.begun = &jobs[p.Job], p.Job, append(g.key[:0], p.Key...), false
}

// same tells whether the present pair is of the group.
func (g *group) same() bool {
	if !g.more {
		return false
	}
	p := g.pairs.Pair()
	return p.Job == g.index && bytes.Equal(p.Key, g.key)
}

// value makes v the next value of the group.
func (g *group) value(v *Values) bool {
	if g.begun && g.same() {
		g.next()
	}
	g.begun = true
	if !g.same() {
		return false
	}
	p := g.pairs.Pair()
	v.Table, v.Bytes = g.job.Inputs[p.Source].Table, p.Value
	return true
}

// skip passes over what the job has left of its group.
func (g *group) skip() {
	for g.same() {
		g.next()
	}
}

// proposals collects the tasks of a partition.
type proposals struct {
	ctx  context.Context
	w    *worker
	name string
	job  string
	runs []shuffle.Run
	made int64
	err  error
}

func (o *proposals) propose(t task.Task) {
	t.Job = o.job
	o.w.tasks.Add(pairOf(t))
	o.made++
	if o.w.tasks.Full() && o.err == nil {
		o.err = o.flush()
	}
}

func (o *proposals) flush() error {
	if o.w.tasks.Len() == 0 {
		return nil
	}
	run, err := o.w.tasks.Write(o.ctx, o.w.c.o.Space, fmt.Sprint(o.name, len(o.runs)))
	o.runs = append(o.runs, run)
	return err
}
