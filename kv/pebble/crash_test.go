package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"gleaner/kv"
)

// TestCrash writes, reads and flushes at once, and again and again takes the disk
// as a crash at that moment might leave it: what was synced, and by chance some of what was
// not. Opened again, it has every write that was acknowledged and every write
// that a reader saw, nothing that was never begun, and no partial write.
func TestCrash(t *testing.T) {
	seeds := uint64(12)
	if os.Getenv("GLEANER_LONG") != "" {
		seeds = 300
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { crashes(t, seed) })
	}
}

func crashes(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	memory := vfs.NewCrashableMem()
	pause := time.Duration(rng.IntN(300)) * time.Microsecond
	s := openAt(t, "store", watchedDisk{memory, func() { time.Sleep(pause) }})

	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	w := newWork(t, s, seed)
	for i := range w.registers {
		all.Go(func() { w.write(ctx, i) })
	}
	all.Go(func() { w.read(ctx) })
	all.Go(func() { w.scan(ctx) })
	all.Go(func() { w.put(ctx) })
	all.Go(func() { w.apply(ctx) })
	all.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(2 * time.Millisecond)
			if err := s.db.Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 10 {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		promised := w.promised()
		image := memory.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: []int{0, 30, 70, 100}[rng.IntN(4)],
			RNG:                 rand.New(rand.NewPCG(rng.Uint64(), 0)),
		})
		w.verify(openAt(t, "store", image), promised)
	}
}

// work is what the crash interrupts. The n-th change of register i leaves
// it at count n; every fourth change deletes it.
type work struct {
	t         *testing.T
	seed      uint64
	table     kv.Table
	loose     kv.LooseTable
	registers [8]register
	pulse     register // the count that all records of the loose table are put at
	pair      register // the count that two rows of the table's other part are at together
}

type register struct{ begun, promised atomic.Uint64 }

// promise records that a reader or writer knows the count.
func (r *register) promise(count uint64) {
	for {
		known := r.promised.Load()
		if count <= known || r.promised.CompareAndSwap(known, count) {
			return
		}
	}
}

func newWork(t *testing.T, s *Store, seed uint64) *work {
	table, err := s.Table(t.Context(), "t")
	must(t, err)
	loose, err := s.LooseTable(t.Context(), "l")
	must(t, err)
	return &work{t: t, seed: seed, table: table, loose: loose}
}

func deletes(count uint64) bool { return count%4 == 3 }

func registerKey(i int) kv.Key { return kv.Key{Part: []byte("register"), Row: []byte{byte(i)}} }

// text is count over and over, of a length that varies with it.
func text(count uint64) []byte {
	return bytes.Repeat(binary.BigEndian.AppendUint64(nil, count), 1+int(count*7%900))
}

func (w *work) write(ctx context.Context, i int) {
	writer, r := kv.NewWriter(uint64(i+1)), &w.registers[i]
	var version kv.Version
	for ctx.Err() == nil {
		count := r.begun.Add(1)
		var err error
		if deletes(count) {
			err = writer.Delete(w.t.Context(), w.table, registerKey(i), version)
			version = kv.Version{}
		} else {
			version, err = writer.Set(w.t.Context(), w.table, registerKey(i), version, text(count))
		}
		if err != nil {
			w.t.Errorf("change %d of register %d: %v", count, i, err)
			return
		}
		r.promise(count)
	}
}

func (w *work) read(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i = (i + 1) % len(w.registers) {
		if r, err := w.table.Get(w.t.Context(), registerKey(i)); err == nil {
			w.registers[i].promise(w.count(r.Value))
		}
	}
}

func (w *work) scan(ctx context.Context) {
	for ctx.Err() == nil {
		for r, err := range w.table.Scan(w.t.Context(), kv.Range{Part: registerKey(0).Part}) {
			if err != nil {
				w.t.Error(err)
				return
			}
			w.registers[r.Key.Row[0]].promise(w.count(r.Value))
		}
	}
}

func (w *work) put(ctx context.Context) {
	for ctx.Err() == nil {
		count := w.pulse.begun.Add(1)
		var records []kv.Record
		for i := range 5 {
			records = append(records, kv.Record{Key: registerKey(i), Value: text(count)})
		}
		if err := w.loose.Put(w.t.Context(), records...); err != nil {
			w.t.Error(err)
		}
		w.pulse.promise(count)
	}
}

