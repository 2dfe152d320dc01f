package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/mem"
	"gleaner/kv/pebble"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const records = 3 * batch

// filled gives a store with two tables.
func filled(t testing.TB) *mem.Store {
	s := mem.New()
	strict, err := s.Table(t.Context(), "strict")
	must(t, err)
	loose, err := s.LooseTable(t.Context(), "loose")
	must(t, err)
	_, err = s.Table(t.Context(), "void")
	must(t, err)
	for i := range records {
		r := kv.Record{Key: kv.Key{Part: fmt.Appendf(nil, "part%d", i%100), Row: fmt.Appendf(nil, "%06d", i)},
			Value: fmt.Append(nil, i), Version: kv.Version{Writer: 1<<64 - 1, Seq: uint64(i + 1)}}
		must(t, strict.Load(t.Context(), r))
		if i%3 == 0 {
			must(t, loose.Put(t.Context(), r))
		}
	}
	return s
}

func newPebble(t testing.TB) *pebble.Store {
	s, err := pebble.Open(t.TempDir(), pebble.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestCopy: there and back it is the same, and no diary is left.
func TestCopy(t *testing.T) {
	from, there, back := filled(t), newPebble(t), mem.New()
	result, err := Copy{From: from, To: there, Source: "a", Target: "b"}.Do(t.Context())
	must(t, err)
	if result.Copied != records+records/3 || len(result.Tables) != 3 || result.Resumed {
		t.Errorf("%+v", result)
	}
	_, err = Copy{From: there, To: back, Source: "b", Target: "c"}.Do(t.Context())
	must(t, err)
	for _, info := range []kv.TableInfo{{Name: "strict"}, {Name: "loose", Loose: true}, {Name: "void"}} {
		a, err := Measure(t.Context(), from, info, func() {})
		must(t, err)
		b, err := Measure(t.Context(), back, info, func() {})
		must(t, err)
		if a != b {
			t.Errorf("%+v came back as %+v", a, b)
		}
	}
	tables, err := there.Tables(t.Context())
	must(t, err)
	if len(tables) != 3 {
		t.Errorf("the target has %v", tables)
	}
}

// TestCopyResumes: a copy that is stopped again and again comes to an end, and
// copies hardly anything twice.
func TestCopyResumes(t *testing.T) {
	from, to := filled(t), newPebble(t)
	var copied int64
	for stops := 0; ; stops++ {
		ctx, stop := context.WithCancel(t.Context())
		result, err := Copy{From: from, To: to, Source: "a", Target: "b", Progress: func(doing string, n int64) {
			if n >= batch && doing == "copying" {
				stop()
			}
		}}.Do(ctx)
		stop()
		copied += result.Copied
		if err == nil {
			if stops < 2 || !result.Resumed {
				t.Errorf("stopped %d times: %+v", stops, result)
			}
			break
		}
		if !errors.Is(err, context.Canceled) || stops > 10 {
			t.Fatal(err)
		}
	}
	if most := int64(records+records/3) * 2; copied > most {
		t.Errorf("copied %d records in all", copied)
	}
}

// TestCopyRefuses: what may not be overwritten is not.
func TestCopyRefuses(t *testing.T) {
	from, full := filled(t), mem.New()
	_, err := full.Table(t.Context(), "mine")
	must(t, err)
	refused := func(c Copy, want string) {
		t.Helper()
		if _, err := c.Do(t.Context()); !input.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	refused(Copy{From: from, To: full, Source: "a", Target: "b"}, "b: is not empty: it has the table mine")

	to := mem.New()
	ctx, stop := context.WithCancel(t.Context())
	_, err = Copy{From: from, To: to, Source: "a", Target: "b", Progress: func(string, int64) { stop() }}.Do(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	refused(Copy{From: filled(t), To: to, Source: "other", Target: "b"}, "b: holds a copy of a that is not complete")
	refused(Copy{From: to, To: mem.New(), Source: "b", Target: "c"}, "b: is the target of a copy that is not complete")
}

// hooked calls before each call of Table.
type hooked struct {
	kv.Store
	before func(table string) error
}

func (h hooked) Table(ctx context.Context, name string) (kv.Table, error) {
	if err := h.before(name); err != nil {
		return nil, err
	}
	return h.Store.Table(ctx, name)
}

// stopped leaves a copy from a store with the tables "strict" and "void" that ended at the second.
func stopped(t *testing.T) (from, to *mem.Store) {
	from, to = filled(t), mem.New()
	must(t, from.Drop(t.Context(), "loose"))
	killed := errors.New("killed")
	source := hooked{from, func(table string) error {
		if table == "void" {
			return killed
		}
		return nil
	}}
	if _, err := (Copy{From: source, To: to, Source: "a", Target: "b"}).Do(t.Context()); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	return from, to
}

// TestCopyFindsLostTable: an interrupted copy made a table that the source has lost when the copy goes on.
func TestCopyFindsLostTable(t *testing.T) {
	from, to := stopped(t)
	must(t, from.Drop(t.Context(), "strict"))
	_, err := Copy{From: from, To: to, Source: "a", Target: "b"}.Do(t.Context())
	if err == nil || err.Error() != "transfer: the stores differ after the copy: table strict is only in b; copy to an empty store" {
		t.Errorf("got error %v", err)
	}
	if err := Check(t.Context(), to); !errors.Is(err, ErrPartial) {
		t.Errorf("the target may be used: %v", err)
	}
}

// TestCopyFindsNewTable: the source gets a table during the copy.
func TestCopyFindsNewTable(t *testing.T) {
	from, to := filled(t), mem.New()
	source := hooked{from, func(table string) error {
		_, err := from.Table(t.Context(), "late")
		return err
	}}
	_, err := Copy{From: source, To: to, Source: "a", Target: "b"}.Do(t.Context())
	if err == nil || !strings.Contains(err.Error(), ": table late is only in a;") {
		t.Errorf("got error %v", err)
	}
}

// TestCopyEndsBesideAnother: a copy that begins while another ends leaves the store complete.
func TestCopyEndsBesideAnother(t *testing.T) {
	from, to := stopped(t)
	first := Copy{From: from, To: to, Source: "a", Target: "b"}
	ended := false
	second := first
	second.To = hooked{to, func(table string) error {
		if ended {
			return nil
		}
		ended = true
		_, err := first.Do(t.Context())
		return err
	}}
	if _, err := second.Do(t.Context()); !input.Is(err) || !strings.Contains(err.Error(), "it has the table strict, of a copy that has just ended") {
		t.Errorf("got error %v", err)
	}
	must(t, Check(t.Context(), to))
}

// TestCompareFinds: a record that is missing, and one that differs in a bit.
func TestCompareFinds(t *testing.T) {
	for what, spoil := range map[string]func(*kv.Record){
		"value":   func(r *kv.Record) { r.Value = []byte("x") },
		"version": func(r *kv.Record) { r.Version.Seq++ },
		"row":     func(r *kv.Record) { r.Key.Row = []byte("x") },
	} {
		a, b := mem.New(), mem.New()
		info := kv.TableInfo{Name: "t"}
		for _, s := range []kv.Store{a, b} {
			tab, err := s.Table(t.Context(), "t")
			must(t, err)
			r := kv.Record{Key: kv.Key{Part: []byte("p"), Row: []byte("r")}, Version: kv.Version{Writer: 1, Seq: 1}, Value: []byte("v")}
			if s == b {
				spoil(&r)
			}
			must(t, tab.Load(t.Context(), r))
		}
		if _, err := (Copy{From: a, To: b, Source: "a", Target: "b"}).compare(t.Context(), info, new(int64)); err == nil {
			t.Errorf("a different %s was not found", what)
		}
	}
}
