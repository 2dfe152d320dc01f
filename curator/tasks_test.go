package curator

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
)

// FuzzTask: a task is the same when it was a pair, no bytes make taskOf panic, and larger priorities sort first.
func FuzzTask(f *testing.F) {
	f.Add(int64(math.MinInt64), "job", "kind", []byte("what"), "why", []byte("seen"))
	f.Add(int64(7), "", "", []byte{}, "", []byte{})
	f.Fuzz(func(t *testing.T, priority int64, job, kind string, what []byte, why string, seen []byte) {
		want := task.Task{Job: job, Priority: priority, Kind: kind, What: bytes.Clone(what), Why: why, Seen: bytes.Clone(seen)}
		p := pairOf(want)
		if got, err := taskOf(&p); err != nil || got.Job != job || got.Kind != kind || !bytes.Equal(got.What, what) || got.Why != why || !bytes.Equal(got.Seen, seen) || got.Priority != priority {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
		if priority < math.MaxInt64 {
			want.Priority++
			if bytes.Compare(pairOf(want).Key, p.Key) >= 0 {
				t.Errorf("priority %d does not come before %d", want.Priority, priority)
			}
		}
		anything := shuffle.Pair{Key: what, Value: seen}
		if got, err := taskOf(&anything); err == nil {
			if p := pairOf(got); len(p.Key) > len(what) {
				t.Errorf("%x was read as %+v", what, got)
			}
		}
	})
}

// TestMapAllocatesNothing: a record that passes filters and is emitted, by ten jobs, allocates nothing.
func TestMapAllocatesNothing(t *testing.T) {
	job := Job{Inputs: []Input{{Table: "t", Filters: []func(*kv.Record) bool{func(r *kv.Record) bool { return r.Value[0] == 1 }}, Map: func(r *kv.Record, out *Pairs) error {
		var key [8]byte
		key[7] = r.Value[0]
		out.Emit(key[:], r.Value)
		return nil
	}}}}
	d := newDesk(slices.Repeat([]Job{job}, 10), 1<<20, 8)
	d.record = kv.Record{Value: []byte{1, 2, 3}}
	allocs := testing.AllocsPerRun(10, func() {
		d.pairs.Reset()
		for range 100 {
			if err := mapRecord(d.inputs["t"], &d.record); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs != 0 || d.pairs.Len() != 1000 {
		t.Errorf("%v allocations for %d pairs", allocs, d.pairs.Len())
	}
}

// TestMistakesInJobs: jobs and options that cannot be done are refused before anything is begun.
func TestMistakesInJobs(t *testing.T) {
	emit := func(*kv.Record, *Pairs) error { return nil }
	reduce := func([]byte, *Values, func(task.Task)) error { return nil }
	good := Job{Name: "j", Inputs: []Input{{Table: "t", Map: emit}}, Reduce: reduce}
	tables := map[string]kv.Reader{"t": struct{ kv.Reader }{}}
	if err := check([]Job{good}, tables); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Job){
		"no name":       func(j *Job) { j.Name = "" },
		"no inputs":     func(j *Job) { j.Inputs = nil },
		"no reduce":     func(j *Job) { j.Reduce = nil },
		"no map":        func(j *Job) { j.Inputs = []Input{{Table: "t"}} },
		"unknown table": func(j *Job) { j.Inputs = []Input{{Table: "u", Map: emit}} },
		"table twice":   func(j *Job) { j.Inputs = []Input{{Table: "t", Map: emit}, {Table: "t", Map: emit}} },
	} {
		bad := good
		spoil(&bad)
		if err := check([]Job{bad}, tables); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if err := check([]Job{good, good}, tables); err == nil {
		t.Error("two jobs of one name pass")
	}
	if got, err := choose([]Job{good}, []string{"j"}); err != nil || !reflect.DeepEqual(jobNames(got), []string{"j"}) {
		t.Error(got, err)
	}
}

// TestStateFormat: docs/formats/curator.md shows records as they are written, and they are read as they were.
func TestStateFormat(t *testing.T) {
	page, err := os.ReadFile("../docs/formats/curator.md")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	for _, want := range []any{
		&scan{ID: 7, Open: true, Units: 72, Format: shuffle.Format, Jobs: []string{"cold/1", "short/2"}, Parts: 8, Started: at},
		&unit{Table: "groups", Whole: kv.Range{From: []byte{0}}, Rest: kv.Range{From: []byte{1}}, Runs: []shuffle.Run{{Name: "7-3-1-0", Ends: []int64{120, 260}}},
			Read: 500, Made: 20, Holder: "p1/0", Until: at.Add(15 * time.Second), Claims: 1, Live: 256},
		&unit{Part: 1, Runs: []shuffle.Run{{Name: "7-64-1-0", Ends: []int64{80}}}, Read: 20, Made: 2, Done: true, Holder: "p1/0", Until: at.Add(15 * time.Second), Claims: 1},
	} {
		value, err := json.Marshal(want)
		if err != nil || !bytes.Contains(page, append(value, '\n')) {
			t.Errorf("docs/formats/curator.md does not have %s, %v", value, err)
		}
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
		if err := json.Unmarshal(value, got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s was read as %+v, %v", value, got, err)
		}
	}
}
