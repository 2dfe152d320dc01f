package kv

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// A Writer writes to tables with versions that no other writer uses, so it
// recognises its own writes. It is safe for concurrent use. No two writers may
// ever have the same id: draw it at random when a process starts.
type Writer struct {
	id  uint64
	seq atomic.Uint64
}

// NewWriter gives a writer with that id.
func NewWriter(id uint64) *Writer { return &Writer{id: id} }

// tries is how often a write of unknown outcome is tried. Each try may take a
// store's timeout, so this bounds how long a caller waits.
const tries = 8

func (w *Writer) mint() Version { return Version{Writer: w.id, Seq: w.seq.Add(1)} }

// Set writes value under key if the record's version is old, and gives the
// version it wrote. It settles what CompareAndSet leaves unknown, by reading.
// It returns ErrUnknown if the store cannot be read; if it reads another write,
// which may or may not have replaced this one; and if the record is new and not
// there, since it may have been deleted, or may still arrive.
func (w *Writer) Set(ctx context.Context, t Table, key Key, old Version, value []byte) (Version, error) {
	return w.set(ctx, t, key, old, value, old != Version{})
}

// Create writes value under a key that was never used before and is never
// deleted, such as an id drawn for it. So a record that is not there was not
// written yet, and Create settles that too, by trying again.
func (w *Writer) Create(ctx context.Context, t Table, key Key, value []byte) (Version, error) {
	return w.set(ctx, t, key, Version{}, value, true)
}

// set is Set; with again, it may repeat the write if it reads the version old.
func (w *Writer) set(ctx context.Context, t Table, key Key, old Version, value []byte, again bool) (Version, error) {
	next := w.mint()
	err := t.CompareAndSet(ctx, key, old, next, value)
	for try := 1; errors.Is(err, ErrUnknown) && try < tries; try++ {
		now, readErr := version(ctx, t, key)
		switch {
		case readErr != nil:
			return Version{}, fmt.Errorf("%w; reading it back failed: %w", err, readErr)
		case now == next:
			return next, nil
		case now != old || !again:
			return Version{}, err
		}
		// It was not applied, since no version is used twice, but it may still
		// be under way. Writing it again changes the version, after which the
		// first cannot be applied.
		err = inDoubt(t.CompareAndSet(ctx, key, old, next, value))
	}
	if err != nil {
		return Version{}, err
	}
	return next, nil
}

// Apply makes all changes to rows of part or none, and gives the version of
// those it set. It settles what Table.Apply leaves unknown, by reading the rows:
// one at its new version proves that all was applied, one at its old version
// that nothing was. If all are deletes, it returns what Delete does.
func (w *Writer) Apply(ctx context.Context, t Table, part []byte, changes ...Change) (Version, error) {
	next := w.mint()
	err := t.Apply(ctx, part, next, changes...)
	for try := 1; errors.Is(err, ErrUnknown) && try < tries; try++ {
		was, readErr := applied(ctx, t, part, next, changes)
		switch {
		case readErr != nil:
			return Version{}, fmt.Errorf("%w; reading it back failed: %w", err, readErr)
		case was == yes:
			return next, nil
		case was == unsure:
			return Version{}, err
		}
		err = inDoubt(t.Apply(ctx, part, next, changes...))
	}
	if err != nil {
		return Version{}, err
	}
	return next, nil
}

// Whether changes were applied.
const (
	unsure = iota
	no
	yes
)

// applied reads the rows and tells whether the changes were made.
func applied(ctx context.Context, t Table, part []byte, next Version, changes []Change) (int, error) {
	gone := true // all are deletes, and no row is there
	for _, c := range changes {
		if c.Do == Keep {
			continue
		}
		now, err := version(ctx, t, Key{part, c.Row})
		switch {
		case err != nil:
			return unsure, err
		case c.Do == Set && now == next:
			return yes, nil
		case now == c.Old && now != Version{}:
			return no, nil
		}
		gone = gone && c.Do == Delete && now == Version{}
	}
	if gone {
		return yes, nil
	}
	return unsure, nil
}

// inDoubt is the error of a write that was sent before, with its answer lost. A
// conflict may be with that first write, which arrived late; and if this one
// failed, the first may still arrive.
func inDoubt(err error) error {
	switch {
	case err == nil || errors.Is(err, ErrUnknown):
		return err
	case errors.Is(err, ErrConflict):
		return ErrUnknown
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// Delete removes the record under key if its version is old. It settles what
// CompareAndDelete leaves unknown, by reading. A delete leaves no version behind:
// if the answer was lost, nil means that the record is gone, perhaps by another
// writer's delete. To claim something, use Set.
func (w *Writer) Delete(ctx context.Context, t Table, key Key, old Version) error {
	err := t.CompareAndDelete(ctx, key, old)
	for try := 1; errors.Is(err, ErrUnknown) && try < tries; try++ {
		now, readErr := version(ctx, t, key)
		switch {
		case readErr != nil:
			return fmt.Errorf("%w; reading it back failed: %w", err, readErr)
		case now == Version{}:
			return nil
		case now != old:
			return err
		}
		err = inDoubt(t.CompareAndDelete(ctx, key, old))
	}
	return err
}

// Update replaces the record under key by what change makes of it, and gives
// what it wrote. change sees a zero Version if there is no record. It is called
// again after a conflict with another write, and its error ends the update. After
// ErrUnknown the change may have been made, but not twice.
func (w *Writer) Update(ctx context.Context, t Table, key Key, change func(now Record) ([]byte, error)) (Record, error) {
	for {
		now, err := t.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Record{}, err
		}
		now.Key = key
		value, err := change(now)
		if err != nil {
			return Record{}, err
		}
		next, err := w.Set(ctx, t, key, now.Version, value)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return Record{}, err
		}
		return Record{Key: key, Value: value, Version: next}, nil
	}
}

// version reads the version under key, zero if there is no record.
func version(ctx context.Context, t Table, key Key) (Version, error) {
	now, err := t.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Version{}, nil
	}
	return now.Version, err
}
