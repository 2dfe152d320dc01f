package dataserver_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

const diskDir = "disk"

func memoryDisk(t testing.TB, fs *disktest.FS, name string) *disk.Disk {
	t.Helper()
	err := disk.Format(fs, diskDir, disk.Identity{Cluster: cluster.ID, Disk: name, Tier: disk.SSD, Quota: 32 << 20, Log: 2 << 20, Salt: 7})
	must(t, err)
	d, err := disk.Open(fs, diskDir, disk.Options{Cluster: cluster.ID})
	must(t, err)
	t.Cleanup(func() { d.Close() }) // it may have failed
	return d
}

// TestCopyCrashes stops the target of a copy at each of its operations and takes the power away: what is
// found then is a whole replica or none, and the copy can be made again.
func TestCopyCrashes(t *testing.T) {
	source := memoryDisk(t, disktest.New(64<<20, diskDir), "source")
	must(t, source.Create(1, 1, 5))
	must(t, source.Write(1, 5, 1, 0, bytes.Repeat([]byte("small"), 3000), false))
	must(t, source.Write(1, 5, 1, disk.BlockSize, bytes.Repeat([]byte("large"), disk.BlockSize/5), false))
	must(t, source.Seal(1, 5, 1))
	want, err := source.Sums(1, 5)
	must(t, err)

	whole, none := 0, 0
	for stop := 0; ; stop++ {
		fs := disktest.New(64<<20, diskDir)
		target := memoryDisk(t, fs, "target")
		n := 0
		fs.Fault(func(op, _ string) error {
			if op == "read" {
				return nil
			}
			if n++; n > stop {
				return errors.New("the power is gone")
			}
			return nil
		})
		err := dataserver.Local(target).Copy(t.Context(), 1, 5, 1, dataserver.Local(source))
		fs.Fault(nil)
		for seed := range uint64(4) {
			d, opened := disk.Open(fs.Cut(rand.New(rand.NewPCG(seed, uint64(stop))), 50), diskDir, disk.Options{Cluster: cluster.ID})
			must(t, opened)
			sums, readable := d.Sums(1, 5)
			switch {
			case readable == nil && slices.Equal(sums, want):
				whole++
			case readable == nil:
				t.Fatalf("stopped at %d, seed %d: half a replica can be read", stop, seed)
			case err == nil:
				t.Fatalf("seed %d: a finished copy is gone: %v", seed, readable)
			default:
				none++
			}
			must(t, dataserver.Local(d).Copy(t.Context(), 1, 5, 1, dataserver.Local(source)))
			must(t, d.Close())
		}
		if err == nil {
			break
		}
	}
	if none < 20 || whole < 4 {
		t.Errorf("%d times it was whole, %d times not: too few crashes", whole, none)
	}
}

// TestCopiesAtOnce: of copies of one group that begin together, each is made or refused, and the group is whole.
func TestCopiesAtOnce(t *testing.T) {
	source := memoryDisk(t, disktest.New(64<<20, diskDir), "source")
	must(t, source.Create(1, 1, 5))
	must(t, source.Write(1, 5, 1, 0, bytes.Repeat([]byte("large"), disk.BlockSize/5), false))
	want, err := source.Sums(1, 5)
	must(t, err)
	target := memoryDisk(t, disktest.New(64<<20, diskDir), "target")
	at := serve(t, socket(t), dataserver.Options{}, target)
	for range 20 {
		var all sync.WaitGroup
		var made atomic.Int64
		for range 4 {
			c := dial(t, at)
			all.Go(func() {
				err := c.Disk("target").Copy(t.Context(), 1, 5, 1, dataserver.Local(source))
				if err == nil {
					made.Add(1)
				} else if !errors.Is(err, disk.ErrExists) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		sums, err := target.Sums(1, 5)
		if err != nil || !slices.Equal(sums, want) || made.Load() == 0 {
			t.Fatalf("%d copies were made: %v", made.Load(), err)
		}
		must(t, target.Remove(1, 5))
	}
}
