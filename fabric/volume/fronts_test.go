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

	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// newFronts gives n spaces of one store and of the same disks, as n processes have them.
func newFronts(t *testing.T, n int) []*Space {
	t.Helper()
	store := mem.New()
	first, p := faultySpaceOn(t, store, 3)
	all := make([]*Space, n)
	for i := range all {
		m, err := maps.Open(t.Context(), store, kv.NewWriter(uint64(i+2)))
		must(t, err)
		o := first.o
		o.Holder, o.Lease = fmt.Sprint("front", i), 10*time.Second // as by default
		all[i] = NewSpace(m, p, o)
	}
	return all
}

// newLapsing is newFronts with leases that soon run out.
func newLapsing(t *testing.T, n int) []*Space {
	t.Helper()
	all := newFronts(t, n)
	for _, s := range all {
		s.o.Lease = 200 * time.Millisecond
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pattern(tag int, n int) []byte {
	return bytes.Repeat([]byte{byte(tag), byte(tag >> 8), 1, 2}, n/4)
}

func reads(t *testing.T, v *Volume, offset int64, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	must(t, v.ReadAt(t.Context(), got, offset))
	if !bytes.Equal(got, want) {
		t.Fatalf("at %d it reads %x…, not %x…", offset, got[:4], want[:4])
	}
}

// TestTurns: fronts write to a vDisk in turns, and each sees what the others wrote: in slices that it had seen empty, on replicas that others
// dropped and made, and through a snapshot that another took.
func TestTurns(t *testing.T) {
	ctx, fronts := t.Context(), newFronts(t, 3)
	_, err := fronts[0].Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	for i := range 24 {
		s := fronts[i%3]
		vdisk, err := s.maps.Find(ctx, "v")
		must(t, err)
		v, err := s.Open(ctx, vdisk.ID)
		must(t, err)
		for j := range i {
			reads(t, v, int64(j)<<12, pattern(j+1, 4096))
		}
		reads(t, v, int64(i)<<12, make([]byte, 4096)) // so that it knows what is not written
		must(t, v.WriteAt(ctx, pattern(i+1, 4096), int64(i)<<12, false))
		if i%5 == 4 {
			must(t, v.Snapshot(ctx, fmt.Sprint("s", i), time.Unix(0, 0)))
		}
		must(t, v.Close())
		if i%2 == 1 { // another drops a replica, and a third makes it anew
			g, _, err := s.maps.Group(ctx, 1)
			must(t, err)
			must(t, fronts[(i+1)%3].Drop(ctx, 1, g.Good[0]))
			must(t, fronts[(i+2)%3].Rebuild(ctx, 1, ""))
		}
	}
}

// TestTakeover: who dies is followed when the lease has run out, and not before; who only stood still changes nothing any more.
func TestTakeover(t *testing.T) {
	ctx, fronts := t.Context(), newLapsing(t, 2)
	vdisk, err := fronts[0].Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	a, err := fronts[0].Open(ctx, vdisk.ID)
	must(t, err)
	must(t, a.WriteAt(ctx, pattern(1, 4096), 0, false))
	if _, err := fronts[1].Open(ctx, vdisk.ID); !errors.Is(err, ErrInUse) {
		t.Fatalf("two fronts write to a vDisk: %v", err)
	}
	if err := fronts[1].Remove(ctx, "v"); !errors.Is(err, ErrInUse) {
		t.Fatalf("removed while another front writes to it: %v", err)
	}
	a.stop() // it stands still
	a.keeper.Wait()
	b, err := fronts[1].Open(ctx, vdisk.ID)
	must(t, err)
	reads(t, b, 0, pattern(1, 4096))
	must(t, b.WriteAt(ctx, pattern(2, 4096), 0, false))
	if err := a.WriteAt(ctx, pattern(3, 4096), 0, false); !errors.Is(err, ErrFenced) {
		t.Errorf("a write by who lost the lease: %v", err)
	}
	must(t, a.Close())
	reads(t, b, 0, pattern(2, 4096))
	if marks, err := b.space.maps.Marks(ctx, b.id); err != nil || len(marks) == 0 {
		t.Errorf("the marks of the writer are %v, %v", marks, err)
	}
	must(t, b.WriteAt(ctx, pattern(4, 4096), 7<<20, true))
	must(t, b.Close())
	a, err = fronts[0].Open(ctx, vdisk.ID)
	must(t, err)
	reads(t, a, 0, pattern(2, 4096))
	reads(t, a, 7<<20, pattern(4, 4096))
	must(t, a.Close())
}

// TestStoodStill: a front that stood still before its first write to a group cannot make it once another has taken over, nor
// take marks of that one away.
func TestStoodStill(t *testing.T) {
	ctx, fronts := t.Context(), newLapsing(t, 2)
	vdisk, err := fronts[0].Create(ctx, "v", 8<<20, 2, time.Unix(0, 0))
	must(t, err)
	open := func(i int) *Volume {
		v, err := fronts[i].Open(ctx, vdisk.ID)
		must(t, err)
		return v
	}
	a := open(0)
	must(t, a.WriteAt(ctx, pattern(1, 4096), 0, true))
	must(t, a.Close()) // so that its group is not marked
	a = open(0)
	reads(t, a, 0, pattern(1, 4096))
	a.stop()
	a.keeper.Wait()
	b := open(1)
	reads(t, b, 0, pattern(1, 4096))
	if err := a.WriteAt(ctx, pattern(3, 4096), 0, false); !errors.Is(err, ErrFenced) {
		t.Errorf("a write by who lost the lease: %v", err)
	}
	reads(t, b, 0, pattern(1, 4096))
	must(t, b.WriteAt(ctx, pattern(2, 4096), 0, true))
	if err := fronts[0].maps.Unmark(ctx, vdisk.ID, 1, fronts[0].marksOf(vdisk.ID), kv.Version{}); !errors.Is(err, maps.ErrChanged) {
		t.Errorf("a mark taken away by who lost the lease: %v", err)
	}
	must(t, b.Close())
}

// TestOneName: of many fronts that give the same name at once, at most one does, and it is that one's.
func TestOneName(t *testing.T) {
	ctx, fronts := t.Context(), newFronts(t, 4)
	total := 0
	for round := range 100 {
		name := fmt.Sprint("v", round)
		vdisks, errs := make([]maps.VDisk, len(fronts)), make([]error, len(fronts))
		var all sync.WaitGroup
		for i, s := range fronts {
			all.Go(func() { vdisks[i], errs[i] = s.Create(ctx, name, 1<<20, 1, time.Unix(0, 0)) })
			all.Go(func() { must(t, s.Reap(ctx)) })
		}
		all.Wait()
		made := 0
		for i, err := range errs {
			if err != nil && !errors.Is(err, maps.ErrExists) {
				t.Error(err)
			}
			if err != nil {
				continue
			}
			made++
			if v, err := fronts[0].maps.Find(ctx, name); err != nil || v.ID != vdisks[i].ID {
				t.Errorf("%s leads to %d (%v), not to %d", name, v.ID, err, vdisks[i].ID)
			}
		}
		if made > 1 {
			t.Errorf("%d fronts made %s", made, name)
		}
		total += made
	}
	if total < 50 {
		t.Errorf("of 100 names only %d were given", total)
	}
}

// TestManyFronts has fronts make, snapshot, clone and remove vDisks while all of them remove what is needless: what was made and not removed
// is there, with its bytes.
func TestManyFronts(t *testing.T) {
	ctx, fronts := t.Context(), newFronts(t, 3)
	stop := make(chan struct{})
	var reapers, users sync.WaitGroup
	for _, s := range fronts {
		reapers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if err := s.Reap(ctx); err != nil {
					t.Errorf("reap: %v", err)
					return
				}
			}
		})
	}
	for i, s := range fronts {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for n := range 25 {
				if err := useNames(ctx, s, fmt.Sprintf("f%d-%d", i, n), pattern(i*25+n+1, 4096), rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
	close(stop)
	reapers.Wait()
	for range 2 {
		must(t, fronts[0].Reap(ctx))
	}
	for v, err := range fronts[0].maps.VDisks(ctx) {
		t.Errorf("%+v is left, %v", v, err)
	}
	for g, err := range fronts[0].maps.Groups(ctx) {
		t.Errorf("group %+v is left, %v", g, err)
	}
}

// useNames makes a vDisk, a snapshot of it and a clone of that, and removes them in any order. It says what is not as it must be.
func useNames(ctx context.Context, s *Space, name string, want []byte, rng *rand.Rand) error {
	vdisk, err := s.Create(ctx, name, 1<<20, 1, time.Unix(0, 0))
	if err != nil {
		return err
	}
	v, err := s.Open(ctx, vdisk.ID)
	if err != nil {
		return err
	}
	err = v.WriteAt(ctx, want, 0, false)
	if err == nil {
		err = v.Snapshot(ctx, name+"-s", time.Unix(0, 0))
		for errors.Is(err, maps.ErrExists) { // fronts that look every millisecond take what is being made for what is left
			err = v.Snapshot(ctx, name+"-s", time.Unix(0, 0))
		}
	}
	if err = errors.Join(err, v.Close()); err != nil {
		return fmt.Errorf("write and snapshot %s: %w", name, err)
	}
	if _, err := s.Clone(ctx, name+"-s", name+"-c", time.Unix(0, 0)); err != nil {
		return fmt.Errorf("clone %s: %w", name, err)
	}
	names := []string{name, name + "-s", name + "-c"}
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for ; len(names) > 0; names = names[1:] {
		for _, n := range names {
			if err := holds(ctx, s, n, want); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
		}
		if err := s.Remove(ctx, names[0]); err != nil {
			return err
		}
	}
	return nil
}

func holds(ctx context.Context, s *Space, name string, want []byte) error {
	vdisk, err := s.maps.Find(ctx, name)
	if err != nil {
		return err
	}
	v, err := s.Open(ctx, vdisk.ID)
	if err != nil {
		return err
	}
	got := make([]byte, len(want))
	err = v.ReadAt(ctx, got, 0)
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("it has other bytes")
	}
	return errors.Join(err, v.Close())
}
