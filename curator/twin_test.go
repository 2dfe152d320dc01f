package curator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// A plain job is a job without the curator: functions of values.
type plainJob struct {
	name   string
	inputs []plainInput
	most   int // how many values of a key are read
}

type plainInput struct {
	table string
	keep  func(*kv.Record) bool
	emit  func(*kv.Record) []plainPair
}

type plainPair struct{ key, value string }

type plainValue struct {
	input int
	value string
}

// reduce proposes a task for each table that the first values of a key are from.
func (j plainJob) reduce(key string, values []plainValue) []task.Task {
	count, why := map[string]int64{}, ""
	for _, v := range values {
		table := j.inputs[v.input].table
		count[table]++
		why += fmt.Sprintf("%s=%x ", table, v.value)
	}
	var out []task.Task
	for table, n := range count {
		out = append(out, task.Task{Job: j.name, Kind: table, What: []byte(key), Why: why, Priority: n - 5, Seen: []byte{byte(n)}})
	}
	return out
}

// job gives the job as the curator does it.
func (j plainJob) job() Job {
	job := Job{Name: j.name, Reduce: func(key []byte, values *Values, propose func(task.Task)) error {
		var all []plainValue
		for len(all) < j.most && values.Next() {
			input := slices.IndexFunc(j.inputs, func(in plainInput) bool { return in.table == values.Table })
			all = append(all, plainValue{input, string(values.Bytes)})
		}
		for _, t := range j.reduce(string(key), all) {
			propose(t)
		}
		return nil
	}}
	for _, in := range j.inputs {
		job.Inputs = append(job.Inputs, Input{
			Table:   in.table,
			Filters: []func(*kv.Record) bool{in.keep},
			Map: func(r *kv.Record, out *Pairs) error {
				for _, p := range in.emit(r) {
					out.Emit([]byte(p.key), []byte(p.value))
				}
				return nil
			},
		})
	}
	return job
}

