// Package transfer copies all tables of one store to another, of any kind, and
// compares them.
//
// A copy that was interrupted goes on where it was: the target keeps how far it
// is, in a table of its own, which is gone when the copy is complete. Nobody else
// may use either store meanwhile.
package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"gleaner/input"
	"gleaner/kv"
)

// diaryTable is the table of the target that says how far the copy is.
const diaryTable = "gleaner_copy"

// A step is how far the copy of one table is. The record of it has the name of
// the table as its part.
type step struct {
	Source string `json:"source"` // what is copied; the same in each step
	From   []byte `json:"from"`   // the rest of the table begins here
	Done   bool   `json:"done"`
}

// batch is how many records are written before the next step, and batchBytes how many bytes.
const (
	batch      = 10_000
	batchBytes = 8 << 20
)

// A Copy is what is to be copied.
type Copy struct {
	From, To kv.Store
	Source   string // a name of From: a copy goes on only from the same
	Target   string // a name of To, for errors
	// Progress is called now and then, one call at a time, with how many records were copied
	// or compared by this call; it may be nil.
	Progress func(doing string, records int64)
}

// A Result is what was copied.
type Result struct {
	Tables  []Sum `json:"tables"` // equal in both stores
	Resumed bool  `json:"resumed"`
	Copied  int64 `json:"copied"` // records, by this call
}

// Do copies and compares. A target that holds something else is an input.Error,
// and is not changed.
func (c Copy) Do(ctx context.Context) (Result, error) {
	tables, err := c.From.Tables(ctx)
	if err != nil {
		return Result{}, err
	}
	if slices.ContainsFunc(tables, isDiary) {
		return Result{}, input.Errorf(c.Source, "%v", ErrPartial)
	}
	d, err := c.begin(ctx, tables)
	if err != nil {
		return Result{}, err
	}
	result := Result{Resumed: d.resumed}
	for _, t := range tables {
		if err := c.table(ctx, d, t, &result.Copied); err != nil {
			return result, err
		}
	}
	if err := c.sameTables(ctx); err != nil {
		return result, err
	}
	var read int64
	for _, t := range tables {
		sum, err := c.compare(ctx, t, &read)
		if err != nil {
			return result, err
		}
		result.Tables = append(result.Tables, sum)
	}
	return result, c.To.Drop(ctx, diaryTable)
}

// sameTables says which tables only one of the stores has: an interrupted copy may have made one that the source lost since.
func (c Copy) sameTables(ctx context.Context) error {
	from, err := c.From.Tables(ctx)
	if err != nil {
		return err
	}
	to, err := c.To.Tables(ctx)
	if err != nil {
		return err
	}
	var differ []string
	only := func(some, others []kv.TableInfo, store string) {
		for _, t := range some {
			if !isDiary(t) && !slices.ContainsFunc(others, func(o kv.TableInfo) bool { return o.Name == t.Name }) {
				differ = append(differ, fmt.Sprintf("table %s is only in %s", t.Name, store))
			}
		}
	}
	only(from, to, c.Source)
	only(to, from, c.Target)
	if len(differ) > 0 {
		return fmt.Errorf("transfer: the stores differ after the copy: %s; copy to an empty store", strings.Join(differ, ", "))
	}
	return nil
}

// ErrPartial says that a store may lack records.
var ErrPartial = errors.New("is the target of a copy that is not complete")

// Check is ErrPartial for the target of a copy that is not complete: what is left out of it is not gone, and nobody may act on that.
func Check(ctx context.Context, s kv.Store) error {
	tables, err := s.Tables(ctx)
	if err == nil && slices.ContainsFunc(tables, isDiary) {
		err = ErrPartial
	}
	return err
}

func isDiary(t kv.TableInfo) bool { return t.Name == diaryTable }

// A diary keeps the steps of a copy.
type diary struct {
	table   kv.Table
	writer  *kv.Writer
	source  string
	resumed bool
}

