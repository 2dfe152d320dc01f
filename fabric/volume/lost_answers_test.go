package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// An outage is one of a store on a network: the answer to one change is lost, and nothing is answered until it has ended. The change is made, or comes when
// the outage is over.
type outage struct {
	mu     sync.Mutex
	begins int // before which change; -1 for none
	late   bool
	down   bool
	due    func() error // what comes late
	struck string
}

var errOutage = errors.New("no node answers")

func (o *outage) change(what string, do func() error) error {
	o.mu.Lock()
	switch {
	case o.down:
		o.mu.Unlock()
		return errOutage
	case o.begins != 0:
		o.begins = max(-1, o.begins-1)
		o.mu.Unlock()
		return do()
	}
	o.begins, o.down, o.struck = -1, true, what
	if o.late {
		o.due, do = do, func() error { return nil }
	}
	o.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the connection broke", kv.ErrUnknown)
}

// ends ends the outage, and says whether it began. What is late has not come yet.
func (o *outage) ends() (struck string, due func() error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begins, o.down = -1, false
	return o.struck, o.due
}

type outageStore struct {
	kv.Store
	o *outage
}

func (s outageStore) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return outageTable{t, s.o, name}, err
}

type outageTable struct {
	kv.Table
	o    *outage
	name string
}

func (t outageTable) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	t.o.mu.Lock()
	down := t.o.down
	t.o.mu.Unlock()
	if down {
		return kv.Record{}, errOutage
	}
	return t.Table.Get(ctx, key)
}

func (t outageTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return t.o.change("set of "+t.name, func() error { return t.Table.CompareAndSet(context.WithoutCancel(ctx), key, old, next, value) })
}

func (t outageTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return t.o.change("delete of "+t.name, func() error { return t.Table.CompareAndDelete(context.WithoutCancel(ctx), key, old) })
}

func (t outageTable) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	return t.o.change("change of "+t.name, func() error { return t.Table.Apply(context.WithoutCancel(ctx), part, next, changes...) })
}

// A shaken world has one vDisk, and knows what it should hold.
type shaken struct {
	t    *testing.T
	s    *Space
	p    *slowPool
	o    *outage
	v    *Volume
	want []byte
}

func newShaken(t *testing.T) *shaken {
	store, o := mem.New(), &outage{begins: -1}
	first, p := faultySpaceOn(t, store, 4)
	m, err := maps.Open(t.Context(), outageStore{store, o}, kv.NewWriter(7))
	must(t, err)
	first.o.Lease, first.o.Patience = time.Hour, 20*time.Millisecond
	s := NewSpace(m, p, first.o)
	w := &shaken{t, s, p, o, faultyVolume(t, s, 2), make([]byte, 8<<20)}
	t.Cleanup(w.close)
	return w
}

// close ends what the vDisk does behind: hundreds of worlds are made.
func (w *shaken) close() {
	w.o.ends()
	if err := w.v.Close(); err != nil {
		w.t.Log(err)
	}
}

func (w *shaken) reopen() {
	w.t.Helper()
	v, err := w.s.Open(w.t.Context(), w.v.id)
	must(w.t, err)
	w.v = v
}

// write writes durably.
func (w *shaken) write(data []byte, at int64) {
	w.t.Helper()
	must(w.t, w.v.WriteAt(w.t.Context(), data, at, true))
	copy(w.want[at:], data)
}

// check reads all, and then all that there is without each of the disks: all replicas are to hold the same.
func (w *shaken) check(when string) {
	w.t.Helper()
	got := make([]byte, 1<<20)
	look := func(without cluster.DiskID) {
		for at := 0; at < len(w.want); at += len(got) {
			err := w.v.ReadAt(w.t.Context(), got, int64(at))
			if err == nil && !bytes.Equal(got, w.want[at:at+len(got)]) {
				w.t.Errorf("%s: without disk %q, block %d reads wrong", when, without, at>>20)
			}
			if err != nil && without == "" {
				w.t.Errorf("%s: %v", when, err)
			}
		}
	}
	look("")
	for _, id := range w.p.order {
		d := w.p.disks[id]
		w.p.change(func() { delete(w.p.disks, id) })
		look(id)
		w.p.change(func() { w.p.disks[id] = d })
	}
}

