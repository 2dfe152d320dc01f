package volume

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

type slowPool struct {
	disks map[cluster.DiskID]Disk
	files map[cluster.DiskID]*disktest.FS // that those are in
	order []cluster.DiskID

	changing sync.RWMutex // held by who changes it while it is used
}

// change changes the pool while others use it.
func (p *slowPool) change(how func()) {
	p.changing.Lock()
	defer p.changing.Unlock()
	how()
}

func (p *slowPool) Disk(id cluster.DiskID) (Disk, error) {
	p.changing.RLock()
	defer p.changing.RUnlock()
	d, ok := p.disks[id]
	if !ok {
		return nil, fmt.Errorf("disk %s is away", id)
	}
	return d, nil
}

func (p *slowPool) Place(have []cluster.DiskID, n int) (chosen []cluster.DiskID) {
	p.changing.RLock()
	defer p.changing.RUnlock()
	for _, id := range p.order {
		taken := false
		for _, h := range have {
			taken = taken || h == id
		}
		if _, here := p.disks[id]; here && !taken && len(chosen) < n {
			chosen = append(chosen, id)
		}
	}
	return chosen
}

// slowDisk can be told to hang.
type slowDisk struct {
	Disk
	sync, create chan struct{} // nil: at once
}

func (s *slowDisk) Sync(ctx context.Context) error {
	if s.sync != nil {
		select {
		case <-s.sync:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Disk.Sync(ctx)
}

func (s *slowDisk) Create(ctx context.Context, id disk.GroupID, v disk.VDiskID, g uint64) error {
	if s.create != nil {
		select {
		case <-s.create:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Disk.Create(ctx, id, v, g)
}

// faultySpace gives a space over n disks that can be taken away or told to hang.
func faultySpace(t *testing.T, n int) (*Space, *slowPool, kv.Store) {
	store := mem.New()
	s, p := faultySpaceOn(t, store, n)
	return s, p, store
}

func faultySpaceOn(t *testing.T, store kv.Store, n int) (*Space, *slowPool) {
	t.Helper()
	m, err := maps.Open(context.Background(), store, kv.NewWriter(1))
	if err != nil {
		t.Fatal(err)
	}
	p := &slowPool{disks: map[cluster.DiskID]Disk{}, files: map[cluster.DiskID]*disktest.FS{}}
	for i := range n {
		name := fmt.Sprintf("d%d", i)
		fs := disktest.New(1<<30, "d")
		if err := disk.Format(fs, "d", disk.Identity{Cluster: "c", Disk: name, Tier: disk.SSD, Quota: 256 << 20, Log: disk.DefaultLog(8 << 20), Salt: 3}); err != nil {
			t.Fatal(err)
		}
		d, err := disk.Open(fs, "d", disk.Options{Cluster: "c"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		p.disks[cluster.DiskID(name)] = &slowDisk{Disk: plug{d, &fuse{}}}
		p.files[cluster.DiskID(name)] = fs
		p.order = append(p.order, cluster.DiskID(name))
	}
	return NewSpace(m, p, Options{Answer: time.Second, Patience: 2 * time.Second}), p
}

func faultyVolume(t *testing.T, s *Space, replicas int) *Volume {
	vd, err := s.Create(context.Background(), "v", 8<<20, replicas, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Open(context.Background(), vd.ID)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A flush covers all that was answered before it, also while another flush is under way.
func TestTwoFlushes(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 1)
	v := faultyVolume(t, s, 1)
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	d := p.disks["d0"].(*slowDisk)
	d.sync = make(chan struct{})
	first := make(chan error, 1)
	go func() { first <- v.Flush(ctx) }()
	time.Sleep(50 * time.Millisecond) // it waits for the disk
	second := make(chan error, 1)
	go func() { second <- v.Flush(ctx) }()
	select {
	case err := <-second:
		t.Errorf("the second flush returned %v while no disk has synced", err)
	case <-time.After(200 * time.Millisecond):
	}
	close(d.sync)
	<-first
}

// A disk that hangs, at a server that answers beats, must not hold up a group for ever.
func TestRebuildOnAHungDisk(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 2)
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	delete(p.disks, "d1")
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil { // d1 is dropped
		t.Fatal(err)
	}
	p.disks["d2"].(*slowDisk).create = make(chan struct{})
	rebuilding, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _ = s.Rebuild(rebuilding, 1, "") }()
	time.Sleep(50 * time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- v.ReadAt(ctx, make([]byte, 4096), 0) }()
	select {
	case err := <-done:
		t.Log("read", err)
	case <-time.After(30 * time.Second):
		t.Error("a read of a group with a good replica waits for 30 s and more for the disk that a rebuild writes to")
	}
}

// A trim whose client goes away leaves the volume usable for others.
func TestTrimOfOneWhoLeft(t *testing.T) {
	ctx := context.Background()
	s, _, _ := faultySpace(t, 1)
	v := faultyVolume(t, s, 1)
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	t.Log("trim:", v.Trim(gone, 0, 1<<20, false))
	t.Log("trim again:", v.Trim(ctx, 0, 1<<20, false))
	if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
		t.Errorf("after a trim that was cancelled: %v", err)
	}
}

// A mark, and the group's file gone: it must not read as zeros.
func TestMarkedGroupGone(t *testing.T) {
	ctx := context.Background()
	s, p, store := faultySpace(t, 1)
	v := faultyVolume(t, s, 1)
	data := []byte("flushed!")
	if err := v.WriteAt(ctx, data, 0, true); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	v.stop() // kill -9 of the front
	if err := p.disks["d0"].Remove(ctx, 1, 100); err != nil {
		t.Fatal(err)
	}
	m, err := maps.Open(ctx, store, kv.NewWriter(2))
	if err != nil {
		t.Fatal(err)
	}
	s = NewSpace(m, p, Options{Answer: time.Second, Patience: 2 * time.Second})
	v, err = s.Open(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(data))
	if err := v.ReadAt(ctx, got, 0); err == nil && string(got) != string(data) {
		t.Errorf("what was flushed reads as %q, without an error", got)
	} else {
		t.Log(err)
	}
}

// A flush while the front is cut off from all disks must not take replicas off the list that have all that was flushed.
func TestFlushWhileAllAreAway(t *testing.T) {
	ctx := context.Background()
	s, p, _ := faultySpace(t, 3)
	v := faultyVolume(t, s, 3)
	if err := v.WriteAt(ctx, []byte("flushed!"), 0, false); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := v.WriteAt(ctx, []byte("answered"), 8192, false); err != nil {
		t.Fatal(err)
	}
	all := p.disks
	p.disks = map[cluster.DiskID]Disk{} // the front's network is down
	t.Log("flush:", v.Flush(ctx))
	p.disks = all // and up again: all three disks have everything
	rec, _, err := s.maps.Group(ctx, 1)
	if err != nil || len(rec.Good) != 3 {
		t.Errorf("good replicas: %v, %v", rec.Good, err)
	}
	delete(p.disks, rec.Good[len(rec.Good)-1]) // now one of the three is lost
	got := make([]byte, 8)
	if err := v.ReadAt(ctx, got, 0); err != nil {
		t.Errorf("what was flushed is lost with one disk of three: %v", err)
	}
}

// hookPool calls a function once before it gives a disk.
type hookPool struct {
	slowPool
	mu   sync.Mutex // for hook, and for the disks it changes
	hook func()
}

func (p *hookPool) Disk(id cluster.DiskID) (Disk, error) {
	p.mu.Lock()
	if h := p.hook; h != nil && id == "d0" {
		p.hook = nil
		p.mu.Unlock()
		h()
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	return p.slowPool.Disk(id)
}

// A disk loses its power and is opened again after a flush has begun and before that syncs it: what the disk lost must not count as flushed.
func TestReopenedDuringFlush(t *testing.T) {
	ctx := context.Background()
	m, err := maps.Open(ctx, mem.New(), kv.NewWriter(1))
	if err != nil {
		t.Fatal(err)
	}
	p := &hookPool{slowPool: slowPool{disks: map[cluster.DiskID]Disk{}}}
	fss := map[string]*disktest.FS{}
	for _, name := range []string{"d0", "d1"} {
		fss[name] = disktest.New(1<<30, "d")
		if err := disk.Format(fss[name], "d", disk.Identity{Cluster: "c", Disk: name, Tier: disk.SSD, Quota: 256 << 20, Log: disk.DefaultLog(8 << 20), Salt: 3}); err != nil {
			t.Fatal(err)
		}
		d, err := disk.Open(fss[name], "d", disk.Options{Cluster: "c"})
		if err != nil {
			t.Fatal(err)
		}
		p.disks[cluster.DiskID(name)] = plug{d, &fuse{}}
		p.order = append(p.order, cluster.DiskID(name))
	}
	s := NewSpace(m, p, Options{Answer: time.Second, Patience: 2 * time.Second})
	v := faultyVolume(t, s, 2)
	if err := v.WriteAt(ctx, bytes.Repeat([]byte("o"), 4096), 0, true); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := v.WriteAt(ctx, bytes.Repeat([]byte("n"), 4096), 0, false); err != nil {
		t.Fatal(err)
	}
	p.hook = func() {
		d, err := disk.Open(fss["d0"].Cut(rand.New(rand.NewPCG(1, 1)), 0), "d", disk.Options{Cluster: "c"})
		if err != nil {
			t.Error(err)
		}
		if err := s.Reopened(ctx, "d0"); err != nil { // before it is given anew, as Pool asks
			t.Error(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.disks["d0"] = plug{d, &fuse{}}
	}
	t.Log("flush:", v.Flush(ctx))
	rec, _, err := s.maps.Group(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range rec.Good {
		buf := make([]byte, 4096)
		if err := p.disks[id].Read(ctx, 1, rec.Generation, 0, buf); err != nil || buf[0] != 'n' {
			t.Errorf("after a flush, the good replica on %s has %q, %v", id, buf[0], err)
		}
	}
}

// With SyncAlways, a write that was answered survives a power cut without a flush.
func TestSyncAlways(t *testing.T) {
	ctx := context.Background()
	for _, always := range []bool{false, true} {
		fs := disktest.New(1<<30, "d")
		if err := disk.Format(fs, "d", disk.Identity{Cluster: "c", Disk: "d0", Tier: disk.SSD, Quota: 256 << 20, Log: disk.DefaultLog(8 << 20), Salt: 3}); err != nil {
			t.Fatal(err)
		}
		d, err := disk.Open(fs, "d", disk.Options{Cluster: "c"})
		if err != nil {
			t.Fatal(err)
		}
		p := &slowPool{disks: map[cluster.DiskID]Disk{"d0": plug{d, &fuse{}}}, order: []cluster.DiskID{"d0"}}
		m, err := maps.Open(ctx, mem.New(), kv.NewWriter(1))
		if err != nil {
			t.Fatal(err)
		}
		v := faultyVolume(t, NewSpace(m, p, Options{SyncAlways: always}), 1)
		if err := v.WriteAt(ctx, []byte("answered"), 0, false); err != nil {
			t.Fatal(err)
		}
		v.stop()
		after, err := disk.Open(fs.Cut(rand.New(rand.NewPCG(1, 1)), 0), "d", disk.Options{Cluster: "c"})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 8)
		if err := after.Read(1, 1, 0, got); (err == nil && string(got) == "answered") != always {
			t.Errorf("SyncAlways %t: %q after a power cut, %v", always, got, err)
		}
		d.Close()
		after.Close()
	}
}