// begin opens the diary in the target, or makes one if the target is empty.
func (c Copy) begin(ctx context.Context, tables []kv.TableInfo) (*diary, error) {
	there, err := c.To.Tables(ctx)
	if err != nil {
		return nil, err
	}
	d := &diary{source: c.Source, writer: newWriter(), resumed: slices.ContainsFunc(there, isDiary)}
	if !d.resumed && len(there) > 0 {
		return nil, input.Errorf(c.Target, "is not empty: it has the table %s", there[0].Name)
	}
	if d.table, err = c.To.Table(ctx, diaryTable); err != nil {
		return nil, err
	}
	// List the tables again: if another copy ended since, it dropped the diary, and Table made a new one.
	// That has no steps, and a copy makes no other table before them.
	if there, err = c.To.Tables(ctx); err != nil {
		return nil, err
	}
	steps, err := d.sameSource(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(there, func(t kv.TableInfo) bool { return !isDiary(t) }); i >= 0 && steps == 0 {
		full := input.Errorf(c.Target, "is not empty: it has the table %s, of a copy that has just ended", there[i].Name)
		return nil, errors.Join(full, c.To.Drop(ctx, diaryTable))
	}
	for _, t := range tables { // before the first record, so that a resumed copy knows its source
		if _, _, err := d.read(ctx, t.Name); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// sameSource makes sure that the copy that goes on is this one, and counts its steps.
func (d *diary) sameSource(ctx context.Context, target string) (steps int, err error) {
	for r, err := range d.table.Scan(ctx, kv.Range{}) {
		if err != nil {
			return steps, err
		}
		var s step
		if err := json.Unmarshal(r.Value, &s); err != nil {
			return steps, fmt.Errorf("transfer: read how far %s is: %w", r.Key.Part, err)
		}
		if s.Source != d.source {
			return steps, input.Errorf(target, "holds a copy of %s that is not complete", s.Source)
		}
		steps++
	}
	return steps, nil
}

// read gives the step of a table, and makes the first if there is none.
func (d *diary) read(ctx context.Context, name string) (s step, at kv.Version, err error) {
	s.Source = d.source
	r, err := d.table.Get(ctx, kv.Key{Part: []byte(name)})
	if errors.Is(err, kv.ErrNotFound) {
		at, err = d.write(ctx, name, s, kv.Version{})
		return s, at, err
	}
	if err == nil {
		err = json.Unmarshal(r.Value, &s)
	}
	return s, r.Version, err
}

func (d *diary) write(ctx context.Context, name string, s step, old kv.Version) (kv.Version, error) {
	value, err := json.Marshal(s)
	if err != nil {
		return old, err
	}
	if old == (kv.Version{}) {
		return d.writer.Create(ctx, d.table, kv.Key{Part: []byte(name)}, value)
	}
	return d.writer.Set(ctx, d.table, kv.Key{Part: []byte(name)}, old, value)
}

// table copies the rest of a table. While some records are written, the next are read.
func (c Copy) table(ctx context.Context, d *diary, t kv.TableInfo, copied *int64) error {
	from, err := open(ctx, c.From, t)
	if err != nil {
		return err
	}
	to, err := open(ctx, c.To, t)
	if err != nil {
		return err
	}
	s, at, err := d.read(ctx, t.Name)
	if err != nil || s.Done {
		return err
	}
	rest := kv.Range{From: s.From}
	reading, stop := context.WithCancel(ctx) // ends what reads ahead
	defer stop()
	for some := range from.ahead(reading, rest) {
		if some.err != nil {
			return some.err
		}
		if err := to.write(ctx, some.records); err != nil {
			return err
		}
		if n := len(some.records); n > 0 {
			rest = from.Rest(rest, some.records[n-1].Key)
		}
		if at, err = d.write(ctx, t.Name, step{Source: c.Source, From: rest.From, Done: some.last}, at); err != nil {
			return err
		}
		*copied += int64(len(some.records))
		c.tell("copying", *copied)
	}
	return ctx.Err()
}

// A piece is some records of a table in order, or why there are none.
type piece struct {
	records []kv.Record
	last    bool // nothing follows
	err     error
}

// ahead reads a range, one batch ahead of its reader. Only the last batch may be empty.
func (t table) ahead(ctx context.Context, r kv.Range) <-chan piece {
	batches := make(chan piece)
	go func() {
		defer close(batches)
		give := func(p piece) bool {
			select {
			case batches <- p:
				return p.err == nil
			case <-ctx.Done():
				return false
			}
		}
		var next piece
		size := 0
		for r, err := range t.Scan(ctx, r) {
			if err != nil {
				give(piece{err: err})
				return
			}
			next.records = append(next.records, own(r))
			if size += len(r.Key.Part) + len(r.Key.Row) + len(r.Value); len(next.records) == batch || size >= batchBytes {
				if !give(next) {
					return
				}
				next, size = piece{}, 0
			}
		}
		next.last = true
		give(next)
	}()
	return batches
}

func (c Copy) tell(doing string, records int64) {
	if c.Progress != nil {
		c.Progress(doing, records)
	}
}

// compare reads a table of both stores at once. read is how many records were read before, of any table.
func (c Copy) compare(ctx context.Context, t kv.TableInfo, read *int64) (Sum, error) {
	var lock sync.Mutex
	more := func() {
		lock.Lock()
		defer lock.Unlock()
		if *read++; *read%batch == 0 {
			c.tell("comparing", *read)
		}
	}
	var from, to Sum
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) { from, err = Measure(ctx, c.From, t, more); return err })
	both.Go(func() (err error) { to, err = Measure(ctx, c.To, t, more); return err })
	if err := both.Wait(); err != nil {
		return from, err
	}
	if from != to {
		return from, fmt.Errorf("transfer: table %s differs after the copy: %d records of %d bytes in %s, %d of %d in %s; was one of them in use?",
			t.Name, from.Records, from.Bytes, c.Source, to.Records, to.Bytes, c.Target)
	}
	return from, nil
}

// own gives a record whose bytes stay.
func own(r kv.Record) kv.Record {
	r.Key = kv.Key{Part: bytes.Clone(r.Key.Part), Row: bytes.Clone(r.Key.Row)}
	r.Value = bytes.Clone(r.Value)
	return r
}

// A table is one of either kind.
type table struct {
	kv.Reader
	write func(context.Context, []kv.Record) error
}

func open(ctx context.Context, s kv.Store, t kv.TableInfo) (table, error) {
	if t.Loose {
		l, err := s.LooseTable(ctx, t.Name)
		return table{l, func(ctx context.Context, rs []kv.Record) error { return l.Put(ctx, rs...) }}, err
	}
	strict, err := s.Table(ctx, t.Name)
	return table{strict, func(ctx context.Context, rs []kv.Record) error { return strict.Load(ctx, rs...) }}, err
}
