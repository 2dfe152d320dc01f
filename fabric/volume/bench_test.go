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
	"gleaner/fabric/pack"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// spaceInDirectories is a space over disks of 4 GiB, each in a directory.
func spaceInDirectories(tb testing.TB, disks int) (*Space, *slowPool) {
	tb.Helper()
	m, err := maps.Open(context.Background(), mem.New(), kv.NewWriter(1))
	if err != nil {
		tb.Fatal(err)
	}
	p := &slowPool{disks: map[cluster.DiskID]Disk{}}
	for i := range disks {
		dir, name := tb.TempDir(), fmt.Sprintf("d%d", i)
		if err := disk.Format(disk.OS{}, dir, disk.Identity{Cluster: "c", Disk: name, Tier: disk.SSD, Quota: 4 << 30, Log: disk.DefaultLog(256 << 20), Salt: 3}); err != nil {
			tb.Fatal(err)
		}
		d, err := disk.Open(disk.OS{}, dir, disk.Options{Cluster: "c"})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { d.Close() })
		p.disks[cluster.DiskID(name)], p.order = plug{d, &fuse{}}, append(p.order, cluster.DiskID(name))
	}
	return NewSpace(m, p, Options{}), p
}

// benchVolume is a volume of 64 MiB, filled, on disks in directories.
func benchVolume(b *testing.B, disks int) *Volume {
	b.Helper()
	ctx := context.Background()
	s, _ := spaceInDirectories(b, disks)
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

// BenchmarkPacked4K reads 4 KiB at random places of prose: as it was written, compressed, coded, and coded with one of six disks away.
func BenchmarkPacked4K(b *testing.B) {
	ctx := context.Background()
	s, p := spaceInDirectories(b, 6)
	vdisk, err := s.Create(ctx, "v", 16<<20, 3, time.Unix(0, 0))
	if err != nil {
		b.Fatal(err)
	}
	v, err := s.Open(ctx, vdisk.ID)
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	if err := v.WriteAt(ctx, prose(1, 16<<20), 0, true); err != nil {
		b.Fatal(err)
	}
	run := func(name string) {
		b.Run(name, func(b *testing.B) {
			rng, buf := rand.New(rand.NewPCG(1, 1)), make([]byte, 4096)
			for b.Loop() {
				if err := v.ReadAt(ctx, buf, rng.Int64N(4096)*4096); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("plain")
	for _, step := range []struct {
		name string
		form Form
	}{{"packed", Form{Level: pack.Fast}}, {"coded", Form{Level: pack.Fast, Data: 4}}} {
		if err := packAll(s, step.form); err != nil {
			b.Fatal(err)
		}
		run(step.name)
	}
	delete(p.disks, "d0")
	run("coded-one-away")
}
