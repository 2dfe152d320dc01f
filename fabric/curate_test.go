package fabric_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/fabric/upkeep"
	"gleaner/kv/pebble"
)

// A shelf is a front with disks in this process, one a server, that come when they are added.
type shelf struct {
	*testing.T
	*fabric.Front
	disks   map[string]*disk.Disk
	seconds *atomic.Int64 // its clock
}

func newShelf(t *testing.T, p upkeep.Policy) *shelf {
	t.Helper()
	return newShelfOf(t, fabric.Options{Policy: p})
}

// newShelfOf is a shelf with a clock of its own, and a store if none is given. It closes the store.
func newShelfOf(t *testing.T, o fabric.Options) *shelf {
	t.Helper()
	var err error
	if o.Store == nil {
		if o.Store, err = pebble.Open(t.TempDir(), pebble.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	s := &shelf{T: t, disks: map[string]*disk.Disk{}, seconds: new(atomic.Int64)}
	s.seconds.Store(1_000_000)
	o.Now = func() time.Time { return time.Unix(s.seconds.Load(), 0) }
	s.Front, err = fabric.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Front.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range s.disks {
			d.Close()
		}
		o.Store.Close()
	})
	return s
}

func (s *shelf) add(name string, tier disk.Tier, quota int64) {
	s.Helper()
	dir := s.TempDir()
	if err := disk.Format(disk.OS{}, dir, disk.Identity{Cluster: "c", Disk: name, Tier: tier, Quota: quota, Log: disk.DefaultLog(8 << 20), Salt: 1}); err != nil {
		s.Fatal(err)
	}
	d, err := disk.Open(disk.OS{}, dir, disk.Options{Cluster: "c"})
	if err != nil {
		s.Fatal(err)
	}
	s.disks[name] = d
	s.Join(cluster.Server{ID: cluster.ServerID("s-" + name)})
	s.Add(cluster.ServerID("s-"+name), d)
}

// fill makes a vDisk of random bytes.
func (s *shelf) fill(name string, size, replicas int) []byte {
	s.Helper()
	create(s.T, s.Front, name, int64(size), replicas)
	data := make([]byte, size)
	rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%32s", name)))).Read(data)
	v := open(s.T, s.Front, name)
	defer v.Close()
	if err := v.WriteAt(context.Background(), data, 0, true); err != nil {
		s.Fatal(err)
	}
	return data
}

// evens scans until the disks are balanced.
func (s *shelf) evens() {
	s.Helper()
	await(s.T, "no disk is a tenth fuller than the mean", func() bool {
		s.scan(upkeep.Cold)
		most, sum := 0.0, 0.0
		for name := range s.disks {
			most, sum = max(most, s.share(name)), sum+s.share(name)
		}
		return most*float64(len(s.disks))/sum < 1.1
	})
}

func (s *shelf) holds(name string, want []byte) {
	s.Helper()
	got := make([]byte, len(want))
	v := open(s.T, s.Front, name)
	defer v.Close()
	if err := v.ReadAt(context.Background(), got, 0); err != nil || !bytes.Equal(got, want) {
		s.Errorf("%s has other bytes than were written, %v", name, err)
	}
}

// scan scans for jobs, has the clock go on until all is done, and gives how many tasks of each kind were done, and refused.
func (s *shelf) scan(jobs ...string) (done, refused map[string]int64) {
	s.Helper()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // tasks rest in between by this clock
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				s.seconds.Add(1)
			}
		}
	}()
	_, all, err := s.Scan(context.Background(), jobs...)
	if err != nil {
		s.Fatal(err)
	}
	done, refused = map[string]int64{}, map[string]int64{}
	for _, b := range all {
		done[b.Kind], refused[b.Kind] = b.Done, b.Refused
		if b.Failed > 0 {
			s.Errorf("%+v", b)
		}
	}
	return done, refused
}

// used is what all disks hold in groups.
func (s *shelf) used() (n int64) {
	for _, d := range s.disks {
		n += d.Usage().Used - d.Identity().Log
	}
	return n
}

func (s *shelf) share(name string) float64 {
	u := s.disks[name].Usage()
	return float64(u.Used) / float64(u.Quota)
}

