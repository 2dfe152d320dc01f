package fabric_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gleaner/fabric"
	"gleaner/fabric/maps"
	"gleaner/fabric/nbd"
	"gleaner/fabric/upkeep"
	"gleaner/kv"
	"gleaner/kv/mem"
	"gleaner/kv/pebble"
)

// BenchmarkInterference is what users notice of upkeep: a vDisk is read and written, 4 KiB at a time and 500 times a second each. Each round measures
// that without upkeep, while all maps are scanned, which have half a million records, and while they are scanned once and the tasks are done that follow:
// extents are copied out of sparse groups. It also tells how long a scan takes while nobody asks for anything (calm). Of all rounds the medians are reported, and of their ratios.
//
//	go test -run '^$' -bench Interference -benchtime 5x ./fabric
func BenchmarkInterference(b *testing.B) {
	ctx := context.Background()
	store, err := pebble.Open(b.TempDir(), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	f := newFrontOver(b, store, 3)
	writeOut(b, f, "used", usedBlocks)
	manyBlocks(b, store, 500_000)
	d := open(b, f, "used")
	defer d.Close()
	figures := map[string][]float64{}
	note := func(unit string, value float64) { figures[unit] = append(figures[unit], value) }
	for round := 0; b.Loop(); round++ {
		pause(b, f)
		neglect(b, f, fmt.Sprint("sparse", round))
		without := measureLoad(b, d, func() { time.Sleep(5 * time.Second) })
		if err := f.Resume(ctx); err != nil {
			b.Fatal(err)
		}
		plan := func(unit string) {
			p, err := f.Plan(ctx)
			if err != nil || p.Records[maps.Blocks] < 500_000 {
				b.Fatalf("%+v, %v", p.ScanReport, err)
			}
			note(unit, p.Took)
		}
		time.Sleep(time.Second) // nobody asks for anything
		plan("calm-scan-s")
		scan := measureLoad(b, d, func() {
			for begun := time.Now(); time.Since(begun) < 5*time.Second; {
				plan("scan-s")
			}
		})
		tasks := measureLoad(b, d, func() {
			_, done, err := f.Scan(ctx, upkeep.Space)
			if err != nil {
				b.Fatal(err)
			}
			n := int64(0)
			for _, k := range done {
				n += k.Done
			}
			note("tasks", float64(n))
		})
		for op, quiet := range without {
			note(op+"-p99-µs", p99(quiet))
			note(op+"-p99-scan/without", p99(scan[op])/p99(quiet))
			note(op+"-p99-tasks/without", p99(tasks[op])/p99(quiet))
		}
	}
	for unit, all := range figures {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], unit)
	}
}

// usedBlocks are those of the vDisk that is read and written.
const usedBlocks = 64

func pause(b *testing.B, f *fabric.Front) {
	b.Helper()
	if err := f.Pause(context.Background(), "measured without"); err != nil {
		b.Fatal(err)
	}
}

// writeOut makes a vDisk with three replicas and fills it.
func writeOut(b testing.TB, f *fabric.Front, name string, blocks int) {
	b.Helper()
	create(b, f, name, int64(blocks)*block, 3)
	v := open(b, f, name)
	defer v.Close()
	for i := range blocks {
		if err := v.WriteAt(context.Background(), filled(byte(i+1), block), int64(i)*block, false); err != nil {
			b.Fatal(err)
		}
	}
	if err := v.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// neglect leaves work for upkeep: a vDisk of which only a block in four is used.
func neglect(b *testing.B, f *fabric.Front, name string) {
	b.Helper()
	const blocks = 64
	writeOut(b, f, name, blocks)
	v := open(b, f, name)
	defer v.Close()
	for i := range int64(blocks) {
		if i%4 == 0 {
			continue
		}
		if err := v.Trim(context.Background(), i*block, block, false); err != nil {
			b.Fatal(err)
		}
	}
}

// manyBlocks gives a large vDisk blocks that were all given back.
func manyBlocks(b *testing.B, store kv.Store, n int) {
	b.Helper()
	ctx := context.Background()
	m, err := maps.Open(ctx, store, kv.NewWriter(1))
	if err != nil {
		b.Fatal(err)
	}
	vdisk := maps.VDisk{ID: 1 << 40, Name: "large", Size: int64(n) * block, Replicas: 3}
	if _, err := m.SetVDisk(ctx, vdisk, kv.Version{}); err != nil {
		b.Fatal(err)
	}
	if _, err := m.Bind(ctx, vdisk.Name, vdisk.ID); err != nil {
		b.Fatal(err)
	}
	beside := mem.New()
	if m, err = maps.Open(ctx, beside, kv.NewWriter(1)); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if _, err := m.SetBlock(ctx, vdisk.ID, int64(i), maps.Block{Opaque: true}, kv.Version{}); err != nil {
			b.Fatal(err)
		}
	}
	table, err := store.Table(ctx, maps.Blocks)
	if err != nil {
		b.Fatal(err)
	}
	var some []kv.Record
	for r, err := range m.Tables()[maps.Blocks].Scan(ctx, kv.Range{}) {
		if err != nil {
			b.Fatal(err)
		}
		r.Key = kv.Key{Part: slices.Clone(r.Key.Part), Row: slices.Clone(r.Key.Row)}
		r.Value = slices.Clone(r.Value)
		if some = append(some, r); len(some) == 10_000 {
			if err := table.Load(ctx, some...); err != nil {
				b.Fatal(err)
			}
			some = some[:0]
		}
	}
	if err := table.Load(ctx, some...); err != nil {
		b.Fatal(err)
	}
}

// measureLoad reads and writes a vDisk until do returns, and gives how long each request took, in µs.
func measureLoad(b testing.TB, d nbd.Device, do func()) map[string][]float64 {
	ctx, stop := context.WithCancel(context.Background())
	took := map[string][]float64{}
	var mu sync.Mutex
	var users sync.WaitGroup
	for op, request := range map[string]func([]byte, int64) error{
		"read":  func(buf []byte, at int64) error { return d.ReadAt(context.Background(), buf, at) },
		"write": func(buf []byte, at int64) error { return d.WriteAt(context.Background(), buf, at, false) },
	} {
		users.Go(func() {
			all := everyTwoMilliseconds(ctx, b, request)
			mu.Lock()
			defer mu.Unlock()
			took[op] = all
		})
	}
	do()
	stop()
	users.Wait()
	return took
}

func everyTwoMilliseconds(ctx context.Context, b testing.TB, request func([]byte, int64) error) (took []float64) {
	buf, rng, tick := make([]byte, 4096), rand.New(rand.NewPCG(1, 1)), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return took
		case <-tick.C:
		}
		binary.LittleEndian.PutUint64(buf, rng.Uint64())
		begun := time.Now()
		if err := request(buf, rng.Int64N(usedBlocks*block/4096)*4096); err != nil {
			b.Error(err)
		}
		took = append(took, float64(time.Since(begun).Nanoseconds())/1000)
	}
}

func p99(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)*99/100]
}
