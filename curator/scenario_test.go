package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// TestScenarios tells what a scan does, one story a file. Time passes only where a story waits.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &story{store: mem.New(), tables: map[string]kv.Reader{}, running: map[string]*running{}, space: shuffle.Dir(t.TempDir())}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				out, err := s.do(t, d)
				if err != nil {
					out += err.Error() + "\n"
				}
				synctest.Wait()
				return out
			})
			s.end()
		})
	})
}

// A story has a store, and curators by the name of their process.
type story struct {
	store   *mem.Store
	tables  map[string]kv.Reader
	space   shuffle.Space
	running map[string]*running
	writers uint64
	mapped  atomic.Int64 // records, by the job cold in all processes, since the last report
}

// running is a scan or a worker in the background.
type running struct {
	fate *fate
	stop context.CancelCauseFunc
	done chan struct{}
	out  string
	err  error
}

var errStopped = errors.New("stopped")

func (s *story) do(t *testing.T, d *datadriven.TestData) (string, error) {
	ctx := t.Context()
	switch d.Cmd {
	case "table":
		return "", s.fill(ctx, d.CmdArgs[0].Key, d.Input)
	case "wait":
		var seconds int
		d.ScanArgs(t, "seconds", &seconds)
		time.Sleep(time.Duration(seconds) * time.Second)
		return "", nil
	case "start": // in the background
		return "", s.start(ctx, d)
	case "join": // wait for what was started
		r := s.running[d.CmdArgs[0].Key]
		<-r.done
		return r.out, r.err
	case "kill", "stop": // who is killed says nothing to anyone; who is stopped gives up what it holds
		r := s.running[d.CmdArgs[0].Key]
		if d.Cmd == "kill" {
			r.fate.die()
		}
		r.stop(errStopped)
		<-r.done
		return "", nil
	case "lose": // all runs
		runs, err := s.space.Names(ctx)
		for _, run := range runs {
			err = errors.Join(err, s.space.Remove(ctx, run))
		}
		return fmt.Sprintf("%d runs\n", len(runs)), err
	}
	c, err := s.open(ctx, d, immortal(), nil)
	if err != nil {
		return "", err
	}
	switch d.Cmd {
	case "scan":
		return s.scan(ctx, c, jobsOf(d))
	case "pause":
		return "", c.Pause(ctx, d.Input)
	case "resume":
		return "", c.Resume(ctx)
	case "cancel":
		return "", c.Cancel(ctx)
	case "progress":
		p, err := c.Progress(ctx)
		return fmt.Sprintf("%d of %d ranges, %d of %d partitions (%.0f%%), %d records, %.1f a second, workers %v%s\n",
			p.Mapped, p.Ranges, p.Reduced, p.Partitions, 100*p.Share(), p.Records, p.Rate(), p.Workers, paused(p)), err
	}
	return "", fmt.Errorf("no such command: %s", d.Cmd)
}

func paused(p Progress) string {
	if p.Pause.Why == "" {
		return ""
	}
	return ", paused: " + p.Pause.Why
}

func jobsOf(d *datadriven.TestData) (jobs []string) {
	for _, arg := range d.CmdArgs {
		if arg.Key == "jobs" {
			jobs = arg.Vals
		}
	}
	return jobs
}

// fill puts a record a line: its part, and its value.
func (s *story) fill(ctx context.Context, name, lines string) error {
	table, err := s.store.LooseTable(ctx, name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		part, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err := table.Put(ctx, kv.Record{Key: kv.Key{Part: []byte(part)}, Value: []byte(value)}); err != nil {
			return err
		}
	}
	s.tables[name] = table
	return nil
}

// open gives the curator of the process named by the argument "as". Each has one worker, two ranges a table
// and two partitions.
func (s *story) open(ctx context.Context, d *datadriven.TestData, f *fate, pace func(context.Context, int) error) (*Curator, error) {
	o := Options{Name: "p1", Tables: s.tables, Jobs: s.jobs(), Space: s.space, Ranges: 2, Partitions: 2, Pace: pace}
	for _, arg := range d.CmdArgs {
		if arg.Key == "as" {
			o.Name = arg.Vals[0]
		}
	}
	s.writers++
	return Open(ctx, mortalStore{s.store, f}, kv.NewWriter(s.writers), o)
}