// apply counts two rows up together.
func (w *work) apply(ctx context.Context) {
	writer, version := kv.NewWriter(100), kv.Version{}
	for ctx.Err() == nil {
		count := w.pair.begun.Add(1)
		var changes []kv.Change
		for i := range 2 {
			changes = append(changes, kv.Change{Row: pairKey(i).Row, Old: version, Value: text(count)})
		}
		var err error
		if version, err = writer.Apply(w.t.Context(), w.table, pairKey(0).Part, changes...); err != nil {
			w.t.Errorf("change %d of both: %v", count, err)
			return
		}
		w.pair.promise(count)
	}
}

func pairKey(i int) kv.Key { return kv.Key{Part: []byte("pair"), Row: []byte{byte(i)}} }

// count reads what text wrote.
func (w *work) count(value []byte) uint64 {
	if len(value) < 8 {
		w.t.Errorf("a record holds %q", value)
		return 0
	}
	count := binary.BigEndian.Uint64(value)
	if !bytes.Equal(value, text(count)) {
		w.t.Errorf("count %d is there by halves", count)
	}
	return count
}

// promised gives the counts promised so far, the loose table's and the pair's last.
func (w *work) promised() (counts []uint64) {
	for i := range w.registers {
		counts = append(counts, w.registers[i].promised.Load())
	}
	return append(counts, w.pulse.promised.Load(), w.pair.promised.Load())
}

// verify compares what a crash left with what was promised before it.
func (w *work) verify(s *Store, promised []uint64) {
	left := newWork(w.t, s, w.seed)
	for i := range w.registers {
		w.compare(fmt.Sprint("register ", i), left.table, i, promised[i], w.registers[i].begun.Load())
	}
	for i := range 5 {
		w.compare(fmt.Sprint("loose ", i), left.loose, i, promised[len(w.registers)], w.pulse.begun.Load())
	}
	w.comparePair(left.table, promised[len(w.registers)+1])
}

// comparePair makes sure that both rows are there or none, at one count.
func (w *work) comparePair(left kv.Reader, promised uint64) {
	var counts [2]uint64
	for i := range counts {
		r, err := left.Get(w.t.Context(), pairKey(i))
		if err == nil {
			counts[i] = w.count(r.Value)
		} else if !errors.Is(err, kv.ErrNotFound) {
			w.t.Error(err)
		}
	}
	if begun := w.pair.begun.Load(); counts[0] != counts[1] || counts[0] < promised || counts[0] > begun {
		w.t.Errorf("the pair is at %v after the crash, was promised at %d, begun at %d", counts, promised, begun)
	}
}

func (w *work) compare(name string, left kv.Reader, i int, promised, begun uint64) {
	r, err := left.Get(w.t.Context(), registerKey(i))
	switch {
	case err == nil:
		if count := w.count(r.Value); count < promised || count > begun {
			w.t.Errorf("%s: at %d after the crash, was promised at %d, begun at %d", name, count, promised, begun)
		}
	case !errors.Is(err, kv.ErrNotFound):
		w.t.Error(err)
	default:
		gone := promised == 0
		for count := promised; count <= begun; count++ {
			gone = gone || deletes(count)
		}
		if !gone {
			w.t.Errorf("%s: gone after the crash, was promised at %d, begun at %d", name, promised, begun)
		}
	}
}

// TestCrashAfterBatches: a Put that fills whole batches is durable to the last of them.
func TestCrashAfterBatches(t *testing.T) {
	memory := vfs.NewCrashableMem()
	tab, err := openAt(t, "store", memory).LooseTable(t.Context(), "l")
	must(t, err)
	var records []kv.Record
	for i := range 3 {
		records = append(records, kv.Record{Key: registerKey(i), Value: make([]byte, batchBytes)})
		must(t, tab.Put(t.Context(), records...))
		left, err := openAt(t, "store", memory.CrashClone(vfs.CrashCloneCfg{})).LooseTable(t.Context(), "l")
		must(t, err)
		for i := range records {
			_, err := left.Get(t.Context(), registerKey(i))
			must(t, err)
		}
	}
}

// TestCrashWhileOpening: a store that was never finished opens the next time.
func TestCrashWhileOpening(t *testing.T) {
	memory := vfs.NewCrashableMem()
	var images []*vfs.MemFS
	var mu sync.Mutex
	crash := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, percent := range []int{0, 50, 100} {
			images = append(images, memory.CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: percent,
				RNG:                 rand.New(rand.NewPCG(uint64(len(images)), 0)),
			}))
		}
	}
	s, err := open("data/store", watchedDisk{memory, crash}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mu.Lock()
	defer mu.Unlock()
	if len(images) < 10 {
		t.Fatalf("only %d crashes", len(images))
	}
	for i, image := range images {
		again, err := open("data/store", image, 0)
		if err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
