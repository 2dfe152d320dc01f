package curator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
)

// Errors a caller acts on.
var (
	// ErrPaused is returned by Scan while the curator is paused.
	ErrPaused = errors.New("curator: paused")
	// ErrCancelled is returned by Scan when its scan was cancelled, or replaced by another's.
	ErrCancelled = errors.New("curator: the scan was cancelled")
)

// Options say what a curator scans, and with how much.
type Options struct {
	Name   string               // of this process, which no other has that uses the store
	Tables map[string]kv.Reader // by the names that jobs use
	Jobs   []Job
	Space  shuffle.Space // for the curator alone

	Workers    int           // at a time in this process; 0: one
	Memory     int           // bytes for all of them; 0: 64 MiB
	Ranges     int           // of each table; 0: 32
	Partitions int           // of the pairs; 0: 8
	TTL        time.Duration // after which others do what a dead process held; 0: 15 s
	Poll       time.Duration // how often other processes and a pause are looked for; 0: 1 s

	// Pace is called by each worker for every n records or pairs that it has read, and returns when
	// it may read on; nil: at once.
	Pace func(ctx context.Context, n int) error

	// Rest is how many times as long as it has worked each worker rests after some dozen records or pairs, a millisecond at least, so that others get the
	// processor in between; 0: it does not rest.
	Rest int
}

// A Curator scans tables.
type Curator struct {
	o      Options
	state  kv.Table
	leases kv.Leases
	writer *kv.Writer

	scanning sync.Mutex // held by Scan: a lease cannot tell two scans of a process apart
}

// Open gives a curator that keeps its state in store. writer has an id that nobody else ever had.
func Open(ctx context.Context, store kv.Store, writer *kv.Writer, o Options) (*Curator, error) {
	o.Workers, o.Memory, o.Ranges, o.Partitions = cmp.Or(o.Workers, 1), cmp.Or(o.Memory, 64<<20), cmp.Or(o.Ranges, 32), cmp.Or(o.Partitions, 8)
	o.TTL, o.Poll = cmp.Or(o.TTL, 15*time.Second), cmp.Or(o.Poll, time.Second)
	switch {
	case o.Name == "" || o.Space == nil:
		return nil, errors.New("curator: a name and a space for runs are needed")
	case min(o.Workers, o.Memory, o.Ranges, o.Partitions, o.Rest) < 0 || o.Partitions > shuffle.MaxPartitions || o.TTL < 3*o.Poll || o.Poll < 0:
		return nil, fmt.Errorf("curator: workers, memory, ranges, partitions (at most %d) and rest must be positive, and the TTL at least three polls", shuffle.MaxPartitions)
	}
	if err := check(o.Jobs, o.Tables); err != nil {
		return nil, err
	}
	state, err := store.Table(ctx, "curator_scans")
	if err != nil {
		return nil, err
	}
	leases, err := store.Table(ctx, "curator_leases")
	if err != nil {
		return nil, err
	}
	return &Curator{o: o, state: state, leases: kv.Leases{Table: leases, Writer: writer}, writer: writer}, nil
}

func names(tables map[string]kv.Reader) []string { return slices.Sorted(maps.Keys(tables)) }

// A Report says what a scan did.
type Report struct {
	Scan    uint64
	Resumed bool             // it had been begun before
	Records map[string]int64 // read, by table
	Pairs   int64            // emitted
	Bytes   int64            // of their runs
	Tasks   map[string]int64 // handed over, by job
}

