package pebble

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"gleaner/curator"
	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
)

// BenchmarkCurator compares a scan of the curator with raw iteration, which only this
// package can do. Run it on one core: -cpu 1.
//
//   - raw: Pebble's own iterator.
//   - 1 job, 10 jobs: each looks at the value of a record and emits a pair for one in a hundred.
//   - 1 job of all: it emits a pair for every record, so that all are sorted and spilled.
func BenchmarkCurator(b *testing.B) {
	s, tab := filled(b, million, benchKey)
	benchRaw(b, s, million)
	for _, jobs := range []int{1, 10} {
		b.Run(fmt.Sprintf("%djobs/%drecords", jobs, million), func(b *testing.B) { benchCurator(b, s, tab, million, seldom(jobs)) })
	}
	b.Run(fmt.Sprintf("1jobofall/%drecords", million), func(b *testing.B) { benchCurator(b, s, tab, million, []curator.Job{picking("all", 1, 0)}) })
}

// BenchmarkCuratorMemory shows the memory of a scan that spills as the table grows. Garbage is collected
// early, so that the heap is little more than what is in use. Ten million and fifty million run with GLEANER_LONG=1.
func BenchmarkCuratorMemory(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	for _, n := range []int{million, 10 * million, 50 * million} {
		b.Run(fmt.Sprintf("%drecords", n), func(b *testing.B) {
			if n > million && os.Getenv("GLEANER_LONG") == "" {
				b.Skip("set GLEANER_LONG=1 for the long benchmarks")
			}
			s, tab := filled(b, n, benchKey)
			benchCurator(b, s, tab, n, []curator.Job{picking("all", 1, 0)})
		})
	}
}

func benchRaw(b *testing.B, s *Store, n int) {
	b.Run(fmt.Sprintf("raw/%drecords", n), func(b *testing.B) {
		measure(b, n, func() { mustScanRaw(b, s, n) })
	})
}

// BenchmarkCuratorShare compares within each round, because the machine is faster at some times than at others: the speed of a scan of one job
// with raw iteration, and the time that ten jobs take in one scan with that of one. The medians of all rounds are reported. Run it on one core: -cpu 1.
func BenchmarkCuratorShare(b *testing.B) {
	s, tab := filled(b, million, benchKey)
	one, ten := openCurator(b, s, tab, seldom(1)), openCurator(b, s, tab, seldom(10))
	var share, cost []float64
	for b.Loop() {
		raw := cpuOf(func() { mustScanRaw(b, s, million) })
		first, all := cpuOf(func() { mustScan(b, one) }), cpuOf(func() { mustScan(b, ten) })
		share, cost = append(share, 100*raw/first), append(cost, all/first)
	}
	for unit, all := range map[string][]float64{"%-of-raw": share, "ten-jobs/one": cost} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], unit)
	}
}

// cpuOf is the CPU time of do, in ns.
func cpuOf(do func()) float64 {
	began := cpuTime()
	do()
	return float64(cpuTime() - began)
}

func mustScanRaw(b *testing.B, s *Store, n int) {
	if records, size := scanRaw(b, s); records < n || size < 100*n {
		b.Fatalf("%d records of %d bytes", records, size)
	}
}

func mustScan(b *testing.B, c *curator.Curator) {
	report, err := c.Scan(b.Context(), func(task.Task) error { return nil })
	must(b, err)
	if report.Records["t"] != million {
		b.Fatalf("%+v", report)
	}
}

func openCurator(b *testing.B, s *Store, tab strict, jobs []curator.Job) *curator.Curator {
	c, err := curator.Open(b.Context(), s, kv.NewWriter(7), curator.Options{Name: fmt.Sprint("bench", len(jobs)), Tables: map[string]kv.Reader{"t": tab}, Jobs: jobs,
		Space: shuffle.Dir(b.TempDir()), Memory: 16 << 20})
	must(b, err)
	return c
}

func benchCurator(b *testing.B, s *Store, tab strict, n int, jobs []curator.Job) {
	c := openCurator(b, s, tab, jobs)
	measure(b, n, func() {
		report, err := c.Scan(b.Context(), func(task.Task) error { return nil })
		must(b, err)
		if report.Records["t"] != int64(n) || len(report.Tasks) != len(jobs) {
			b.Fatalf("%+v", report)
		}
		b.ReportMetric(float64(report.Bytes)/(1<<20), "spilled-MiB")
	})
}

// measure reports what do takes for each of n records, and the most memory on the heap meanwhile.
func measure(b *testing.B, n int, do func()) {
	runtime.GC()
	stop, most := watchHeap()
	b.ReportAllocs()
	began := cpuTime()
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
	b.ReportMetric(float64(cpuTime()-began)/float64(b.N*n), "cpu-ns/record")
	stop()
	b.ReportMetric(float64(*most)/(1<<20), "heap-MiB")
}

// watchHeap looks at the heap until stop is called; the most it saw counts from then on.
func watchHeap() (stop func(), most *uint64) {
	most = new(uint64)
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			*most = max(*most, now.HeapAlloc)
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() { close(done); watch.Wait() }, most
}

// seldom gives jobs that each emit one record in a hundred.
func seldom(n int) []curator.Job {
	var jobs []curator.Job
	for i := range n {
		jobs = append(jobs, picking(fmt.Sprintf("job%d", i), 100, uint64(i)))
	}
	return jobs
}

// picking gives a job that emits the records whose number is residue modulo every, and proposes a
// task for one key in a thousand.
func picking(name string, every, residue uint64) curator.Job {
	number := func(r *kv.Record) uint64 { return r.Version.Seq - 1 }
	return curator.Job{
		Name: name,
		Inputs: []curator.Input{{
			Table:   "t",
			Filters: []func(*kv.Record) bool{func(r *kv.Record) bool { return number(r)%every == residue }},
			Map: func(r *kv.Record, out *curator.Pairs) error {
				var key [8]byte
				binary.BigEndian.PutUint64(key[:], number(r)*0x9e3779b97f4a7c15)
				out.Emit(key[:], r.Key.Row)
				return nil
			},
		}},
		Reduce: func(key []byte, values *curator.Values, propose func(task.Task)) error {
			n := 0
			for values.Next() {
				n++
			}
			if binary.BigEndian.Uint64(key)>>32%1000 == 7 {
				propose(task.Task{Kind: "look", What: key, Why: fmt.Sprint(n, " values")})
			}
			return nil
		},
	}
}