// twin is what a scan is meant to give: all pairs in memory, grouped by key and reduced.
func twin(t *testing.T, tables map[string]kv.Reader, jobs []plainJob) []string {
	var out []string
	for _, job := range jobs {
		groups := map[string][]plainValue{}
		for i, in := range job.inputs {
			for r, err := range tables[in.table].Scan(t.Context(), kv.Range{}) {
				if err != nil {
					t.Fatal(err)
				}
				if in.keep(&r) {
					for _, p := range in.emit(&r) {
						groups[p.key] = append(groups[p.key], plainValue{i, p.value})
					}
				}
			}
		}
		for key, values := range groups {
			slices.SortFunc(values, func(a, b plainValue) int {
				return cmp.Or(cmp.Compare(a.input, b.input), strings.Compare(a.value, b.value))
			})
			for _, t := range job.reduce(key, values[:min(job.most, len(values))]) {
				out = append(out, show(t))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func show(t task.Task) string {
	return fmt.Sprintf("%d %s %s %x: %s (%x)", t.Priority, t.Job, t.Kind, t.What, t.Why, t.Seen)
}

// drawJobs gives jobs that read some of the tables, filter, join, and stop reading early.
func drawJobs(r *rand.Rand, tables []string) (plain []plainJob, jobs []Job) {
	for n := range 1 + r.IntN(4) {
		job := plainJob{name: fmt.Sprintf("job%d", n), most: 1 + r.IntN(20)}
		for _, i := range r.Perm(len(tables))[:1+r.IntN(len(tables))] {
			job.inputs = append(job.inputs, drawInput(r, tables[i]))
		}
		plain, jobs = append(plain, job), append(jobs, job.job())
	}
	return plain, jobs
}

func drawInput(r *rand.Rand, table string) plainInput {
	keys, times, every := 1+r.IntN(100), r.IntN(4), 1+r.IntN(3)
	return plainInput{
		table: table,
		keep:  func(r *kv.Record) bool { return int(r.Value[0])%every == 0 && len(r.Key.Row) == 4 },
		emit: func(r *kv.Record) (out []plainPair) {
			for i := range times {
				key := binary.BigEndian.AppendUint64(nil, uint64((int(r.Value[0])*7+i)%keys))
				out = append(out, plainPair{string(key), string(r.Value)})
			}
			return out
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
	return Options{Name: name, Tables: tables, Jobs: jobs, Space: space, Workers: 1 + r.IntN(3), Rest: r.IntN(2), Memory: 1 << (8 + r.IntN(12)),
		Ranges: 1 + r.IntN(20), Partitions: 1 + r.IntN(6), TTL: 10 * time.Second, Poll: time.Second}
}

// drawSpace is a directory, which is slower, or a table.
func drawSpace(t *testing.T, r *rand.Rand, store kv.Store, dir string) shuffle.Space {
	if r.IntN(4) == 0 {
		return shuffle.Dir(dir)
	}
	rows, err := store.LooseTable(t.Context(), "runs")
	if err != nil {
		t.Fatal(err)
	}
	return shuffle.Table{Rows: rows}
}

// cases calls check with seeds: 50, or 600 with GLEANER_LONG=1, or the one of GLEANER_SEED.
func cases(t *testing.T, check func(t *testing.T, r *rand.Rand)) {
	first, last := uint64(1), uint64(50)
	if os.Getenv("GLEANER_LONG") != "" {
		last = 600
	}
	if _, err := fmt.Sscan(os.Getenv("GLEANER_SEED"), &first); err == nil {
		last = first
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d; to see it again: GLEANER_SEED=%d go test -run %s ./curator", seed, seed, t.Name())
				}
			}()
			check(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// TestScanIsAGroupBy: whatever the ranges, partitions, workers and memory, a scan gives
// the tasks of its twin, by priority, each once; and it leaves nothing behind.
func TestScanIsAGroupBy(t *testing.T) {
	dir := t.TempDir()
	cases(t, func(t *testing.T, r *rand.Rand) {
		store := mem.New()
		tables := drawTables(t, r, store)
		plain, jobs := drawJobs(r, names(tables))
		want := twin(t, tables, plain)
		for n := range 3 {
			o := drawOptions(r, fmt.Sprint("p", n), drawSpace(t, r, store, dir), tables, jobs)
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

func scanAll(ctx context.Context, c *Curator, jobs ...string) ([]task.Task, Report, error) {
	var got []task.Task
	report, err := c.Scan(ctx, func(t task.Task) error { got = append(got, t); return nil }, jobs...)
	return got, report, err
}

func compareTasks(t *testing.T, tasks []task.Task, want []string) {
	t.Helper()
	if !slices.IsSortedFunc(tasks, func(a, b task.Task) int { return int(b.Priority - a.Priority) }) {
		t.Error("tasks are not in the order of their priorities")
	}
	var got []string
	for _, t := range tasks {
		got = append(got, show(t))
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

// TestScanSurvivesDeaths: processes come, scan or work, hang for longer than their claims last, and die in the
// middle of any call of the store or the space; runs are lost, and other records of the tables change. Whoever
// completes the scan has the tasks of its twin.
func TestScanSurvivesDeaths(t *testing.T) {
	dir := t.TempDir()
	var deaths, resumed, completed atomic.Int64
	cases(t, func(t *testing.T, r *rand.Rand) {
		store := mem.New()
		tables := drawTables(t, r, store)
		plain, jobs := drawJobs(r, names(tables))
		want := twin(t, tables, plain)
		space := drawSpace(t, r, store, dir)
		ctx, over := context.WithCancel(t.Context())
		defer over()
		var all sync.WaitGroup
		churnDice := rand.New(rand.NewPCG(r.Uint64(), 0))
		all.Go(func() { churn(t, ctx, churnDice, tables) })
		for slot := range 3 {
			dice := rand.New(rand.NewPCG(r.Uint64(), 0))
			all.Go(func() {
				for life := 0; ctx.Err() == nil; life++ {
					p := &process{store: store, space: space, fate: &fate{left: 1 + dice.IntN(60*(life+1)), hangs: rand.New(rand.NewPCG(dice.Uint64(), 0))}, name: fmt.Sprintf("p%d-%d", slot, life)}
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

// churn writes and deletes records between those of the tables. No job passes them.
func churn(t *testing.T, ctx context.Context, r *rand.Rand, tables map[string]kv.Reader) {
	for sleep(ctx, time.Second) == nil {
		for _, table := range tables {
			key := kv.Key{Part: []byte{byte(r.IntN(20))}, Row: append(binary.BigEndian.AppendUint32(nil, r.Uint32N(1000)), 0)}
			if err := table.(kv.LooseTable).Put(context.Background(), kv.Record{Key: key, Value: []byte{0, 0}}); err != nil {
				t.Error(err)
			}
			key.Row[3] ^= 1
			if err := table.(kv.LooseTable).Delete(context.Background(), key); err != nil {
				t.Error(err)
			}
		}
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

func (p *process) live(ctx context.Context, r *rand.Rand, tables map[string]kv.Reader, jobs []Job, works bool) ([]task.Task, Report, error) {
	mortal := map[string]kv.Reader{}
	for name, table := range tables {
		mortal[name] = mortalReader{table, p.fate}
	}
	if works { // which may declare its jobs in another order
		jobs = slices.Clone(jobs)
		r.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	}
	o := drawOptions(r, p.name, mortalSpace{p.space, p.fate}, mortal, jobs)
	o.Pace = func(ctx context.Context, _ int) error { return sleep(ctx, p.fate.hang(o.TTL)) }
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

// fate is how many calls a process may still make, and how long some of them take.
type fate struct {
	mu    sync.Mutex
	left  int
	hangs *rand.Rand // nil: never
}

// hang is how long something hangs: not at all, or up to three times the given time.
func (f *fate) hang(most time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs == nil || f.hangs.IntN(10) > 0 {
		return 0
	}
	return time.Duration(f.hangs.Int64N(int64(3 * most)))
}

func immortal() *fate { return &fate{left: math.MaxInt} }

func (f *fate) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = 0
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
	time.Sleep(r.fate.hang(10 * time.Second))
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
