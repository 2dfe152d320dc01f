package volume

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/pebble"
)

// BenchmarkFullMaps writes the maps of 1 TiB of vDisks of which every block has data on three replicas, opens all vDisks and reads a sector of each
// block. The disks answer at once, so that what is reported is of the maps: the bytes they take on disk for a block, how many blocks a second are found
// that this process does not remember, and that it does, and the memory it then has, on the heap and resident.
//
//	GLEANER_LONG=1 go test -run '^$' -bench FullMaps -benchtime 1x ./fabric/volume
func BenchmarkFullMaps(b *testing.B) {
	for _, size := range []struct {
		name   string
		vdisks int
	}{{"64GiB", 1}, {"1TiB", 16}} {
		b.Run(size.name, func(b *testing.B) {
			if size.vdisks > 1 && os.Getenv("GLEANER_LONG") == "" {
				b.Skip("takes minutes: GLEANER_LONG=1")
			}
			fullMaps(b, size.vdisks)
		})
	}
}

const fullBlocks = 64 << 10 // of a vDisk of 64 GiB

func fullMaps(b *testing.B, vdisks int) {
	ctx, dir := b.Context(), b.TempDir()
	fillMaps(b, dir, vdisks)
	if n := bytesIn(b, dir); n > 0 { // few blocks are all in the log
		b.ReportMetric(float64(n)/float64(vdisks*fullBlocks), "bytes/block")
	}
	debug.FreeOSMemory() // what filling took does not count
	store, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	m, err := maps.Open(ctx, store, kv.NewWriter(2))
	if err != nil {
		b.Fatal(err)
	}
	s := NewSpace(m, blankPool{}, Options{})
	var volumes []*Volume
	for i := range vdisks {
		vdisk, err := m.Find(ctx, fmt.Sprint("v", i))
		if err != nil {
			b.Fatal(err)
		}
		v, err := s.Open(ctx, vdisk.ID)
		if err != nil {
			b.Fatal(err)
		}
		defer v.Close()
		volumes = append(volumes, v)
	}
	for _, turn := range []string{"found/s", "remembered/s"} {
		begun := time.Now()
		for _, v := range volumes {
			for block := range int64(fullBlocks) {
				if err := v.ReadAt(ctx, make([]byte, 512), block*disk.BlockSize); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(vdisks*fullBlocks)/time.Since(begun).Seconds(), turn)
	}
	debug.FreeOSMemory()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	b.ReportMetric(0, "ns/op") // of no meaning here
	b.ReportMetric(float64(now.HeapAlloc)/1e6, "heap-MB")
	b.ReportMetric(residentMB(b), "resident-MB")
}

// fillMaps writes vDisks of 64 GiB, as if a client had written every block in order.
func fillMaps(b *testing.B, dir string, vdisks int) {
	b.Helper()
	store, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	m, err := maps.Open(b.Context(), store, kv.NewWriter(1))
	if err != nil {
		b.Fatal(err)
	}
	s := NewSpace(m, blankPool{}, Options{})
	writers, ctx := errgroup.WithContext(b.Context())
	writers.SetLimit(256) // their syncs are shared
	next := disk.GroupID(1)
	for i := range vdisks {
		v, err := s.Create(ctx, fmt.Sprint("v", i), fullBlocks*disk.BlockSize, 3, time.Unix(0, 0))
		if err != nil {
			b.Fatal(err)
		}
		for block := int64(0); block < fullBlocks; block += maps.ExtentsPerGroup {
			id := next
			next++
			writers.Go(func() error { return fillGroup(ctx, m, v.ID, block, id) })
		}
	}
	if err := writers.Wait(); err != nil {
		b.Fatal(err)
	}
}

func fillGroup(ctx context.Context, m *maps.Maps, v disk.VDiskID, first int64, id disk.GroupID) error {
	on := []cluster.DiskID{"0011223344556677", "8899aabbccddeeff", "0123456789abcdef"}
	if _, err := m.SetGroup(ctx, id, group.New(v, 3, on), kv.Version{}); err != nil {
		return err
	}
	if err := m.CreateExtents(ctx, id); err != nil {
		return err
	}
	for q := range uint8(maps.ExtentsPerGroup) {
		if _, err := m.SetBlock(ctx, v, first+int64(q), maps.Block{Pile: []maps.ExtentID{{Group: id, Quarter: q}}}, kv.Version{}); err != nil {
			return err
		}
	}
	return nil
}

// A blankPool has every disk, and all of them are blank.
type blankPool struct{}

func (blankPool) Disk(cluster.DiskID) (Disk, error)            { return blankDisk{}, nil }
func (blankPool) Place([]cluster.DiskID, int) []cluster.DiskID { return nil }

// A blankDisk answers reads. Nothing else is asked of it.
type blankDisk struct{ Disk }

func (blankDisk) Read(_ context.Context, _ disk.GroupID, _ uint64, _ int64, buf []byte) error {
	clear(buf)
	return nil
}

func bytesIn(b *testing.B, dir string) (all int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".sst") { // what is in tables; the log is used again
			return err
		}
		info, err := entry.Info()
		if err == nil {
			all += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return all
}

func residentMB(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / 1e6
}
