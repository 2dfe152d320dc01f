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
	// Progress is called now and then with how many records were copied or compared by
	// this call; it may be nil.
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
		return Result{}, input.Errorf(c.Source, "is the target of a copy that is not complete")
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
	for _, t := range tables {
		sum, err := c.compare(ctx, t)
		if err != nil {
			return result, err
		}
		result.Tables = append(result.Tables, sum)
	}
	return result, c.To.Drop(ctx, diaryTable)
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
	if d.resumed {
		if err := d.sameSource(ctx, c.Target); err != nil {
			return nil, err
		}
	}
	for _, t := range tables { // before the first record, so that a resumed copy knows its source
		if _, _, err := d.read(ctx, t.Name); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// sameSource makes sure that the copy that goes on is this one.
func (d *diary) sameSource(ctx context.Context, target string) error {
	for r, err := range d.table.Scan(ctx, kv.Range{}) {
		if err != nil {
			return err
		}
		var s step
		if err := json.Unmarshal(r.Value, &s); err != nil {
			return fmt.Errorf("transfer: read how far %s is: %w", r.Key.Part, err)
		}
		if s.Source != d.source {
			return input.Errorf(target, "holds a copy of %s that is not complete", s.Source)
		}
	}
	return nil
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

// table copies the rest of a table.
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
	var some []kv.Record
	size, rest := 0, kv.Range{From: s.From}
	flush := func(done bool) error {
		if err := to.write(ctx, some); err != nil {
			return err
		}
		if len(some) > 0 {
			rest = from.Rest(rest, some[len(some)-1].Key)
		}
		if at, err = d.write(ctx, t.Name, step{Source: c.Source, From: rest.From, Done: done}, at); err != nil {
			return err
		}
		*copied += int64(len(some))
		c.tell("copying", *copied)
		some, size = some[:0], 0
		return nil
	}
	for r, err := range from.Scan(ctx, rest) {
		if err != nil {
			return err
		}
		some = append(some, own(r))
		if size += len(r.Key.Part) + len(r.Key.Row) + len(r.Value); len(some) == batch || size >= batchBytes {
			if err := flush(false); err != nil {
				return err
			}
		}
	}
	return flush(true)
}

func (c Copy) tell(doing string, records int64) {
	if c.Progress != nil {
		c.Progress(doing, records)
	}
}

// compare reads a table of both stores.
func (c Copy) compare(ctx context.Context, t kv.TableInfo) (Sum, error) {
	var read int64
	more := func() {
		if read++; read%batch == 0 {
			c.tell("comparing", read)
		}
	}
	from, err := Measure(ctx, c.From, t, more)
	if err != nil {
		return from, err
	}
	to, err := Measure(ctx, c.To, t, more)
	if err != nil {
		return to, err
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