// TestLostAnswers has each change of the maps that operations make, or each third, lose its answer in turn, made or late. The operation fails or not; what is
// written durably afterwards is read, also when what is late has come, and when the vDisk is opened again.
func TestLostAnswers(t *testing.T) {
	full := func(w *shaken) { w.write(pattern(1, len(w.want)), 0) }
	text := func(w *shaken) { w.write(prose(1, len(w.want)), 0) }
	for name, op := range map[string]struct {
		before func(*shaken)
		do     func(context.Context, *shaken) error
	}{
		"first write": {func(*shaken) {}, func(ctx context.Context, w *shaken) error {
			return w.v.WriteAt(ctx, make([]byte, 4096), 0, true) // zeros, as if it had not been
		}},
		"relocate": {full, func(ctx context.Context, w *shaken) error {
			return w.v.Relocate(ctx, 0, maps.ExtentID{Group: 1, Quarter: 0})
		}},
		"trim": {full, func(ctx context.Context, w *shaken) error {
			clear(w.want[:1<<20])
			err := w.v.Trim(ctx, 0, 1<<20, true)
			if err != nil { // either is right
				w.o.ends()
				must(w.t, w.v.WriteAt(ctx, w.want[:1<<20], 0, true))
			}
			return err
		}},
		"pack": {text, func(ctx context.Context, w *shaken) error {
			_, err := w.s.Pack(ctx, []disk.GroupID{1}, fast)
			return err
		}},
		"flatten": {func(w *shaken) { text(w); mustPack(t, w.s, fast, 1); w.write(pattern(2, 4096), 0) }, func(ctx context.Context, w *shaken) error {
			return w.v.Flatten(ctx, 0)
		}},
		"move": {full, func(ctx context.Context, w *shaken) error { return w.s.Move(ctx, 1, "d1", to("d2")) }},
		"rebuild": {func(w *shaken) { full(w); must(t, w.s.Drop(t.Context(), 1, "d1")) }, func(ctx context.Context, w *shaken) error {
			return w.s.Rebuild(ctx, 1, "")
		}},
		"rebuild of a closed vDisk": {func(w *shaken) { full(w); must(t, w.v.Close()); must(t, w.s.Drop(t.Context(), 1, "d1")) }, func(ctx context.Context, w *shaken) error {
			return w.s.Rebuild(ctx, 1, "")
		}},
		"snapshot": {full, func(ctx context.Context, w *shaken) error { return w.v.Snapshot(ctx, "s", time.Unix(1, 0)) }},
		"adopt": {func(w *shaken) {
			full(w)
			must(t, w.v.Snapshot(t.Context(), "s", time.Unix(1, 0)))
			w.write(pattern(3, 4096), 0)
			must(t, w.s.Remove(t.Context(), "s"))
		}, func(ctx context.Context, w *shaken) error { return w.v.Adopt(ctx, 1) }},
		"truncate": {func(w *shaken) {
			full(w)
			must(t, w.v.Trim(t.Context(), 3<<20, 1<<20, true))
			clear(w.want[3<<20 : 4<<20])
		}, func(ctx context.Context, w *shaken) error {
			return w.s.Truncate(ctx, 1)
		}},
		"resize":  {full, func(ctx context.Context, w *shaken) error { return w.v.Resize(ctx, 16<<20) }},
		"discard": {full, func(ctx context.Context, w *shaken) error { return w.s.Discard(ctx, 1, "d1") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, late := range []bool{false, true} {
				for at, struck := 0, "the first"; struck != ""; at += stride() {
					t.Run(fmt.Sprintf("late=%t/%d", late, at), func(t *testing.T) {
						struck = "" // the last, if this one fails
						w := newShaken(t)
						op.before(w)
						if w.v.broken.Load() != nil {
							w.reopen()
						}
						w.o.begins, w.o.late = at, late
						err := op.do(t.Context(), w)
						var due func() error
						if struck, due = w.o.ends(); struck == "" {
							return
						}
						t.Logf("lost the answer to a %s: %v", struck, err)
						w.goesOn(due)
					})
				}
			}
		})
	}
}

// goesOn uses the vDisk after an outage.
func (w *shaken) goesOn(due func() error) {
	w.t.Helper()
	for seed, at := range []int64{0, 1<<20 + 8192, 3 << 20} {
		w.write(pattern(4+seed, 4096), at)
	}
	if due != nil {
		w.t.Log("what is late comes:", due())
	}
	w.write(pattern(10, 4096), 16384)
	w.write(pattern(11, 4096), 2<<20)
	w.check("open")
	must(w.t, w.v.Close())
	w.reopen()
	w.check("opened again")
	w.write(pattern(12, 4096), 0)
	w.check("written again")
	must(w.t, w.v.Close())
}

// TestUnmarkUnanswered: where the answer to an unmark is lost, the group is marked again before it is written. So a power cut of one machine costs no answered write.
func TestUnmarkUnanswered(t *testing.T) {
	ctx, store, o := t.Context(), mem.New(), &outage{begins: -1}
	first, p := faultySpaceOn(t, store, 2)
	m, err := maps.Open(ctx, outageStore{store, o}, kv.NewWriter(7))
	must(t, err)
	v := faultyVolume(t, NewSpace(m, p, first.o), 2)
	must(t, v.WriteAt(ctx, pattern(1, 4<<20), 0, true))
	for at := 0; ; at++ { // until it is the unmark
		o.begins = at
		err := v.Snapshot(ctx, "s", time.Unix(1, 0))
		o.ends()
		if _, marked, _ := m.Marked(ctx, 1, 1); !marked {
			t.Log("snapshot:", err)
			break
		}
	}
	must(t, v.WriteAt(ctx, pattern(2, 4096), 0, false)) // answered, not flushed
	v.stop()                                            // the front is killed
	v.keeper.Wait()
	fs := p.files["d0"].Cut(rand.New(rand.NewPCG(1, 1)), 0) // and a machine has lost its power
	d, err := disk.Open(fs, "d", disk.Options{Cluster: "c"})
	must(t, err)
	q := &slowPool{disks: map[cluster.DiskID]Disk{"d0": plug{d, &fuse{}}, "d1": p.disks["d1"]}, order: p.order}
	m, err = maps.Open(ctx, store, kv.NewWriter(9))
	must(t, err)
	v, err = NewSpace(m, q, first.o).Open(ctx, 1)
	must(t, err)
	defer v.Close()
	reads(t, v, 0, pattern(2, 4096))
}
