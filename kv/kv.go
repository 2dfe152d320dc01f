package kv

import (
	"context"
	"errors"
	"iter"
)

// A Key names a record: a part, and a row in that part. Rows of one part are
// kept in the order of their bytes; each store orders parts as it likes.
// A part has at least one byte, a row may be empty; neither is longer than MaxKey.
type Key struct{ Part, Row []byte }

// Format is the layout that this code writes, and the newest that it reads, in
// every store: of the store itself and of what the rooms above keep in it. Raise it
// when an older gleaner would misread what this one writes (docs/formats/kv.md).
//
//   - 1: the first.
//   - 2: the history has an index of its samples, and its rows say which import they are of.
const Format = 2

// Limits that a distributed store sets.
const (
	MaxKey     = 1<<16 - 1 // bytes of a part, or of a row
	MaxValue   = 4 << 20   // bytes of a value, and of all values of one Apply
	MaxChanges = 100       // of one Apply
)

// A Version identifies one write of a record. The writer chooses it (see
// Writer), so a writer knows its own writes. The zero Version means that there
// is no record.
type Version struct{ Writer, Seq uint64 }

// A Record is what a table keeps under a key.
type Record struct {
	Key     Key
	Value   []byte
	Version Version // zero in a loose table
}

// A Range is the keys From <= key < To. With Part set they are rows of that
// part, in order. Without it they are a piece of the whole table, with bounds
// that only the store that made them can read (see Reader.Split). A nil bound is
// open, so the zero Range is the whole table.
type Range struct {
	Part     []byte
	From, To []byte
}

// A Change is what an Apply does to one row, if its version is Old.
type Change struct {
	Do    Op
	Row   []byte
	Old   Version
	Value []byte // of a Set
}

// An Op is what a Change does.
type Op uint8

const (
	Set    Op = iota // write Value; the zero Old means that there is no record
	Delete           // remove the record
	Keep             // leave the record as it is: only its version is compared
)

// Errors a caller acts on.
var (
	// ErrNotFound is returned by Get when there is no record under the key.
	ErrNotFound = errors.New("kv: no such record")
	// ErrConflict is returned by CompareAndSet, CompareAndDelete and Apply when
	// a record's version is not the one expected. Nothing was written.
	ErrConflict = errors.New("kv: the record has changed")
	// ErrUnknown is returned by CompareAndSet, CompareAndDelete and Apply when the
	// store cannot tell whether the write was applied. Writer settles what it can.
	ErrUnknown = errors.New("kv: the write may or may not have been applied")
	// ErrHeld is returned by a store whose data another process holds open.
	ErrHeld = errors.New("kv: another process holds the data")
)

// A Reader reads a table of either kind.
type Reader interface {
	// Get reads the newest acknowledged record under key. The caller owns it.
	Get(ctx context.Context, key Key) (Record, error)

	// Peek is a cheaper Get. The record may be a moment old, or one that a crash
	// may still undo.
	Peek(ctx context.Context, key Key) (Record, error)

	// Scan yields the records of r. A record's bytes belong to the store: they
	// must not be changed, and are valid until the next record. Every record that
	// exists throughout the scan is yielded exactly once, with a value it had at
	// some moment of the scan and no older than what was acknowledged before the
	// scan began. Rows of a part come together and in order. An error ends the scan.
	Scan(ctx context.Context, r Range) iter.Seq2[Record, error]

	// Rest gives the keys of r that a scan of r yields after last, so that a
	// scan that ended at last can continue, also in another process.
	Rest(r Range, last Key) Range

	// Split divides the whole table into at most n ranges of about equal size,
	// which do not overlap: scanning them all is scanning the table.
	Split(ctx context.Context, n int) ([]Range, error)
}

// A Table changes by compare-and-set, linearizably: one record, or some rows of one part.
type Table interface {
	Reader

	// CompareAndSet writes value under key as version next if the record's
	// version is old; the zero old means that there is no record. When it
	// returns nil the write is durable. next may be neither zero nor old.
	CompareAndSet(ctx context.Context, key Key, old, next Version, value []byte) error

	// CompareAndDelete removes the record under key if its version is old,
	// which may not be zero.
	CompareAndDelete(ctx context.Context, key Key, old Version) error

	// Apply makes all changes to rows of part, or none if the version of one is
	// not its Old. Rows that are set get the version next. At least one change
	// writes, there are at most MaxChanges, and no two change the same row.
	Apply(ctx context.Context, part []byte, next Version, changes ...Change) error

	// Load writes records with their versions and without a comparison, each
	// independently; when it returns nil all are durable. It is for copies: no record
	// may have been deleted from the table before, and nobody else may use it meanwhile.
	Load(ctx context.Context, records ...Record) error
}

// A LooseTable is eventually consistent: the last write to arrive wins, without
// a comparison. It suits what can be derived, repeated or averaged.
type LooseTable interface {
	Reader

	// Put writes the records independently: when it fails, any of them may
	// have been written. When it returns nil all are durable.
	Put(ctx context.Context, records ...Record) error

	// Delete removes the records under keys, independently.
	Delete(ctx context.Context, keys ...Key) error
}

// A TableInfo names a table of a store and says its kind.
type TableInfo struct {
	Name  string
	Loose bool
}

// A Store holds tables by name. The first call of Table or LooseTable makes
// the table and decides its kind; to ask for the other kind is an error. A name
// is a lower-case letter and up to 47 more, digits or underscores. No call may
// be under way when Close is called, or follow it.
type Store interface {
	Table(ctx context.Context, name string) (Table, error)
	LooseTable(ctx context.Context, name string) (LooseTable, error)
	// Tables lists the tables by name.
	Tables(ctx context.Context) ([]TableInfo, error)
	// Drop removes the table of that name with all its records, if there is
	// one. The table may not be used meanwhile, nor a Table or LooseTable that
	// was given for it before.
	Drop(ctx context.Context, name string) error
	Close() error
}