// Scan scans the tables of the named jobs, or of all, and hands over the tasks that these propose:
// larger priorities first, and then by job, kind and what. If a scan of the same jobs was
// interrupted, it continues that. If take returns an error, the next Scan hands over the same tasks again.
//
// It is kv.ErrTaken while another process scans, and ErrPaused with the reason while the curator is paused. A
// scan that is paused later waits.
func (c *Curator) Scan(ctx context.Context, take func(task.Task) error, names ...string) (Report, error) {
	jobs, err := choose(c.o.Jobs, names)
	if err != nil {
		return Report{}, err
	}
	p, err := c.Paused(ctx)
	if err != nil {
		return Report{}, err
	}
	if p.Why != "" {
		return Report{}, fmt.Errorf("%w since %s: %s", ErrPaused, p.Since.Format(time.RFC3339), p.Why)
	}
	if !c.scanning.TryLock() {
		return Report{}, fmt.Errorf("curator: %w: this process scans already", kv.ErrTaken)
	}
	defer c.scanning.Unlock()
	var report Report
	err = c.holding(ctx, masterLease, func(ctx context.Context) (err error) {
		report, err = c.master(ctx, jobs, take)
		return err
	})
	return report, err
}

// The master's lease, and what begins the names of those by which other processes say that they work.
const (
	masterLease = "master"
	workerLease = "worker-"
)

// Work does units of the scans that other processes are masters of, until ctx ends. One call of it
// is enough for a process.
func (c *Curator) Work(ctx context.Context) error {
	return c.holding(ctx, workerLease+c.o.Name, func(ctx context.Context) error {
		for {
			s, _, err := c.current(ctx)
			if err != nil {
				return err
			}
			if jobs := c.jobsOf(s); s.Open && jobs != nil {
				err := c.work(ctx, s, jobs)
				var ofJob *jobError
				if err != nil && !errors.Is(err, ErrCancelled) && !errors.As(err, &ofJob) {
					return err
				}
			}
			if err := sleep(ctx, c.o.Poll); err != nil {
				return err
			}
		}
	})
}

// holding calls do while it holds a lease, with a context that ends when the lease is lost.
func (c *Curator) holding(ctx context.Context, name string, do func(context.Context) error) error {
	lease, err := c.leases.Acquire(ctx, name, c.o.Name, time.Now(), c.o.TTL)
	if err != nil {
		return fmt.Errorf("curator: %w", err)
	}
	held, lost := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for sleep(held, c.o.TTL/3) == nil {
			renewed, err := c.leases.Renew(held, lease, time.Now(), c.o.TTL)
			switch {
			case err == nil:
				lease = renewed
			case errors.Is(err, kv.ErrTaken) || !lease.Held(time.Now()):
				lost(err)
				return
			}
		}
	})
	err = do(held)
	if err != nil && held.Err() != nil {
		err = context.Cause(held)
	}
	lost(nil)
	keeper.Wait()
	if e := c.leases.Release(context.WithoutCancel(ctx), lease); !errors.Is(e, kv.ErrTaken) {
		err = errors.Join(err, e)
	}
	return err
}

// master sees a scan through, from its start or from where it was interrupted.
func (c *Curator) master(ctx context.Context, jobs []Job, take func(task.Task) error) (Report, error) {
	s, version, resumed, err := c.begin(ctx, jobs)
	if err != nil {
		return Report{}, err
	}
	for {
		if err := c.work(ctx, s, jobs); err != nil {
			return Report{}, err
		}
		units, err := c.units(ctx, s)
		if err != nil {
			return Report{}, err
		}
		if _, left := next(units, time.Now(), 0); left {
			continue // since then, a run was found to be damaged
		}
		report, err := c.handOver(ctx, s, units, take)
		report.Resumed = resumed
		var damaged *shuffle.Damaged
		if errors.As(err, &damaged) {
			if err := c.redo(ctx, s.ID, units, damaged); err != nil {
				return report, err
			}
			continue
		}
		if err != nil {
			return report, err
		}
		return report, c.finish(ctx, s, version)
	}
}

