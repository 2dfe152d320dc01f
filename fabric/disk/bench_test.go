package disk_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gleaner/fabric/disk"
)

// The benchmarks run each load on a disk and on a plain file of the same
// size, filled alike, by pwrite, pread and fdatasync. Ratios are of their times:
//
//	go test -run '^$' -bench . ./fabric/disk

const benchGroups = 32 // 128 MiB

// store is what the loads run on: a disk, or a plain file.
type store interface {
	write(offset int64, data []byte, sync bool) error
	read(offset int64, buf []byte) error
}

type onDisk struct{ *disk.Disk }

func (d onDisk) write(offset int64, data []byte, sync bool) error {
	return d.Write(disk.GroupID(offset/disk.GroupSize), 1, 1, offset%disk.GroupSize, data, sync)
}

func (d onDisk) read(offset int64, buf []byte) error {
	return d.Read(disk.GroupID(offset/disk.GroupSize), 1, offset%disk.GroupSize, buf)
}

type plainFile struct{ disk.File }

func (f plainFile) write(offset int64, data []byte, sync bool) error {
	_, err := f.WriteAt(data, offset)
	if err == nil && sync {
		err = f.Sync()
	}
	return err
}

func (f plainFile) read(offset int64, buf []byte) error {
	_, err := f.ReadAt(buf, offset)
	return err
}

func benchStores(b *testing.B) map[string]store {
	at := b.TempDir()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(at, "disk"), 0o700))
	id := disk.Identity{Cluster: "c", Disk: "d", Tier: disk.SSD, Quota: 512 << 20, Salt: 77}
	must(disk.Format(disk.OS{}, filepath.Join(at, "disk"), id))
	d, err := disk.Open(disk.OS{}, filepath.Join(at, "disk"), disk.Options{Cluster: "c"})
	must(err)
	b.Cleanup(func() { d.Close() })
	f, err := disk.OS{}.Create(filepath.Join(at, "plain"))
	must(err)
	b.Cleanup(func() { f.Close() })
	must(f.Allocate(benchGroups * disk.GroupSize))
	for id := range disk.GroupID(benchGroups) {
		must(d.Create(id, 1, 1))
	}
	stores := map[string]store{"disk": onDisk{d}, "plain": plainFile{f}}
	for _, s := range stores {
		for at := int64(0); at < benchGroups*disk.GroupSize; at += disk.BlockSize {
			must(s.write(at, make([]byte, disk.BlockSize), false))
		}
	}
	must(d.Sync())
	must(f.Sync())
	return stores
}

func benchLoad(b *testing.B, size int, writers int, load func(s store, rng *rand.Rand, i int, buf []byte) error) {
	stores := benchStores(b)
	for _, name := range []string{"plain", "disk"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					rng, buf := rand.New(rand.NewPCG(uint64(w), 4)), make([]byte, size)
					for i := w; i < b.N; i += writers {
						if err := load(stores[name], rng, i, buf); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

func anySlice(rng *rand.Rand) int64 {
	return rng.Int64N(benchGroups*disk.SlicesPerGroup) * disk.SliceSize
}

func inTurn(i int) int64 { return int64(i) % (benchGroups * 4) * disk.BlockSize }

func BenchmarkRandomWrite4K(b *testing.B) {
	benchLoad(b, disk.SliceSize, 1, func(s store, rng *rand.Rand, _ int, buf []byte) error {
		return s.write(anySlice(rng), buf, false)
	})
}

func BenchmarkRandomRead4K(b *testing.B) {
	benchLoad(b, disk.SliceSize, 1, func(s store, rng *rand.Rand, _ int, buf []byte) error {
		return s.read(anySlice(rng), buf)
	})
}

func BenchmarkSyncedWrite4K(b *testing.B) {
	for _, writers := range []int{1, 8} {
		b.Run(fmt.Sprintf("%dwriters", writers), func(b *testing.B) {
			benchLoad(b, disk.SliceSize, writers, func(s store, rng *rand.Rand, _ int, buf []byte) error {
				return s.write(anySlice(rng), buf, true)
			})
		})
	}
}

// BenchmarkFill1M writes to groups that are made for it, and removed later.
func BenchmarkFill1M(b *testing.B) {
	made := int64(benchGroups * 4) // blocks
	benchLoad(b, disk.BlockSize, 1, func(s store, _ *rand.Rand, i int, buf []byte) error {
		d, ok := s.(onDisk)
		if !ok {
			return s.write(inTurn(i), buf, false)
		}
		at := made * disk.BlockSize
		if made%4 == 0 {
			id := disk.GroupID(at / disk.GroupSize)
			if err := errors.Join(d.Remove(id-benchGroups, 1), d.Create(id, 1, 1)); err != nil {
				return err
			}
		}
		made++
		return d.write(at, buf, false)
	})
}

func BenchmarkSequentialWrite1M(b *testing.B) {
	benchLoad(b, disk.BlockSize, 1, func(s store, _ *rand.Rand, i int, buf []byte) error {
		return s.write(inTurn(i), buf, false)
	})
}

func BenchmarkSequentialRead1M(b *testing.B) {
	benchLoad(b, disk.BlockSize, 1, func(s store, _ *rand.Rand, i int, buf []byte) error {
		return s.read(inTurn(i), buf)
	})
}
