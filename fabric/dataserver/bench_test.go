package dataserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
)

// BenchmarkDisk loads a disk, of 32 groups in this directory's file system, that is in this
// process and one that is at a data server, over a Unix socket. Both servers share this process
// and its cores.
//
//	go test -run '^$' -bench Disk ./fabric/dataserver
func BenchmarkDisk(b *testing.B) {
	const groups = 32
	at := b.TempDir()
	id := disk.Identity{Cluster: cluster.ID, Disk: "d", Tier: disk.SSD, Quota: 512 << 20, Salt: 77}
	must(b, disk.Format(disk.OS{}, at, id))
	d, err := disk.Open(disk.OS{}, at, disk.Options{Cluster: cluster.ID})
	must(b, err)
	b.Cleanup(func() { must(b, d.Close()) })
	for group := range disk.GroupID(groups) {
		must(b, d.Create(group, 1, 1))
		for offset := int64(0); offset < disk.GroupSize; offset += disk.BlockSize {
			must(b, d.Write(group, 1, 1, offset, make([]byte, disk.BlockSize), false))
		}
	}
	must(b, d.Sync())
	c := dial(b, serve(b, filepath.Join(b.TempDir(), "s"), dataserver.Options{}, d))
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, size := range []int{4 << 10, 1 << 20} {
		for _, kind := range []string{"read", "write"} {
			for _, depth := range []int{1, 16} {
				for _, way := range []struct {
					name string
					disk dataserver.Disk
				}{{"local", dataserver.Local(d)}, {"unix", c.Disk("d")}} {
					b.Run(fmt.Sprintf("%dKiB/%s/q%d/%s", size>>10, kind, depth, way.name), func(b *testing.B) {
						b.SetBytes(int64(size))
						var all sync.WaitGroup
						for w := range depth {
							all.Go(func() {
								rng, buf := rand.New(rand.NewPCG(uint64(w), 4)), make([]byte, size)
								for i := w; i < b.N; i += depth {
									group, offset := disk.GroupID(rng.IntN(groups)), rng.Int64N(disk.GroupSize/int64(size))*int64(size)
									if kind == "read" {
										must(b, way.disk.Read(ctx, group, 1, offset, buf))
									} else {
										must(b, way.disk.Write(ctx, group, 1, 1, offset, buf, false))
									}
								}
							})
						}
						all.Wait()
					})
				}
			}
		}
	}
}
