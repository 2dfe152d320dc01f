package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

// TestTogether has writers with slices of their own in shared groups, readers of
// all, syncs, and the drainer behind a small log, all at once.
func TestTogether(t *testing.T) {
	fs := disktest.New(64<<20, dir)
	must(t, disk.Format(fs, dir, identity(48<<20)))
	d, err := disk.Open(fs, dir, disk.Options{Cluster: "c", OpenGroups: 2})
	must(t, err)
	const groups, writers, rounds = 4, 6, 150
	for id := range disk.GroupID(groups) {
		must(t, d.Create(id, 1, 1))
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			if err := writeAndRead(d, w, groups, rounds); err != nil {
				t.Errorf("writer %d: %v", w, err)
			}
		})
	}
	all.Go(func() {
		for i := range rounds {
			bad, err := d.Verify(disk.GroupID(i % groups))
			if err != nil || len(bad) > 0 {
				t.Error(bad, err)
			}
		}
	})
	all.Wait()
	must(t, d.Close())
	d, err = disk.Open(fs, dir, disk.Options{Cluster: "c"})
	must(t, err)
	must(t, d.Close())
}

func writeAndRead(d *disk.Disk, w, groups, rounds int) error {
	rng := rand.New(rand.NewPCG(uint64(w), 3))
	from := int64(w) * 40 * disk.SliceSize
	have := make([][]byte, groups)
	for i := range have {
		have[i] = make([]byte, 40*disk.SliceSize)
	}
	for round := range rounds {
		id := rng.IntN(groups)
		n := 1 + rng.IntN(len(have[id]))
		if round%2 == 0 {
			n = 1 + rng.IntN(8192)
		}
		at := rng.IntN(len(have[id]) - n + 1)
		copy(have[id][at:], bytes.Repeat([]byte{byte(round), byte(w)}, n/2+1)[:n])
		if err := d.Write(disk.GroupID(id), 1, 1, from+int64(at), have[id][at:at+n], rng.IntN(5) == 0); err != nil {
			return err
		}
		got := make([]byte, len(have[id]))
		if err := d.Read(disk.GroupID(id), 1, from, got); err != nil {
			return err
		}
		if !bytes.Equal(got, have[id]) {
			return fmt.Errorf("round %d: group %d reads wrong", round, id)
		}
		if rng.IntN(20) == 0 {
			if err := d.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestFenceIsABarrier: once Fence returned, no write of an older token takes effect.
func TestFenceIsABarrier(t *testing.T) {
	fs := disktest.New(64<<20, dir)
	must(t, disk.Format(fs, dir, identity(48<<20)))
	d, err := disk.Open(fs, dir, disk.Options{Cluster: "c"})
	must(t, err)
	must(t, d.Create(1, 1, 1))
	for token := uint64(1); token <= 30; token++ {
		var writers sync.WaitGroup
		for w := range 3 {
			writers.Go(func() {
				for i := 0; ; i++ {
					err := d.Write(1, 1, token, int64(w)*disk.SliceSize, slice(byte(i)), false)
					if err != nil {
						wantsFence(t, err)
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(token%5) * 100 * time.Microsecond)
		must(t, d.Fence(1, token+1))
		before, after := make([]byte, 3*disk.SliceSize), make([]byte, 3*disk.SliceSize)
		must(t, d.Read(1, 1, 0, before))
		writers.Wait()
		must(t, d.Read(1, 1, 0, after))
		if !bytes.Equal(before, after) {
			t.Fatalf("token %d wrote behind the fence", token)
		}
	}
	must(t, d.Close())
}

func wantsFence(t *testing.T, err error) {
	var fenced *disk.FenceError
	if !errors.As(err, &fenced) {
		t.Errorf("got %v", err)
	}
}

// gatedSync is a file system whose syncs are counted, and wait for the gate.
type gatedSync struct {
	disk.FS
	syncs *atomic.Int64
	gate  *sync.RWMutex
}

func (f gatedSync) Open(name string) (disk.File, error) {
	file, err := f.FS.Open(name)
	return gatedFile{file, f}, err
}

type gatedFile struct {
	disk.File
	fs gatedSync
}

func (f gatedFile) Sync() error {
	f.fs.gate.RLock()
	defer f.fs.gate.RUnlock()
	f.fs.syncs.Add(1)
	return f.File.Sync()
}

// TestSharedSyncs: those who come while a sync is under way share the next, so
// that eight writers need two.
func TestSharedSyncs(t *testing.T) {
	memory := disktest.New(64<<20, dir)
	must(t, disk.Format(memory, dir, identity(48<<20)))
	fs := gatedSync{memory, new(atomic.Int64), new(sync.RWMutex)}
	d, err := disk.OpenQuiet(fs, dir, disk.Options{Cluster: "c"})
	must(t, err)
	must(t, d.Create(1, 1, 1))
	must(t, d.Sync())
	must(t, d.Write(1, 1, 1, 0, slice('a'), true))
	before, logged := fs.syncs.Load(), d.Usage().InLog
	fs.gate.Lock()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			if err := d.Write(1, 1, 1, int64(w)*disk.SliceSize, slice(byte(w)), true); err != nil {
				t.Error(err)
			}
		})
	}
	for d.Usage().InLog < logged+8*disk.SliceSize {
		time.Sleep(time.Millisecond)
	}
	fs.gate.Unlock()
	all.Wait()
	if n := fs.syncs.Load() - before; n > 2 {
		t.Errorf("%d syncs for 8 writers", n)
	}
}
