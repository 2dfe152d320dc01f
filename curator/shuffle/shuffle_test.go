package shuffle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gleaner/kv/mem"
)

// TestMergeIsASort: whatever the memory, the partitions and the runs, each pair
// comes once, in order, in the partition of its key; and no run is left behind.
func TestMergeIsASort(t *testing.T) {
	rows, err := mem.New().LooseTable(t.Context(), "runs")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("table", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkMerge(t, Table{rows}, 0, 1<<11, 1<<20) })
	})
	dir := Dir(t.TempDir())
	t.Run("files", func(t *testing.T) { // fewer of them: it takes long to make one
		rapid.Check(t, func(t *rapid.T) { checkMerge(t, dir, 1<<15, 1<<20) })
	})
}

func checkMerge(t *rapid.T, space Space, memories ...int) {
	ctx := context.Background()
	pairs := drawPairs(t)
	parts := rapid.IntRange(1, 9).Draw(t, "partitions")
	memory := rapid.SampledFrom(memories).Draw(t, "memory")
	runs := write(t, space, memory, parts, pairs)
	slices.SortFunc(pairs, func(a, b Pair) int { return compare(&a, &b) })
	for part := range parts {
		var sections []Section
		for _, r := range runs {
			sections = append(sections, r.Section(part))
		}
		var want []Pair
		for _, p := range pairs {
			if int(partition(p.Job, p.Key, uint16(parts))) == part {
				want = append(want, p)
			}
		}
		m, err := NewMerge(ctx, space, memory, "scratch-", sections)
		if err != nil {
			t.Fatal(err)
		}
		got := collect(m)
		if err := errors.Join(m.Err(), m.Close()); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, want, func(a, b Pair) bool { return compare(&a, &b) == 0 }) {
			t.Fatalf("partition %d of %d runs: got %v, want %v", part, len(runs), got, want)
		}
	}
	for _, r := range runs {
		if err := space.Remove(ctx, r.Name); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := space.Names(ctx); err != nil || len(names) > 0 {
		t.Fatalf("left behind: %v, %v", names, err)
	}
}

func drawPairs(t *rapid.T) []Pair {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	pairs := make([]Pair, rapid.SampledFrom([]int{0, 1, 30, 3000}).Draw(t, "pairs"))
	for i := range pairs {
		pairs[i] = Pair{Job: uint16(r.IntN(3)), Key: text(r, 12), Source: uint8(r.IntN(2)), Value: text(r, 5)}
		if r.IntN(50) == 0 {
			pairs[i].Value = bytes.Repeat([]byte{7}, r.IntN(5000))
		}
	}
	return pairs
}

// text has few letters, so that some are equal or begin alike.
func text(r *rand.Rand, most int) []byte {
	b := make([]byte, r.IntN(most+1))
	for i := range b {
		b[i] = byte(r.IntN(2))
	}
	return b
}

