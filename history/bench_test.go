package history

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
	"gleaner/kv/mem"
	"gleaner/kv/pebble"
)

// A feed is a CSV that never stood on a disk: servers x rounds rows, a sample of
// every server every two minutes, utilisations that wander with two decimals.
// The rows are drawn once; only their times are written anew, so that making
// them costs little beside reading them.
type feed struct {
	rows    [][]int
	blocks  [][]byte
	rounds  int
	round   int
	pending []byte
	header  bool
}

const feedStart = 1_600_000_000 // seconds; ten digits, as all times to come

func newFeed(servers, rounds int) *feed {
	f := &feed{rounds: rounds}
	rng := rand.New(rand.NewPCG(1, 2))
	level := make([]int, servers)
	for i := range level {
		level[i] = rng.IntN(6000)
	}
	for range min(rounds, 719) { // a prime near a day, so that no chunk repeats itself
		var block []byte
		var at []int
		for i := range level {
			level[i] = min(max(level[i]+rng.IntN(161)-80, 0), 10_000)
			at = append(at, len(block))
			block = fmt.Appendf(block, "0000000000,server-%05d,%d.%02d\n", i, level[i]/100, level[i]%100)
		}
		f.blocks, f.rows = append(f.blocks, block), append(f.rows, at)
	}
	return f
}

func (f *feed) Read(p []byte) (int, error) {
	if !f.header {
		f.header = true
		f.pending = []byte("time,server,cpu\n")
	}
	if len(f.pending) == 0 {
		if f.round == f.rounds {
			return 0, io.EOF
		}
		which := f.round % len(f.blocks)
		now := fmt.Appendf(nil, "%010d", feedStart+120*f.round)
		f.pending = f.blocks[which]
		for _, at := range f.rows[which] {
			copy(f.pending[at:], now)
		}
		f.round++
	}
	n := copy(p, f.pending)
	f.pending = f.pending[n:]
	return n, nil
}

func importAll(tb testing.TB, store kv.Store, r io.Reader) *Store {
	ctx := context.Background()
	s, err := Open(ctx, store, time.Now)
	if err != nil {
		tb.Fatal(err)
	}
	im, err := s.Begin(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := ReadSamples("feed", r, ReadOptions{}, func(sample Sample) error { return im.Add(ctx, sample) }); err != nil {
		tb.Fatal(err)
	}
	if err := im.Commit(ctx); err != nil {
		tb.Fatal(err)
	}
	return s
}

// BenchmarkImport reads CSV, time by time with 5,000 servers interleaved, into
// the embedded store. The month and the 100M run with GLEANER_LONG=1.
func BenchmarkImport(b *testing.B) {
	for _, size := range []struct {
		name            string
		servers, rounds int
		long            bool
	}{
		{"1Msamples", 5000, 200, false},
		{"100Msamples", 5000, 20_000, true},
		{"5000servers-30days", 5000, 21_600, true},
	} {
		for _, kind := range []string{"mem", "pebble"} {
			b.Run(size.name+"/"+kind, func(b *testing.B) {
				if size.long && os.Getenv("GLEANER_LONG") == "" {
					b.Skip("set GLEANER_LONG=1 for the long benchmarks")
				}
				samples, cpu := size.servers*size.rounds, 0.0
				for b.Loop() {
					b.StopTimer()
					feed := newFeed(size.servers, size.rounds)
					dir := filepath.Join(b.TempDir(), "data")
					store := openStore(b, kind, dir)
					runtime.GC()
					before := cpuSeconds()
					b.StartTimer()
					s := importAll(b, store, feed)
					b.StopTimer()
					cpu += cpuSeconds() - before
					b.ReportMetric(float64(held(b, s))/float64(samples), "B/sample")
					store.Close()
					b.StartTimer()
				}
				b.ReportMetric(float64(samples)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
				b.ReportMetric(float64(samples)*float64(b.N)/cpu, "samples/cpu-s")
				b.ReportMetric(peakMiB(), "peak-MiB")
			})
		}
	}
}

func openStore(tb testing.TB, kind, dir string) kv.Store {
	if kind == "mem" {
		return mem.New()
	}
	store, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

func held(tb testing.TB, s *Store) int64 {
	all, err := s.Summaries(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	total := int64(0)
	for _, sum := range all {
		total += sum.Bytes
	}
	return total
}

// peakMiB is the most memory this process has had, 0 where the system does not tell.
func peakMiB() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib float64
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return kib / 1024
		}
	}
	return 0
}

// cpuSeconds is the time this process has had on any core, which a busy machine
// does not stretch; 0 where the system does not tell.
func cpuSeconds() float64 {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	var user, system float64
	_, err = fmt.Sscanf(fields, "%s %s %s %s %s %s %s %s %s %s %s %f %f", new(string), new(string), new(string), new(string), new(string),
		new(string), new(string), new(string), new(string), new(string), new(string), &user, &system)
	if err != nil {
		return 0
	}
	return (user + system) / 100 // ticks
}

// BenchmarkTenants gives 500 tenants of ten servers over the last day.
func BenchmarkTenants(b *testing.B) {
	const servers, rounds = 5000, 720
	s := importAll(b, mem.New(), newFeed(servers, rounds))
	w := cluster.Window{From: time.Unix(feedStart, 0), Step: 2 * time.Minute, Len: rounds}
	b.Run("5000servers-1day", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Window(context.Background(), w); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(servers*rounds)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
	})
}

