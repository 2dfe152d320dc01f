package fabric_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/nbd"
)

// A disk is pulled for good while its vDisk is read and written: each group gets its third replica again, and all that was answered is there.
func TestDiskPulledUnderLoad(t *testing.T) {
	t.Parallel()
	pullDisk(t)
}

// BenchmarkDiskPulled tells how long it takes from then on until each group has three replicas, and what users notice meanwhile. A disk that does not
// answer counts as lost after a second here.
//
//	go test -run '^$' -bench DiskPulled -benchtime 5x ./fabric
func BenchmarkDiskPulled(b *testing.B) {
	sum := map[string]float64{}
	for b.Loop() {
		for unit, value := range pullDisk(b) {
			sum[unit] += value
		}
	}
	for unit, all := range sum {
		b.ReportMetric(all/float64(b.N), unit)
	}
}

func pullDisk(t testing.TB) map[string]float64 {
	r := newRack(t, 4)
	f := r.front(time.Second)
	writeOut(t, f, "used", usedBlocks)
	d := &witness{Device: open(t, f, "used"), last: map[int64][]byte{}}
	defer d.Close()
	before := measureLoad(t, d, func() { time.Sleep(3 * time.Second) })
	had, err := os.ReadDir(filepath.Join(r.servers[0].dir, "groups"))
	if err != nil || len(had) == 0 {
		t.Fatalf("the disk has %d groups, %v", len(had), err)
	}
	var took time.Duration
	during := measureLoad(t, d, func() {
		begun := time.Now()
		r.halt(r.servers[0])
		if err := os.RemoveAll(r.servers[0].dir); err != nil {
			t.Fatal(err)
		}
		full := func() bool {
			s, err := f.Stat(context.Background(), "used")
			return err == nil && s.Have[3] == s.Groups && s.Tiers["away"] == 0
		}
		await(t, "it is noticed", func() bool { return !full() })
		await(t, "each group has three replicas", full)
		took = time.Since(begun)
	})
	if !whole(t, f) {
		t.Error("not whole")
	}
	d.check(t)
	return map[string]float64{"s-to-three-replicas": took.Seconds(), "groups-lost": float64(len(had)),
		"read-p99-µs-before": p99(before["read"]), "read-p99-µs": p99(during["read"]), "write-p99-µs-before": p99(before["write"]), "write-p99-µs": p99(during["write"])}
}

// A witness remembers what was written last, by where.
type witness struct {
	nbd.Device
	mu   sync.Mutex
	last map[int64][]byte
}

func (w *witness) WriteAt(ctx context.Context, data []byte, at int64, fua bool) error {
	err := w.Device.WriteAt(ctx, data, at, fua)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[at] = bytes.Clone(data)
	return err
}

// check reads all again.
func (w *witness) check(t testing.TB) {
	t.Helper()
	if len(w.last) == 0 {
		t.Error("nothing was written")
	}
	for at := int64(0); at < usedBlocks*block; at += 4096 {
		want := w.last[at]
		if want == nil {
			want = filled(byte(at/block+1), 4096)
		}
		got := make([]byte, 4096)
		if err := w.ReadAt(context.Background(), got, at); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at %d are other bytes than were written, %v", at, err)
		}
	}
}
