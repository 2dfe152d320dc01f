package fabric_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/fabric/nbd"
	"gleaner/fabric/nbd/nbdtest"
	"gleaner/fabric/volume"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/mem"
	"gleaner/kv/pebble"
)

// newFront gives a front with so many servers of one disk each in this process.
func newFront(t testing.TB, servers int) *fabric.Front {
	t.Helper()
	store, err := pebble.Open(t.TempDir(), pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return newFrontOver(t, store, servers)
}

// newFrontOver is a front whose maps are in a store, which is closed with it.
func newFrontOver(t testing.TB, store kv.Store, servers int) *fabric.Front {
	t.Helper()
	f, err := fabric.Open(context.Background(), fabric.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	var disks []*disk.Disk
	for i := range servers {
		d := newDisk(t, fmt.Sprintf("d%d", i))
		id := cluster.ServerID(fmt.Sprintf("s%d", i))
		f.Join(cluster.Server{ID: id})
		f.Add(id, d)
		disks = append(disks, d)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range disks {
			d.Close()
		}
		store.Close()
	})
	return f
}

func newDisk(t testing.TB, name string) *disk.Disk {
	t.Helper()
	dir := t.TempDir()
	if err := disk.Format(disk.OS{}, dir, disk.Identity{Cluster: "c", Disk: name, Tier: disk.SSD, Quota: 2 << 30, Salt: 1}); err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open(disk.OS{}, dir, disk.Options{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func create(t testing.TB, f *fabric.Front, name string, size int64, replicas int) {
	t.Helper()
	if _, err := f.Create(context.Background(), name, size, replicas); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, f *fabric.Front, name string) nbd.Device {
	t.Helper()
	d, err := f.Exports().Open(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A vDisk is a device as NBD wants it, and so is one that stands on two snapshots.
func TestDevices(t *testing.T) {
	t.Parallel()
	f := newFront(t, 3)
	const size = 9<<20 + 512
	create(t, f, "plain", size, 3)
	plain := open(t, f, "plain")
	nbdtest.Conform(t, plain, size, 1)
	plain.Close()

	create(t, f, "grown", size, 2)
	for _, snapshot := range []string{"one", "two"} {
		d := open(t, f, "grown")
		if err := d.WriteAt(context.Background(), []byte("below the zeros"), 5000, false); err != nil {
			t.Fatal(err)
		}
		if err := d.Zero(context.Background(), 0, size, false, false); err != nil {
			t.Fatal(err)
		}
		d.Close()
		if err := f.Snapshot(context.Background(), "grown", snapshot); err != nil {
			t.Fatal(err)
		}
	}
	grown := open(t, f, "grown")
	nbdtest.Conform(t, grown, size, 2)
	grown.Close()
	report, err := f.Check(context.Background(), func(int, int) {})
	if err != nil || report.Missing > 0 || report.Corrupt > 0 || len(report.Errors) > 0 || report.Replicas == 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// A snapshot stays as it is; its clones go their own ways; what nothing needs is removed.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFront(t, 1)
	create(t, f, "v", 4<<20, 1)
	write := func(name, text string, at int64) {
		t.Helper()
		d := open(t, f, name)
		defer d.Close()
		if err := d.WriteAt(ctx, []byte(text), at, false); err != nil {
			t.Fatal(err)
		}
	}
	reads := func(name, want string, at int64) {
		t.Helper()
		d := open(t, f, name)
		defer d.Close()
		got := make([]byte, len(want))
		if err := d.ReadAt(ctx, got, at); err != nil || string(got) != want {
			t.Errorf("%s at %d: %q, %v; want %q", name, at, got, err, want)
		}
	}
	write("v", "first", 100)
	write("v", "far", 3<<20)
	for _, err := range []error{f.Snapshot(ctx, "v", "s"), f.Clone(ctx, "s", "c"), f.Clone(ctx, "s", "d")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write("v", "FIRST", 100)
	write("c", "x", 102)
	reads("s", "first", 100)
	reads("v", "FIRST", 100)
	reads("c", "fixst", 100)
	reads("d", "first", 100)
	reads("c", "far", 3<<20)

	for _, name := range []string{"v", "s", "d"} {
		if err := f.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Tidy(ctx); err != nil {
		t.Fatal(err)
	}
	reads("c", "fixst", 100) // through what was removed
	if err := f.Remove(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if err := f.Tidy(ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := f.Check(ctx, func(int, int) {}); err != nil || left.Blocks+left.Groups+left.Replicas+left.Orphans != 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// What a user gets wrong is an error of that field, and changes nothing.
func TestMistakes(t *testing.T) {
	ctx := context.Background()
	f := newFront(t, 1)
	create(t, f, "v", 1<<20, 1)
	if err := f.Snapshot(ctx, "v", "s"); err != nil {
		t.Fatal(err)
	}
	d := open(t, f, "v")
	defer d.Close()
	mistakes := map[string]error{
		"remove what is used":      f.Remove(ctx, "v"),
		"remove what is not there": f.Remove(ctx, "w"),
		"clone of a vDisk":         f.Clone(ctx, "v", "w"),
		"clone of nothing":         f.Clone(ctx, "w", "x"),
		"clone over":               f.Clone(ctx, "s", "v"),
		"snapshot over":            f.Snapshot(ctx, "v", "s"),
		"snapshot of a snapshot":   f.Snapshot(ctx, "s", "w"),
		"resize of a snapshot":     f.Resize(ctx, "s", 1<<20),
		"resize to nothing":        f.Resize(ctx, "v", 0),
		"shrink what is used":      f.Resize(ctx, "v", 1<<19),
		"resize what is not there": f.Resize(ctx, "w", 1<<20),
	}
	for _, name := range []string{"", "a/b", "..", "-x", "a b", "ä", "v", string(bytes.Repeat([]byte("x"), 101))} {
		_, err := f.Create(ctx, name, 1<<20, 1)
		mistakes["name "+name] = err
	}
	for _, size := range []int64{0, -512, 100, volume.MaxSize + 512} {
		_, err := f.Create(ctx, "w", size, 1)
		mistakes[fmt.Sprint("size ", size)] = err
	}
	for _, n := range []int{-1, 6} {
		_, err := f.Create(ctx, "w", 512, n)
		mistakes[fmt.Sprint("replicas ", n)] = err
	}
	for name, err := range mistakes {
		if !input.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all, err := f.List(ctx)
	if err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// The largest vDisk costs next to nothing to make, to keep in a snapshot, and to remove.
func TestLargest(t *testing.T) {
	ctx := context.Background()
	f := newFront(t, 1)
	begin := time.Now()
	create(t, f, "v", volume.MaxSize, 1)
	d := open(t, f, "v")
	if err := d.WriteAt(ctx, []byte("end"), volume.MaxSize-3, true); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3)
	if err := d.ReadAt(ctx, got, volume.MaxSize-3); err != nil || string(got) != "end" {
		t.Errorf("%q, %v", got, err)
	}
	d.Close()
	if err := f.Snapshot(ctx, "v", "s"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"v", "s"} {
		if err := f.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("made, written, kept and removed in %v", time.Since(begin))
}

// BenchmarkChain reads a vDisk that stands on so many snapshots, each of which has something of it.
func BenchmarkChain(b *testing.B) {
	for _, snapshots := range []int{0, 10, 1000} {
		b.Run(fmt.Sprint(snapshots, "snapshots"), func(b *testing.B) {
			ctx := context.Background()
			f := newFront(b, 1)
			const size = 512 << 20
			create(b, f, "v", size, 1)
			rng := rand.New(rand.NewPCG(1, 1))
			d := open(b, f, "v")
			buf := make([]byte, 1<<20)
			for at := int64(0); at < size; at += 1 << 20 {
				for i := range buf {
					buf[i] = byte(rng.Uint32())
				}
				if err := d.WriteAt(ctx, buf, at, false); err != nil {
					b.Fatal(err)
				}
			}
			for i := range snapshots {
				if err := f.Snapshot(ctx, "v", fmt.Sprint("s", i)); err != nil {
					b.Fatal(err)
				}
				if err := d.WriteAt(ctx, buf[:4096], rng.Int64N(size/4096)*4096, false); err != nil {
					b.Fatal(err)
				}
			}
			d.Close()
			b.SetBytes(size)
			b.ResetTimer()
			for range b.N { // opened anew, so that nothing is remembered
				d := open(b, f, "v")
				for at := int64(0); at < size; at += 1 << 20 {
					if err := d.ReadAt(ctx, buf, at); err != nil {
						b.Fatal(err)
					}
				}
				d.Close()
			}
		})
	}
}

// Names and maps are all that a front keeps: another one on the same store and disks goes on.
func TestFrontAfterFront(t *testing.T) {
	ctx := context.Background()
	store, d := mem.New(), newDisk(t, "d")
	defer d.Close()
	for i := range 3 {
		f, err := fabric.Open(ctx, fabric.Options{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		f.Join(cluster.Server{ID: "s"})
		f.Add("s", d)
		if i == 0 {
			create(t, f, "v", 1<<20, 1)
		}
		v := open(t, f, "v")
		got := make([]byte, 3)
		if err := v.ReadAt(ctx, got, 0); err != nil || got[0] != byte(i) {
			t.Errorf("front %d reads %v, %v", i, got, err)
		}
		if err := v.WriteAt(ctx, []byte{byte(i + 1)}, 0, false); err != nil {
			t.Error(err)
		}
		v.Close()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Import and Dump keep every byte, and zeros take no space.
func TestImportAndDump(t *testing.T) {
	ctx := context.Background()
	f := newFront(t, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	image := make([]byte, 12<<20)
	for i := range image[:5<<20+777] {
		image[3<<20+i] = byte(rng.Uint32())
	}
	create(t, f, "v", int64(len(image)), 1)
	var told int64
	if err := f.Import(ctx, "v", bytes.NewReader(image), func(n int64) { told = n }); err != nil || told != int64(len(image)) {
		t.Fatalf("%v after %d bytes", err, told)
	}
	file := filepath.Join(t.TempDir(), "dump")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	size, err := f.Dump(ctx, "v", func(p []byte, at int64) error { _, err := out.WriteAt(p, at); return err })
	if err == nil {
		err = out.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, image) {
		t.Errorf("%d bytes that differ, %v", len(got), err)
	}
	if s, err := f.Stat(ctx, "v"); err != nil || s.Blocks != 6 {
		t.Errorf("%+v, %v", s, err)
	}
}
