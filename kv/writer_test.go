package kv_test

import (
	"context"
	"errors"
	"testing"

	"gleaner/kv"
	"gleaner/kv/mem"
)

var (
	key    = kv.Key{Part: []byte("p"), Row: []byte("r")}
	before = kv.Version{Writer: 1, Seq: 1} // there before each case, unless there is no record
	theirs = kv.Version{Writer: 2, Seq: 1}
	mine   = kv.Version{Writer: 3, Seq: 1}
)

// A line is a table over a bad network: the n-th fate says what happens to the
// n-th write, whose answer is lost. Later writes work as usual.
type line struct {
	kv.Table
	fates   []string // applied, dropped, late: it arrives after the next read or write, or refused: the answer says so
	late    func()
	before  func() // what others do before a read
	readErr error
}

func (l *line) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return l.call(func() error { return l.Table.CompareAndSet(ctx, key, old, next, value) })
}

func (l *line) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return l.call(func() error { return l.Table.CompareAndDelete(ctx, key, old) })
}

func (l *line) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	return l.call(func() error { return l.Table.Apply(ctx, part, next, changes...) })
}

func (l *line) call(do func() error) error {
	defer l.arriving()()
	if len(l.fates) == 0 {
		return do()
	}
	fate := l.fates[0]
	l.fates = l.fates[1:]
	switch fate {
	case "applied":
		_ = do()
	case "late":
		l.late = func() { _ = do() }
	case "refused":
		return errRefused
	}
	return kv.ErrUnknown
}

var errRefused = errors.New("refused")

// arriving gives the late write, which arrives when this call has been made.
func (l *line) arriving() func() {
	late := l.late
	l.late = nil
	if late == nil {
		return func() {}
	}
	return late
}

func (l *line) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	defer l.arriving()()
	if l.before != nil {
		l.before()
	}
	if l.readErr != nil {
		return kv.Record{}, l.readErr
	}
	return l.Table.Get(ctx, key)
}

