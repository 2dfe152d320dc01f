package kvtest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gleaner/kv"
)

// A dumb is the twin of a table: a plain map.
type dumb map[string]kv.Record

func (d dumb) swap(key kv.Key, old, next kv.Version, value []byte) error {
	k := quoted(key)
	if d[k].Version != old {
		return kv.ErrConflict
	}
	d[k] = kv.Record{Key: key, Version: next, Value: value}
	if next == (kv.Version{}) {
		delete(d, k)
	}
	return nil
}

// apply makes all changes or none.
func (d dumb) apply(part []byte, next kv.Version, changes []kv.Change) error {
	was := maps.Clone(d)
	for _, c := range changes {
		k := kv.Key{Part: part, Row: c.Row}
		then := map[kv.Op]kv.Record{
			kv.Set:    {Version: next, Value: c.Value},
			kv.Delete: {},
			kv.Keep:   d[quoted(k)],
		}[c.Do]
		if err := d.swap(k, c.Old, then.Version, then.Value); err != nil {
			clear(d)
			maps.Copy(d, was)
			return err
		}
	}
	return nil
}

// rows gives the twin's keys of a range of one part, in order.
func (d dumb) rows(r kv.Range) (keys []string) {
	var rows []string
	for _, record := range d {
		row := string(record.Key.Row)
		if string(record.Key.Part) == string(r.Part) && row >= string(r.From) && (r.To == nil || row < string(r.To)) {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	for _, row := range rows {
		keys = append(keys, quoted(kv.Key{Part: r.Part, Row: []byte(row)}))
	}
	return keys
}

// empty removes all records of a table.
func empty(t tb, tab kv.Table) {
	for r, err := range tab.Scan(t.Context(), kv.Range{}) {
		must(t, err)
		must(t, tab.CompareAndDelete(t.Context(), r.Key, r.Version))
	}
}

// twin makes the same random calls on a table and on its twin, and compares.
func twin(t *testing.T, s kv.Store) {
	// Some stores take a second to make a table, so cases share it. In some, what was deleted burdens scans, so not all do.
	const share = 50
	var tab kv.Table
	cases, seq := 0, uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		if cases%share == 0 {
			tab = table(t, s, fmt.Sprint("twin", cases/share))
		}
		cases++
		empty(rt, tab)
		model := dumb{}
		// Few bytes and short keys, so that the same ones come often.
		some := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 255}), 1, 3)
		rows := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 255}), 0, 2)
		keys := rapid.Custom(func(rt *rapid.T) kv.Key {
			return kv.Key{Part: some.Draw(rt, "part"), Row: rows.Draw(rt, "row")}
		})
		old := func(rt *rapid.T, k kv.Key) kv.Version {
			if rapid.IntRange(0, 3).Draw(rt, "wrong") == 0 {
				return kv.Version{Writer: 2, Seq: 1 + seq}
			}
			return model[quoted(k)].Version
		}
		compare := func(rt *rapid.T, got, want error) {
			if got != want {
				rt.Fatalf("got error %v, want %v", got, want)
			}
		}
		whole := func(rt *rapid.T) {
			got, _ := collect(rt, tab, kv.Range{})
			slices.Sort(got)
			if wanted := slices.Sorted(maps.Keys(model)); !slices.Equal(got, wanted) {
				rt.Fatalf("the table holds %v, want %v", got, wanted)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) {
				seq++
				k, value, next := keys.Draw(rt, "key"), some.Draw(rt, "value"), kv.Version{Writer: 1, Seq: seq}
				was := old(rt, k)
				compare(rt, tab.CompareAndSet(t.Context(), k, was, next, value), model.swap(k, was, next, value))
			},
			"delete": func(rt *rapid.T) {
				k := keys.Draw(rt, "key")
				if was := old(rt, k); was != (kv.Version{}) {
					compare(rt, tab.CompareAndDelete(t.Context(), k, was), model.swap(k, was, kv.Version{}, nil))
				}
			},
			"apply": func(rt *rapid.T) {
				seq++
				part, next, changes := some.Draw(rt, "part"), kv.Version{Writer: 1, Seq: seq}, []kv.Change(nil)
				for _, row := range rapid.SliceOfNDistinct(rows, 1, 3, func(row []byte) string { return string(row) }).Draw(rt, "rows") {
					c := kv.Change{Row: row, Old: old(rt, kv.Key{Part: part, Row: row}), Value: row}
					if c.Old != (kv.Version{}) && len(changes) > 0 {
						c.Do = rapid.SampledFrom([]kv.Op{kv.Set, kv.Delete, kv.Keep}).Draw(rt, "do")
					}
					changes = append(changes, c)
				}
				compare(rt, tab.Apply(t.Context(), part, next, changes...), model.apply(part, next, changes))
			},
			"get": func(rt *rapid.T) {
				k := keys.Draw(rt, "key")
				r, err := tab.Get(t.Context(), k)
				if wanted, there := model[quoted(k)]; !there {
					compare(rt, err, kv.ErrNotFound)
				} else if err != nil || r.Version != wanted.Version || string(r.Value) != string(wanted.Value) {
					rt.Fatalf("got %v %v, want %v", r, err, wanted)
				}
			},
			"scan": func(rt *rapid.T) {
				r := kv.Range{Part: some.Draw(rt, "part"), From: rows.Draw(rt, "from"), To: rows.Draw(rt, "to")}
				if rapid.Bool().Draw(rt, "open") {
					r.To = nil
				}
				if got, _ := collect(rt, tab, r); !slices.Equal(got, model.rows(r)) {
					rt.Fatalf("%q: got %v, want %v", r, got, model.rows(r))
				}
			},
			"split": func(rt *rapid.T) {
				covers(rt, tab, rapid.IntRange(1, 5).Draw(rt, "n"), len(model))
			},
			"whole": whole,
		})
		whole(rt)
	})
}