func write(t *rapid.T, space Space, memory, parts int, pairs []Pair) []Run {
	var runs []Run
	s := NewSorter(memory, parts)
	flush := func() {
		run, err := s.Write(context.Background(), space, fmt.Sprintf("run-%d", len(runs)))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	for _, p := range pairs {
		if s.Add(p); s.Full() {
			flush()
		}
	}
	flush()
	return runs
}

func collect(m *Merge) []Pair {
	var got []Pair
	for m.Next() {
		p := *m.Pair()
		p.Key, p.Value = bytes.Clone(p.Key), bytes.Clone(p.Value)
		got = append(got, p)
	}
	return got
}

// TestAddAllocatesNothing: a sorter's memory is allocated once.
func TestAddAllocatesNothing(t *testing.T) {
	s := NewSorter(1<<20, 8)
	key, value := []byte("some key"), []byte("some value")
	allocs := testing.AllocsPerRun(10, func() {
		for range 1000 {
			s.Add(Pair{Job: 1, Key: key, Value: value})
		}
		s.Reset()
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestDamage: a run with any bit flipped, cut anywhere or gone is Damaged.
func TestDamage(t *testing.T) {
	dir := Dir(t.TempDir())
	s := NewSorter(0, 1)
	for i := range 20 {
		s.Add(Pair{Key: fmt.Append(nil, i), Value: []byte("value")})
	}
	run, err := s.Write(t.Context(), dir, "r")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(dir.path("r"))
	if err != nil || int64(len(whole)) != run.Size() || len(whole) < 3*64 {
		t.Fatalf("%d bytes of %d, %v", len(whole), run.Size(), err)
	}
	for i := range 8 * len(whole) {
		bad := bytes.Clone(whole)
		bad[i/8] ^= 1 << (i % 8)
		expectDamaged(t, dir, run, bad)
	}
	for i := range whole {
		expectDamaged(t, dir, run, whole[:i])
	}
	if err := dir.Remove(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	var damaged *Damaged
	if _, err := NewMerge(t.Context(), dir, 0, "", []Section{run.Section(0)}); !errors.As(err, &damaged) || damaged.Run != "r" {
		t.Errorf("gone: %v", err)
	}
}

func expectDamaged(t *testing.T, dir Dir, run Run, content []byte) {
	t.Helper()
	if err := os.WriteFile(dir.path("r"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := NewMerge(t.Context(), dir, 0, "", []Section{run.Section(0)})
	if err == nil {
		collect(m)
		err = errors.Join(m.Err(), m.Close())
	}
	var damaged *Damaged
	if !errors.As(err, &damaged) || damaged.Run != "r" {
		t.Fatalf("%d bytes: %v", len(content), err)
	}
}

// FuzzCursor: no bytes, as a section or as a block whose checksum is right, make a cursor fail in another way than
// with a Damaged; and what it reads is the same when it is written and read again.
func FuzzCursor(f *testing.F) {
	some := written([]Pair{{Job: 1, Key: []byte("key"), Source: 1, Value: []byte("value")}, {Job: 300, Key: make([]byte, 200)}})
	f.Add(some)
	f.Add(some[headerSize:])
	f.Add([]byte{})
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, data []byte) {
		block := append(make([]byte, headerSize), data...)
		seal(block)
		for _, section := range [][]byte{data, block} {
			got, err := readAll(section)
			var damaged *Damaged
			if err != nil && !errors.As(err, &damaged) {
				t.Fatal(err)
			}
			again, err := readAll(written(got))
			if err != nil || !slices.EqualFunc(got, again, func(a, b Pair) bool { return compare(&a, &b) == 0 }) {
				t.Fatalf("%v became %v, %v", got, again, err)
			}
		}
	})
}

func written(pairs []Pair) []byte {
	out := &buffer{}
	w := writer{to: out, block: make([]byte, headerSize), size: 64}
	for _, p := range pairs {
		w.add(p)
	}
	w.endSection()
	return out.Bytes()
}

func readAll(data []byte) ([]Pair, error) {
	c := cursor{of: Section{To: int64(len(data))}, from: source{bytes.NewReader(data)}}
	var got []Pair
	for c.next() {
		p := c.Pair
		p.Key, p.Value = bytes.Clone(p.Key), bytes.Clone(p.Value)
		got = append(got, p)
	}
	return got, c.err
}

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

type source struct{ io.ReaderAt }

func (source) Close() error { return nil }

// TestFormat: docs/formats/curator.md shows a run as it is written.
func TestFormat(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/curator.md")
	if err != nil {
		t.Fatal(err)
	}
	run := written([]Pair{{Job: 1, Key: []byte("group 7"), Source: 0, Value: []byte("90")}, {Job: 1, Key: []byte("group 7"), Source: 1, Value: []byte("95")}})
	var dump strings.Builder
	for at := 0; at < len(run); at += 16 {
		fmt.Fprintf(&dump, "%04x  % x\n", at, run[at:min(at+16, len(run))])
	}
	if !strings.Contains(string(page), dump.String()) {
		t.Errorf("docs/formats/curator.md does not have\n%s", dump.String())
	}
}
