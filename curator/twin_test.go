package curator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/curator/shuffle"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// twin is what a scan is meant to give: all pairs in memory, grouped by key and reduced.
func twin(t *testing.T, tables map[string]kv.Reader, jobs []Job) []string {
	var tasks []Task
	for _, job := range jobs {
		type value struct {
			input int
			bytes string
		}
		groups := map[string][]value{}
		for i, in := range job.Inputs {
			for r, err := range tables[in.Table].Scan(t.Context(), kv.Range{}) {
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(in.Filters, func(f func(kv.Record) bool) bool { return !f(r) }) {
					continue
				}
				err := in.Map(r, func(k, v []byte) { groups[string(k)] = append(groups[string(k)], value{i, string(v)}) })
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for key, values := range groups {
			slices.SortFunc(values, func(a, b value) int {
				if a.input != b.input {
					return a.input - b.input
				}
				return bytes.Compare([]byte(a.bytes), []byte(b.bytes))
			})
			each := func(yield func(string, []byte) bool) {
				for _, v := range values {
					if !yield(job.Inputs[v.input].Table, []byte(v.bytes)) {
						return
					}
				}
			}
			err := job.Reduce([]byte(key), each, func(task Task) { task.Job = job.Name; tasks = append(tasks, task) })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var out []string
	for _, task := range tasks {
		out = append(out, show(task))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func show(t Task) string {
	return fmt.Sprintf("%d %s %s %x: %s (%x)", t.Priority, t.Job, t.Kind, t.What, t.Why, t.Seen)
}

// drawJobs gives jobs that read some of the tables, filter, join, and stop reading early.
func drawJobs(r *rand.Rand, tables []string) []Job {
	var jobs []Job
	for n := range 1 + r.IntN(4) {
		job := Job{Name: fmt.Sprintf("job%d", n)}
		for _, i := range r.Perm(len(tables))[:1+r.IntN(len(tables))] {
			job.Inputs = append(job.Inputs, drawInput(r, tables[i]))
		}
		most := 1 + r.IntN(20)
		job.Reduce = func(key []byte, values iter.Seq2[string, []byte], propose func(Task)) error {
			count, why := map[string]int{}, []byte{}
			for table, value := range values {
				count[table]++
				if why = fmt.Appendf(why, "%s=%x ", table, value); len(why) > 10*most {
					break
				}
			}
			for table, n := range count {
				propose(Task{Kind: table, What: key, Why: string(why), Priority: int64(n - 5), Seen: []byte{byte(n)}})
			}
			return nil
		}
		jobs = append(jobs, job)
	}
	return jobs
}

func drawInput(r *rand.Rand, table string) Input {
	keys, times, every := 1+r.IntN(100), r.IntN(4), 1+r.IntN(3)
	return Input{
		Table:   table,
		Filters: []func(kv.Record) bool{func(r kv.Record) bool { return int(r.Value[0])%every == 0 }},
		Map: func(r kv.Record, emit Emit) error {
			var key [8]byte
			for i := range times {
				binary.BigEndian.PutUint64(key[:], uint64((int(r.Value[0])*7+i)%keys))
				emit(key[:], r.Value)
			}
			return nil
		},
	}
}

func drawTables(t *testing.T, r *rand.Rand, store kv.Store) map[string]kv.Reader {
	tables := map[string]kv.Reader{}
	for n := range 1 + r.IntN(3) {
		name := fmt.Sprintf("t%d", n)
		table, err := store.LooseTable(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for range r.IntN(800) {
			key := kv.Key{Part: []byte{byte(r.IntN(20))}, Row: binary.BigEndian.AppendUint32(nil, r.Uint32N(1000))}
			if err := table.Put(t.Context(), kv.Record{Key: key, Value: []byte{byte(r.IntN(256)), byte(r.IntN(3))}}); err != nil {
				t.Fatal(err)
			}
		}
		tables[name] = table
	}
	return tables
}

// drawOptions are those of one process.
func drawOptions(r *rand.Rand, name string, space shuffle.Space, tables map[string]kv.Reader, jobs []Job) Options {
	return Options{Name: name, Tables: tables, Jobs: jobs, Space: space, Workers: 1 + r.IntN(3), Memory: 1 << (8 + r.IntN(12)),
		Ranges: 1 + r.IntN(20), Partitions: 1 + r.IntN(6), TTL: 10 * time.Second, Poll: time.Second}
}

// cases calls check with seeds: 100, or 2000 with GLEANER_LONG=1, or the one of GLEANER_SEED.
func cases(t *testing.T, check func(t *testing.T, r *rand.Rand)) {
	first, last := uint64(1), uint64(100)
	if os.Getenv("GLEANER_LONG") != "" {
		last = 2000
	}
	if _, err := fmt.Sscan(os.Getenv("GLEANER_SEED"), &first); err == nil {
		last = first
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) { check(t, rand.New(rand.NewPCG(seed, 0))) })
		if t.Failed() {
			t.Logf("seed %d; to see it again: GLEANER_SEED=%d go test -run %s ./curator", seed, seed, t.Name())
		}
	}
}

// TestScanIsAGroupBy: whatever the ranges, partitions, workers and memory, a scan gives
// the tasks of its twin, by priority, each once; and it leaves nothing behind.
func TestScanIsAGroupBy(t *testing.T) {
	dir := t.TempDir()
	cases(t, func(t *testing.T, r *rand.Rand) {
		store := mem.New()
		tables := drawTables(t, r, store)
		jobs := drawJobs(r, names(tables))
		want := twin(t, tables, jobs)
		for n := range 3 {
			o := drawOptions(r, fmt.Sprint("p", n), shuffle.Dir(dir), tables, jobs)
			c, err := Open(t.Context(), store, kv.NewWriter(uint64(n+1)), o)
			if err != nil {
				t.Fatal(err)
			}
			got, report, err := scanAll(t.Context(), c)
			if err != nil || report.Resumed {
				t.Fatal(report, err)
			}
			compareTasks(t, got, want)
			nothingLeft(t, c)
		}
	})
}

func scanAll(ctx context.Context, c *Curator, jobs ...string) ([]Task, Report, error) {
	var got []Task
	report, err := c.Scan(ctx, func(task Task) error { got = append(got, task); return nil }, jobs...)
	return got, report, err
}

func compareTasks(t *testing.T, tasks []Task, want []string) {
	t.Helper()
	if !slices.IsSortedFunc(tasks, func(a, b Task) int { return int(b.Priority - a.Priority) }) {
		t.Error("tasks are not in the order of their priorities")
	}
	var got []string
	for _, task := range tasks {
		got = append(got, show(task))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d tasks, want %d\n%q\n%q", len(got), len(want), got, want)
	}
}

func nothingLeft(t *testing.T, c *Curator) {
	t.Helper()
	runs, err := c.o.Space.Names(t.Context())
	if err != nil || len(runs) > 0 {
		t.Errorf("runs left behind: %v, %v", runs, err)
	}
	for r := range c.state.Scan(t.Context(), kv.Range{}) {
		if bytes.HasPrefix(r.Key.Part, []byte(unitsOf)) {
			t.Errorf("unit left behind: %s", r.Value)
		}
	}
}

// TestScanSurvivesDeaths: processes come, scan or work, and die in the middle of any call of the
// store or the space; and runs are lost. Whoever completes the scan has the tasks of its twin.
func TestScanSurvivesDeaths(t *testing.T) {
	dir := t.TempDir()
	var deaths, resumed, completed atomic.Int64
	cases(t, func(t *testing.T, r *rand.Rand) {
		store := mem.New()
		tables := drawTables(t, r, store)
		jobs := drawJobs(r, names(tables))
		want := twin(t, tables, jobs)
		var space shuffle.Space = shuffle.Dir(dir)
		if r.IntN(2) == 0 {
			rows, err := store.LooseTable(t.Context(), "runs")
			if err != nil {
				t.Fatal(err)
			}
			space = shuffle.Table{Rows: rows}
		}
		ctx, over := context.WithCancel(t.Context())
		defer over()
		var all sync.WaitGroup
		for slot := range 3 {
			dice := rand.New(rand.NewPCG(r.Uint64(), 0))
			all.Go(func() {
				for life := 0; ctx.Err() == nil; life++ {
					p := &process{store: store, space: space, fate: &fate{left: 1 + dice.IntN(60*(life+1))}, name: fmt.Sprintf("p%d-%d", slot, life)}
					got, report, err := p.live(ctx, dice, tables, jobs, slot > 0 && dice.IntN(3) > 0)
					switch {
					case errors.Is(err, errDead):
						deaths.Add(1)
						loseRun(t, dice, space)
					case err == nil && ctx.Err() == nil:
						over()
						if completed.Add(1); report.Resumed {
							resumed.Add(1)
						}
						compareTasks(t, got, want)
					}
					if sleep(ctx, time.Duration(dice.IntN(20))*time.Second) != nil {
						return
					}
				}
			})
		}
		all.Wait()
	})
	t.Logf("%d deaths, %d scans completed, of which %d were resumed", deaths.Load(), completed.Load(), resumed.Load())
	if deaths.Load() == 0 || resumed.Load() == 0 {
		t.Error("nobody died, or no scan was resumed")
	}
}

// loseRun removes a run, now and then.
func loseRun(t *testing.T, r *rand.Rand, space shuffle.Space) {
	runs, err := space.Names(context.Background())
	if err != nil {
		t.Error(err)
	}
	if len(runs) > 0 && r.IntN(4) == 0 {
		if err := space.Remove(context.Background(), runs[r.IntN(len(runs))]); err != nil {
			t.Error(err)
		}
	}
}

// A process has a curator that scans or works until its fate ends it.
type process struct {
	store kv.Store
	space shuffle.Space
	fate  *fate
	name  string
}

func (p *process) live(ctx context.Context, r *rand.Rand, tables map[string]kv.Reader, jobs []Job, works bool) ([]Task, Report, error) {
	mortal := map[string]kv.Reader{}
	for name, table := range tables {
		mortal[name] = mortalReader{table, p.fate}
	}
	o := drawOptions(r, p.name, mortalSpace{p.space, p.fate}, mortal, jobs)
	c, err := Open(ctx, mortalStore{p.store, p.fate}, kv.NewWriter(r.Uint64()), o)
	if err != nil {
		return nil, Report{}, err
	}
	if works {
		return nil, Report{}, errors.Join(c.Work(ctx), errWorked)
	}
	return scanAll(ctx, c)
}

var (
	errDead   = errors.New("dead")
	errWorked = errors.New("only worked")
)

// fate is how many calls a process may still make. The last one is made, and its answer lost.
type fate struct {
	mu   sync.Mutex
	left int
}

func (f *fate) step() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left <= 0 {
		return errDead
	}
	return nil
}

type mortalStore struct {
	kv.Store
	fate *fate
}

func (s mortalStore) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return mortalTable{t, mortalReader{t, s.fate}}, err
}

type mortalReader struct {
	kv.Reader
	fate *fate
}

func (r mortalReader) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	if err := r.fate.step(); err != nil {
		return kv.Record{}, err
	}
	return r.Reader.Get(ctx, key)
}

func (r mortalReader) Scan(ctx context.Context, in kv.Range) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		n := 0
		for record, err := range r.Reader.Scan(ctx, in) {
			if n++; n%50 == 1 {
				if dead := r.fate.step(); dead != nil {
					yield(kv.Record{}, dead)
					return
				}
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

func (r mortalReader) Split(ctx context.Context, n int) ([]kv.Range, error) {
	if err := r.fate.step(); err != nil {
		return nil, err
	}
	return r.Reader.Split(ctx, n)
}

// A mortalTable may die just before or just after it has written.
type mortalTable struct {
	kv.Table
	reader mortalReader
}

func (t mortalTable) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	return t.reader.Get(ctx, key)
}

func (t mortalTable) Scan(ctx context.Context, in kv.Range) iter.Seq2[kv.Record, error] {
	return t.reader.Scan(ctx, in)
}

func (t mortalTable) write(do func() error) error {
	if err := t.reader.fate.step(); err != nil {
		return err
	}
	err := do()
	return errors.Join(t.reader.fate.step(), err)
}

func (t mortalTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return t.write(func() error { return t.Table.CompareAndSet(ctx, key, old, next, value) })
}

func (t mortalTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return t.write(func() error { return t.Table.CompareAndDelete(ctx, key, old) })
}

func (t mortalTable) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	return t.write(func() error { return t.Table.Apply(ctx, part, next, changes...) })
}

type mortalSpace struct {
	shuffle.Space
	fate *fate
}

func (s mortalSpace) Open(ctx context.Context, name string) (shuffle.Source, error) {
	if err := s.fate.step(); err != nil {
		return nil, err
	}
	return s.Space.Open(ctx, name)
}

func (s mortalSpace) Remove(ctx context.Context, name string) error {
	if err := s.fate.step(); err != nil {
		return err
	}
	return s.Space.Remove(ctx, name)
}