// BenchmarkReadSamples is the reader alone.
func BenchmarkReadSamples(b *testing.B) {
	b.Run("1Msamples", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			feed := newFeed(5000, 200)
			b.StartTimer()
			if _, err := ReadSamples("feed", feed, ReadOptions{}, func(Sample) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
	})
}

// BenchmarkLastWindow gives the window to learn from, as 'gleaner classify' asks
// for it: it chooses the window and reads it. The month runs with GLEANER_LONG=1.
func BenchmarkLastWindow(b *testing.B) {
	for _, size := range []struct {
		name            string
		servers, rounds int
		long            bool
	}{
		{"500servers-2days", 500, 1440, false},
		{"5000servers-30days", 5000, 21_600, true},
	} {
		b.Run(size.name, func(b *testing.B) {
			if size.long && os.Getenv("GLEANER_LONG") == "" {
				b.Skip("set GLEANER_LONG=1 for the long benchmarks")
			}
			store := openStore(b, "pebble", filepath.Join(b.TempDir(), "data"))
			defer store.Close()
			s := importAll(b, store, newFeed(size.servers, size.rounds))
			read, before := countReads(s), cpuSeconds()
			choosing, toChoose := 0.0, int64(0)
			for b.Loop() {
				cpu, bytes := cpuSeconds(), read.bytes
				w, _, err := s.LastWindow(b.Context(), Choice{Length: Month})
				check(b, err)
				choosing, toChoose = choosing+cpuSeconds()-cpu, toChoose+read.bytes-bytes
				n := 0
				for _, err := range s.Tenants(b.Context(), w) {
					check(b, err)
					n++
				}
				if n != size.servers || w.Len != size.rounds {
					b.Fatalf("%d tenants over %d slots", n, w.Len)
				}
			}
			b.ReportMetric(choosing/float64(b.N), "cpu-s-to-choose")
			b.ReportMetric((cpuSeconds()-before)/float64(b.N), "cpu-s")
			b.ReportMetric(float64(toChoose)/float64(b.N)/1e6, "MB-to-choose")
			b.ReportMetric(float64(read.bytes)/float64(b.N)/1e6, "MB-read")
		})
	}
}

// reads counts what scans yield.
type reads struct {
	bytes  int64
	chunks int64 // of samples
}

type countedTable struct {
	kv.LooseTable
	reads  *reads
	chunks int64 // in a record
}

// countReads counts what is read of a store from now on.
func countReads(s *Store) *reads {
	r := new(reads)
	s.samples = countedTable{s.samples, r, 1}
	s.headers = countedTable{s.headers, r, 0}
	s.servers = countedTable{s.servers, r, 0}
	return r
}

func (t countedTable) Scan(ctx context.Context, in kv.Range) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		for r, err := range t.LooseTable.Scan(ctx, in) {
			t.reads.bytes += int64(len(r.Key.Part) + len(r.Key.Row) + len(r.Value))
			t.reads.chunks += t.chunks
			if !yield(r, err) {
				return
			}
		}
	}
}