// A replica that no disk could take is made when there is one that can.
func TestScanRebuilds(t *testing.T) {
	t.Parallel()
	s := newShelf(t, upkeep.Policy{})
	s.add("a", disk.SSD, 128<<20)
	s.add("b", disk.SSD, 128<<20)
	data := s.fill("v", 8<<20, 3)
	if plan, err := s.Plan(context.Background(), upkeep.Replicas); err != nil || len(plan.Proposals) != 2 || plan.Proposals[0].Why != "it has 2 of 3 replicas" {
		t.Fatalf("%+v, %v", plan, err)
	}
	if _, refused := s.scan(upkeep.Replicas); refused[upkeep.Rebuild] < 2 {
		t.Errorf("%v were refused", refused)
	}
	s.add("c", disk.SSD, 128<<20)
	s.scan(upkeep.Replicas)
	if !whole(t, s.Front) {
		t.Error("not whole")
	}
	if plan, err := s.Plan(context.Background()); err != nil || len(plan.Proposals) != 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	if c, err := s.Curation(context.Background()); err != nil || c.Repairs.Waiting+int(c.Repairs.Failed) != 0 || c.Repairs.Done < 2 || c.Pace != c.Policy.Share(upkeep.Usual) {
		t.Errorf("%+v at a pace of %g, %v", c.Repairs, c.Pace, err)
	}
	s.holds("v", data)
}

// The grid has the space and the replicas of each tier, and says how far apart those are.
func TestGridHasReplicas(t *testing.T) {
	s := newShelf(t, upkeep.Policy{})
	s.add("a", disk.SSD, 128<<20)
	s.add("b", disk.SSD, 128<<20)
	s.fill("v", 16<<20, 2)
	grids, err := s.Grids(context.Background())
	if err != nil || len(grids) != 1 || grids[0].Tier != "ssd" || len(grids[0].Cells) != 9 {
		t.Fatalf("%+v, %v", grids, err)
	}
	servers, replicas := 0, 0
	for _, c := range grids[0].Cells {
		servers, replicas = servers+c.Servers, replicas+c.Replicas
	}
	if p := grids[0].Placement; replicas != 8 || servers == 0 || p.Groups != 4 {
		t.Errorf("%d servers, %d replicas, %+v", servers, replicas, p)
	}
}