// work has the workers of this process do units until all are done.
func (c *Curator) work(ctx context.Context, s scan, jobs []Job) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for n := range c.o.Workers {
		all.Go(func() {
			if err := c.newWorker(s, jobs, n).run(ctx); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// handOver calls take with each task.
func (c *Curator) handOver(ctx context.Context, s scan, units []unit, take func(task.Task) error) (Report, error) {
	report := Report{Scan: s.ID, Records: map[string]int64{}, Tasks: map[string]int64{}}
	var sections []shuffle.Section
	for _, u := range units {
		if u.maps() {
			report.Records[u.Table] += u.Read
			report.Pairs += u.Made
		}
		for _, run := range u.Runs {
			if u.maps() {
				report.Bytes += run.Size()
			} else {
				sections = append(sections, run.Section(0))
			}
		}
	}
	pairs, err := shuffle.NewMerge(ctx, c.o.Space, c.o.Memory/4, fmt.Sprintf("%d-tasks-", s.ID), sections)
	if err != nil {
		return report, err
	}
	defer pairs.Close()
	var last string
	for pairs.Next() {
		if string(pairs.Pair().Key) == last {
			continue // proposed twice
		}
		last = string(pairs.Pair().Key)
		t, err := taskOf(pairs.Pair())
		if err != nil {
			return report, err
		}
		if err := ctx.Err(); err != nil {
			return report, err
		}
		if err := take(t); err != nil {
			return report, err
		}
		report.Tasks[t.Job]++
	}
	return report, pairs.Err()
}

// current reads the record of the scan.
func (c *Curator) current(ctx context.Context) (scan, kv.Version, error) {
	var s scan
	version, err := c.get(ctx, scanKey, &s)
	if err == nil && !s.sound() {
		err = fmt.Errorf("curator: the record of scan %d is damaged", s.ID)
	}
	return s, version, err
}

// get reads a record into what, which stays as it is if there is none.
func (c *Curator) get(ctx context.Context, key kv.Key, what any) (kv.Version, error) {
	r, err := c.state.Get(ctx, key)
	if errors.Is(err, kv.ErrNotFound) {
		return kv.Version{}, nil
	}
	if err != nil {
		return kv.Version{}, fmt.Errorf("curator: read the %s: %w", key.Part, err)
	}
	if err := json.Unmarshal(r.Value, what); err != nil {
		return kv.Version{}, fmt.Errorf("curator: read the %s: %w", key.Part, err)
	}
	return r.Version, nil
}

// put writes a record that is never deleted, if it is of that version.
func (c *Curator) put(ctx context.Context, key kv.Key, old kv.Version, what any) (kv.Version, error) {
	value, err := json.Marshal(what)
	if err != nil {
		return kv.Version{}, err
	}
	var version kv.Version
	if old == (kv.Version{}) {
		version, err = c.writer.Create(ctx, c.state, key, value)
	} else {
		version, err = c.writer.Set(ctx, c.state, key, old, value)
	}
	if err != nil {
		return kv.Version{}, fmt.Errorf("curator: write the %s: %w", key.Part, err)
	}
	return version, nil
}

// identities say which jobs, and which versions of them.
func identities(jobs []Job) []string {
	var out []string
	for _, j := range jobs {
		out = append(out, j.identity())
	}
	return out
}

// jobsOf gives the jobs of a scan in its order, by which pairs name them; nil if this process has not all
// of them, or of other versions.
func (c *Curator) jobsOf(s scan) []Job {
	var out []Job
	for _, id := range s.Jobs {
		i := slices.IndexFunc(c.o.Jobs, func(j Job) bool { return j.identity() == id })
		if i < 0 || s.Format != shuffle.Format {
			return nil
		}
		out = append(out, c.o.Jobs[i])
	}
	return out
}

// begin continues the present scan, if it is of the jobs and none of these has failed, or starts another.
func (c *Curator) begin(ctx context.Context, jobs []Job) (s scan, version kv.Version, resumed bool, err error) {
	s, version, err = c.current(ctx)
	if err != nil {
		return s, version, false, err
	}
	if s.Open && s.Format == shuffle.Format && slices.Equal(s.Jobs, identities(jobs)) {
		units, err := c.units(ctx, s)
		if err != nil && !errors.Is(err, ErrCancelled) {
			return s, version, false, err
		}
		if err == nil && failed(units) == nil {
			return s, version, true, nil
		}
	}
	s, version, err = c.start(ctx, s.ID+1, version, jobs)
	return s, version, false, err
}

// start makes a new scan. Its record comes first and is opened last, so that two masters, of whom one
// does not know yet that it is none, do not use the same number.
func (c *Curator) start(ctx context.Context, id uint64, version kv.Version, jobs []Job) (scan, kv.Version, error) {
	s := scan{ID: id, Format: shuffle.Format, Jobs: identities(jobs), Parts: c.o.Partitions, Started: time.Now()}
	version, err := c.put(ctx, scanKey, version, s)
	if err != nil {
		return s, version, err
	}
	if err := c.clean(ctx, s.ID-1); err != nil {
		return s, version, err
	}
	units, err := c.divide(ctx, jobs)
	if err != nil {
		return s, version, err
	}
	if err := c.create(ctx, s.ID, units); err != nil {
		return s, version, err
	}
	s.Units, s.Open = len(units), true
	version, err = c.put(ctx, scanKey, version, s)
	return s, version, err
}

// divide makes the units of a scan.
func (c *Curator) divide(ctx context.Context, jobs []Job) ([]unit, error) {
	var units []unit
	for _, table := range tablesOf(jobs) {
		ranges, err := c.o.Tables[table].Split(ctx, c.o.Ranges)
		if err != nil {
			return nil, fmt.Errorf("curator: split table %s: %w", table, err)
		}
		for _, r := range ranges {
			units = append(units, unit{Table: table, Whole: r, Rest: r})
		}
	}
	for part := range c.o.Partitions {
		units = append(units, unit{Part: part})
	}
	return units, nil
}

// create writes new units, as many at a time as kv takes.
func (c *Curator) create(ctx context.Context, id uint64, units []unit) error {
	var changes []kv.Change
	size := 0
	for i := range units {
		value, err := json.Marshal(&units[i])
		if err != nil {
			return err
		}
		if len(changes) == kv.MaxChanges || len(changes) > 0 && size+len(value) > kv.MaxValue {
			if _, err := c.writer.Apply(ctx, c.state, unitPart(id), changes...); err != nil {
				return fmt.Errorf("curator: write units: %w", err)
			}
			changes, size = nil, 0
		}
		changes = append(changes, kv.Change{Do: kv.Set, Row: unitKey(id, i).Row, Value: value})
		size += len(value)
	}
	_, err := c.writer.Apply(ctx, c.state, unitPart(id), changes...)
	return err
}

// finish closes a scan whose tasks were handed over.
func (c *Curator) finish(ctx context.Context, s scan, version kv.Version) error {
	s.Open = false
	if _, err := c.put(ctx, scanKey, version, s); err != nil {
		if errors.Is(err, kv.ErrConflict) {
			return ErrCancelled
		}
		return err
	}
	return c.clean(ctx, s.ID)
}

// clean removes the units and runs of the scans up to last.
func (c *Curator) clean(ctx context.Context, last uint64) error {
	for r, err := range c.state.Scan(ctx, kv.Range{}) {
		if err != nil {
			return fmt.Errorf("curator: read old units: %w", err)
		}
		number, ours := strings.CutPrefix(string(r.Key.Part), unitsOf)
		if !ours || !upTo(number, last) {
			continue
		}
		key := kv.Key{Part: slices.Clone(r.Key.Part), Row: slices.Clone(r.Key.Row)}
		if err := c.writer.Delete(ctx, c.state, key, r.Version); err != nil && !errors.Is(err, kv.ErrConflict) {
			return fmt.Errorf("curator: remove old units: %w", err)
		}
	}
	runs, err := c.o.Space.Names(ctx)
	if err != nil {
		return fmt.Errorf("curator: list old runs: %w", err)
	}
	for _, run := range runs {
		number, _, _ := strings.Cut(run, "-")
		if !upTo(number, last) {
			continue
		}
		if err := c.o.Space.Remove(ctx, run); err != nil {
			return fmt.Errorf("curator: remove an old run: %w", err)
		}
	}
	return nil
}

func upTo(number string, last uint64) bool {
	n, err := strconv.ParseUint(number, 10, 64)
	return err == nil && n <= last
}
