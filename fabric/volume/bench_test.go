package volume

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// benchVolume is a volume of 64 MiB, filled, on disks in directories.
func benchVolume(b *testing.B, disks int) *Volume {
	b.Helper()
	ctx := context.Background()
	m, err := maps.Open(ctx, mem.New(), kv.NewWriter(1))
	if err != nil {
		b.Fatal(err)
	}
	p := &slowPool{disks: map[cluster.DiskID]Disk{}}
	for i := range disks {
		dir, name := b.TempDir(), fmt.Sprintf("d%d", i)
		if err := disk.Format(disk.OS{}, dir, disk.Identity{Cluster: "c", Disk: name, Tier: disk.SSD, Quota: 256 << 20, Salt: 3}); err != nil {
			b.Fatal(err)
		}
		d, err := disk.Open(disk.OS{}, dir, disk.Options{Cluster: "c"})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		p.disks[cluster.DiskID(name)], p.order = plug{d, &fuse{}}, append(p.order, cluster.DiskID(name))
	}
	s := NewSpace(m, p, Options{})
	vdisk, err := s.Create(ctx, "v", 64<<20, disks, time.Unix(0, 0))
	if err != nil {
		b.Fatal(err)
	}
	v, err := s.Open(ctx, vdisk.ID)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { v.Close() })
	for at := int64(0); at < 64<<20; at += disk.BlockSize {
		if err := v.WriteAt(ctx, make([]byte, disk.BlockSize), at, false); err != nil {
			b.Fatal(err)
		}
	}
	if err := v.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	return v
}

// BenchmarkRandom4K reads and writes at random places, one request after the other and several at once.
func BenchmarkRandom4K(b *testing.B) {
	ctx := context.Background()
	v := benchVolume(b, 1)
	for _, load := range []struct {
		name string
		do   func(buf []byte, at int64) error
	}{
		{"read", func(buf []byte, at int64) error { return v.ReadAt(ctx, buf, at) }},
		{"write", func(buf []byte, at int64) error { return v.WriteAt(ctx, buf, at, false) }},
	} {
		b.Run(load.name, func(b *testing.B) {
			b.ReportAllocs()
			buf, rng := make([]byte, disk.SliceSize), rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				if err := load.do(buf, rng.Int64N(64<<20/disk.SliceSize)*disk.SliceSize); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(load.name+"-parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				buf, rng := make([]byte, disk.SliceSize), rand.New(rand.NewPCG(rand.Uint64(), 1))
				for pb.Next() {
					if err := load.do(buf, rng.Int64N(64<<20/disk.SliceSize)*disk.SliceSize); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