func TestWriterSettles(t *testing.T) {
	ctx := t.Context()
	replace := func(tab kv.Table, old kv.Version) func() {
		return func() { _ = tab.CompareAndSet(ctx, key, old, theirs, []byte("theirs")) }
	}
	remove := func(tab kv.Table, old kv.Version) func() {
		return func() { _ = tab.CompareAndDelete(ctx, key, old) }
	}
	set := func(old kv.Version) func(*kv.Writer, kv.Table) error {
		return func(w *kv.Writer, tab kv.Table) error {
			_, err := w.Set(ctx, tab, key, old, []byte("mine"))
			return err
		}
	}
	del := func(w *kv.Writer, tab kv.Table) error { return w.Delete(ctx, tab, key, before) }
	create := func(w *kv.Writer, tab kv.Table) error {
		_, err := w.Create(ctx, tab, key, []byte("mine"))
		return err
	}
	none := kv.Version{}
	apply := func(changes ...kv.Change) func(*kv.Writer, kv.Table) error {
		return func(w *kv.Writer, tab kv.Table) error {
			_, err := w.Apply(ctx, tab, key.Part, changes...)
			return err
		}
	}
	setRow := kv.Change{Row: key.Row, Old: before, Value: []byte("mine")}
	newRow := kv.Change{Row: []byte("s")}
	delRow := kv.Change{Do: kv.Delete, Row: key.Row, Old: before}
	broken := errors.New("the line is cut")

	for _, tc := range []struct {
		story  string
		fates  []string
		others func(kv.Table, kv.Version) func()
		victim kv.Version // the version that the others replace or remove
		start  kv.Version
		do     func(*kv.Writer, kv.Table) error
		err    error
		left   kv.Version
	}{
		{"applied, the answer lost", []string{"applied"}, nil, none, before, set(before), nil, mine},
		{"dropped, so tried again", []string{"dropped", "dropped"}, nil, none, before, set(before), nil, mine},
		{"late, and first", []string{"late"}, nil, none, before, set(before), nil, mine},
		{"all late", []string{"late", "late"}, nil, none, before, set(before), nil, mine},
		{"refused, which is no doubt", []string{"refused"}, nil, none, before, set(before), errRefused, before},
		{"late, and the second is refused", []string{"late", "refused"}, nil, none, before, set(before), nil, mine},
		{"dropped, then refused every time", append([]string{"dropped"}, many("refused")...), nil, none, before, set(before), kv.ErrUnknown, before},
		{"dropped every time", many("dropped"), nil, none, before, set(before), kv.ErrUnknown, before},
		{"forestalled", []string{"dropped"}, replace, before, before, set(before), kv.ErrUnknown, theirs},
		{"replaced", []string{"applied"}, replace, mine, before, set(before), kv.ErrUnknown, theirs},
		{"a conflict is no doubt", nil, nil, none, before, set(theirs), kv.ErrConflict, before},
		{"new, the answer lost", []string{"applied"}, nil, none, none, set(none), nil, mine},
		{"new and dropped", []string{"dropped"}, nil, none, none, set(none), kv.ErrUnknown, none},
		{"new, and deleted by another", []string{"applied"}, remove, mine, none, set(none), kv.ErrUnknown, none},
		{"deleted, the answer lost", []string{"applied"}, nil, none, before, del, nil, none},
		{"delete dropped", []string{"dropped"}, nil, none, before, del, nil, none},
		{"delete late", []string{"late", "late"}, nil, none, before, del, nil, none},
		{"delete dropped every time", many("dropped"), nil, none, before, del, kv.ErrUnknown, before},
		{"delete forestalled", []string{"dropped"}, replace, before, before, del, kv.ErrUnknown, theirs},
		{"deleted by another", []string{"dropped"}, remove, before, before, del, nil, none},
		{"created, the answer lost", []string{"applied"}, nil, none, none, create, nil, mine},
		{"create dropped", []string{"dropped", "dropped"}, nil, none, none, create, nil, mine},
		{"create late", []string{"late", "late"}, nil, none, none, create, nil, mine},
		{"created and replaced", []string{"applied"}, replace, mine, none, create, kv.ErrUnknown, theirs},
		{"create of what is there", nil, nil, none, before, create, kv.ErrConflict, before},
		{"both applied, the answer lost", []string{"applied"}, nil, none, before, apply(newRow, setRow), nil, mine},
		{"both dropped", []string{"dropped", "dropped"}, nil, none, before, apply(newRow, setRow), nil, mine},
		{"both late", []string{"late", "late"}, nil, none, before, apply(newRow, setRow), nil, mine},
		{"both dropped every time", many("dropped"), nil, none, before, apply(newRow, setRow), kv.ErrUnknown, before},
		{"one replaced, the other tells", []string{"applied"}, replace, mine, before, apply(newRow, setRow), nil, theirs},
		{"one forestalled", []string{"dropped"}, replace, before, before, apply(newRow, setRow), kv.ErrUnknown, theirs},
		{"removed together, the answer lost", []string{"applied"}, nil, none, before, apply(delRow), nil, none},
		{"a conflict of one is no doubt", nil, nil, none, none, apply(newRow, setRow), kv.ErrConflict, none},
	} {
		t.Run(tc.story, func(t *testing.T) {
			tab := startAt(t, tc.start)
			l := &line{Table: tab, fates: tc.fates}
			if tc.others != nil {
				l.before = tc.others(tab, tc.victim)
			}
			if err := tc.do(kv.NewWriter(mine.Writer), l); !errors.Is(err, tc.err) {
				t.Errorf("got error %v, want %v", err, tc.err)
			}
			l.arriving()()
			if r, _ := tab.Get(ctx, key); r.Version != tc.left {
				t.Errorf("version %v is left, want %v", r.Version, tc.left)
			}
		})
	}

	l := &line{Table: startAt(t, before), fates: []string{"applied", "applied"}, readErr: broken}
	for _, do := range []func(*kv.Writer, kv.Table) error{set(before), del} {
		if err := do(kv.NewWriter(mine.Writer), l); !errors.Is(err, kv.ErrUnknown) || !errors.Is(err, broken) {
			t.Errorf("the read fails: got error %v", err)
		}
	}
}

// many is more often than a writer tries.
func many(fate string) (fates []string) {
	for range 100 {
		fates = append(fates, fate)
	}
	return fates
}

// startAt gives a table with one record of that version, or none.
func startAt(t *testing.T, v kv.Version) kv.Table {
	t.Helper()
	tab, err := mem.New().Table(t.Context(), "t")
	if err == nil && v != (kv.Version{}) {
		err = tab.CompareAndSet(t.Context(), key, kv.Version{}, v, []byte("before"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return tab
}