// Disks are full, then most vDisks are destroyed and of one most blocks are given back: what is left takes no more than it needs.
func TestFullDisksAreCollected(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newShelf(t, upkeep.Policy{})
	for _, name := range []string{"a", "b"} {
		s.add(name, disk.SSD, 160<<20)
	}
	data := s.fill("sparse", 64<<20, 2)
	create(t, s.Front, "rest", 1<<30, 2)
	rest := open(t, s.Front, "rest")
	var err error
	for at := int64(0); err == nil; at += 1 << 20 {
		err = rest.WriteAt(ctx, data[:1<<20], at, false)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := rest.Close(); err != nil {
		t.Fatal(err)
	}
	v := open(t, s.Front, "sparse")
	live := int64(0)
	for at := 0; at < len(data); at += 1 << 20 {
		if at>>20%4 == 1 {
			live += 1 << 20
			continue
		}
		if err := v.Zero(ctx, int64(at), 1<<20, false, false); err != nil {
			t.Fatal(err)
		}
		clear(data[at : at+1<<20])
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	full := s.used()
	if done, refused := s.scan(upkeep.Space); done[upkeep.Migrate] != 4 {
		t.Errorf("on disks with %.1f%% in use, %v were done, %v refused", 100*s.share("a"), done, refused)
	}
	s.holds("sparse", data)
	if err := s.Remove(ctx, "rest"); err != nil {
		t.Fatal(err)
	}
	s.scan()
	s.scan()
	if got, want := s.used(), 2*live; float64(got) > 1.02*float64(want) {
		t.Errorf("%d bytes are in use for %d, %d when the disks were full", got, want, full)
	}
	s.holds("sparse", data)
	if r, err := s.Check(ctx, func(int, int) {}); err != nil || r.Orphans != 0 || r.Missing != 0 || len(r.Errors) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A snapshot is taken every day, and the one of four days ago removed. The chain stays short, and what no snapshot shows any more is given back.
func TestOldSnapshotsGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newShelf(t, upkeep.Policy{})
	s.add("a", disk.SSD, 512<<20)
	const size, day, kept = 32 << 20, 4 << 20, 3
	data := s.fill("v", size, 1)
	v := open(t, s.Front, "v")
	for d := range 12 {
		at := d * day % size
		for i := range data[at : at+day] {
			data[at+i] += byte(d + 1)
		}
		if err := v.WriteAt(ctx, data[at:at+day], int64(at), false); err != nil {
			t.Fatal(err)
		}
		if err := s.Snapshot(ctx, "v", fmt.Sprint("day", d)); err != nil {
			t.Fatal(err)
		}
		if d < kept {
			continue
		}
		if err := s.Remove(ctx, fmt.Sprint("day", d-kept)); err != nil {
			t.Fatal(err)
		}
		s.scan()
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	s.holds("v", data)
	s.scan()
	if st, err := s.Stat(ctx, "v"); err != nil || len(st.Chain) != kept {
		t.Errorf("read through %v, %v", st.Chain, err)
	}
	if got, want := s.used(), int64(size+(kept-1)*day); float64(got) > 1.02*float64(want) {
		t.Errorf("%d MiB are in use, %d can be seen", got>>20, want>>20)
	}
	if r, err := s.Check(ctx, func(int, int) {}); err != nil || r.Orphans != 0 || r.Missing != 0 || len(r.Errors) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	s.holds("v", data)
}

// A fast tier that is too full is relieved of what was not used for longest.
func TestColdGroupsGoDown(t *testing.T) {
	t.Parallel()
	s := newShelf(t, upkeep.Policy{F: 0.6, D: 0.9, H: 0.2, M: 1, S: 1, H1: 1000, H2: 1000, Floor: 0.25, Ceiling: 0.25})
	for _, name := range []string{"a", "b"} {
		s.add(name+"-ssd", disk.SSD, 128<<20)
		s.add(name+"-hdd", disk.HDD, 256<<20)
	}
	cold := s.fill("cold", 32<<20, 2)
	s.seconds.Add(3600)
	warm := s.fill("warm", 48<<20, 2)
	s.seconds.Add(30)
	await(t, "the fast tier is below f", func() bool {
		s.scan(upkeep.Cold)
		return s.share("a-ssd") < 0.6 && s.share("b-ssd") < 0.6
	})
	for name, want := range map[string]int{"cold": 16, "warm": 0} {
		if st, err := s.Stat(context.Background(), name); err != nil || st.Tiers["hdd"] > want || want > 0 && st.Tiers["hdd"] == 0 || st.Have[2] != st.Groups {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
	s.holds("cold", cold)
	s.holds("warm", warm)
}

// Disks that were there first are full, and new ones are empty: they are evened out.
func TestDisksAreBalanced(t *testing.T) {
	t.Parallel()
	s := newShelf(t, upkeep.Policy{F: 1, D: 1, H: 0.1, M: 0.2, S: 0.1, H1: 1000, H2: 1000, Floor: 0.25, Ceiling: 0.25})
	s.add("a", disk.SSD, 160<<20)
	s.add("b", disk.SSD, 160<<20)
	data := s.fill("v", 120<<20, 2)
	s.add("c", disk.SSD, 160<<20)
	s.add("d", disk.SSD, 160<<20)
	s.evens()
	s.holds("v", data)
	if !whole(t, s.Front) {
		t.Error("not whole")
	}
}

// A disk that was emptied is used again, and takes from the others until they are even.
func TestReinstatedDiskIsBalanced(t *testing.T) {
	t.Parallel()
	s := newShelf(t, upkeep.Policy{F: 1, D: 1, H: 0.1, M: 0.2, S: 0.1, H1: 1000, H2: 1000, Floor: 0.25, Ceiling: 0.25})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.add(name, disk.SSD, 160<<20)
	}
	data := s.fill("v", 112<<20, 3)
	if _, err := s.Retire(context.Background(), "e"); err != nil {
		t.Fatal(err)
	}
	s.scan(upkeep.Retired)
	if n := s.disks["e"].Usage().Groups; n > 0 {
		t.Fatalf("the disk has %d groups", n)
	}
	if _, err := s.Reinstate(context.Background(), "e"); err != nil {
		t.Fatal(err)
	}
	s.evens()
	s.holds("v", data)
}

// A pause holds over scans, until it ends.
func TestPausedUpkeepRests(t *testing.T) {
	ctx := context.Background()
	s := newShelf(t, upkeep.Policy{})
	s.add("a", disk.SSD, 128<<20)
	s.fill("v", 4<<20, 1)
	if err := s.Pause(ctx, "test"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Scan(ctx); err == nil {
		t.Error("a scan in a pause")
	}
	if err := s.Remove(ctx, "v"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if s.used() < 4<<20 {
		t.Error("data was removed in a pause")
	}
	if err := s.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, "the data is removed", func() bool { s.seconds.Add(10); return s.used() < 1<<20 })
}

// A disk goes away while nobody uses what it holds. It counts as lost when it has been away for as long as is allowed, and not before, though it was
// away once already.
func TestIdleDiskIsLost(t *testing.T) {
	t.Parallel()
	r := newRack(t, 4)
	f := r.front(16 * time.Second)
	create(t, f, "v", 8<<20, 3)
	mustWrite(t, f, "v", 'A', 8<<20)
	full := func() bool {
		s, err := f.Stat(context.Background(), "v")
		return err == nil && s.Have[3] == s.Groups && s.Tiers["away"] == 0
	}
	var s *dataServer
	for _, s = range r.servers {
		r.halt(s)
		time.Sleep(4 * time.Second) // by then it is left out
		if !full() {
			break // it has some of it
		}
		r.start(s)
	}
	time.Sleep(8 * time.Second)
	r.start(s)
	await(t, "it is back", full)
	r.halt(s)
	gone := time.Now()
	await(t, "it is left out", func() bool { return !full() })
	await(t, "another has what it had", full)
	if took := time.Since(gone); took < 16*time.Second {
		t.Errorf("it counted as lost after %v", took)
	}
}