// start begins a scan, or the work for another's, in the background. Each batch of records takes the
// given seconds.
func (s *story) start(ctx context.Context, d *datadriven.TestData) error {
	var seconds int
	for _, arg := range d.CmdArgs {
		if arg.Key == "seconds" {
			seconds, _ = strconv.Atoi(arg.Vals[0])
		}
	}
	r := &running{fate: immortal(), done: make(chan struct{})}
	c, err := s.open(ctx, d, r.fate, func(ctx context.Context, n int) error { return sleep(ctx, time.Duration(seconds)*time.Second) })
	if err != nil {
		return err
	}
	ctx, r.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	s.running[c.o.Name] = r
	work := d.HasArg("work")
	go func() {
		defer close(r.done)
		if work {
			r.err = c.Work(ctx)
			return
		}
		r.out, r.err = s.scan(ctx, c, jobsOf(d))
	}()
	return nil
}

func (s *story) end() {
	for _, r := range s.running {
		r.stop(errStopped)
		<-r.done
	}
}

func (s *story) scan(ctx context.Context, c *Curator, jobs []string) (string, error) {
	var out strings.Builder
	report, err := c.Scan(ctx, func(t task.Task) error {
		fmt.Fprintf(&out, "%s %s: %s (saw %s)\n", t.Kind, t.What, t.Why, t.Seen)
		return nil
	}, jobs...)
	if err != nil {
		return out.String(), err
	}
	fmt.Fprintf(&out, "read %v; cold mapped %d; %d pairs; tasks %v", report.Records, s.mapped.Swap(0), report.Pairs, report.Tasks)
	if report.Resumed {
		out.WriteString("; resumed")
	}
	return out.String() + "\n", nil
}

// jobs are those of a small storage system. Its groups have a time of writing and the disks of their replicas, and
// reads keep another table of times.
func (s *story) jobs() []Job {
	count := []func(*kv.Record) bool{func(r *kv.Record) bool { s.mapped.Add(1); return true }}
	cold := Job{Name: "cold", // joins two tables: a group is cold if it was neither written nor read lately
		Inputs: []Input{
			{Table: "groups", Filters: count, Map: func(r *kv.Record, out *Pairs) error {
				mtime, _, _ := strings.Cut(string(r.Value), " ")
				out.Emit(r.Key.Part, []byte(mtime))
				return nil
			}},
			{Table: "access", Filters: count, Map: func(r *kv.Record, out *Pairs) error { out.Emit(r.Key.Part, r.Value); return nil }},
		},
		Reduce: func(key []byte, values *Values, propose func(task.Task)) error {
			last, seen := 0, ""
			for values.Next() {
				at, err := strconv.Atoi(string(values.Bytes))
				if err != nil {
					return err
				}
				last = max(last, at)
				seen += fmt.Sprintf("%s=%d ", values.Table, at)
			}
			if last < 100 {
				propose(task.Task{Kind: "migrate", What: key, Why: fmt.Sprintf("last used at %d", last), Priority: int64(-last), Seen: []byte(strings.TrimSpace(seen))})
			}
			return nil
		},
	}
	short := Job{Name: "short", // has a filter: groups with fewer than two replicas
		Inputs: []Input{{Table: "groups",
			Filters: []func(*kv.Record) bool{func(r *kv.Record) bool { return len(strings.Fields(string(r.Value))) < 3 }},
			Map:     func(r *kv.Record, out *Pairs) error { out.Emit(r.Key.Part, r.Value); return nil }}},
		Reduce: func(key []byte, values *Values, propose func(task.Task)) error {
			values.Next()
			propose(task.Task{Kind: "replicate", What: key, Why: "one replica of two", Priority: 1000, Seen: slices.Clone(values.Bytes)})
			return nil
		},
	}
	return []Job{cold, short}
}
