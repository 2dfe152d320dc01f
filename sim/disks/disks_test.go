package disks

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Table 1 of FAST'12 gives operations a second; they are those of requests so small
// that only the gap counts.
func TestServiceIsThatOfTable1(t *testing.T) {
	for _, tc := range []struct {
		kind        Kind
		read, write float64 // operations a second
		mb          float64 // a second of large reads
	}{{HDD(), 125, 125, 90}, {FastHDD(), 285, 285, 150}, {SSD(), 2500, 1000, 250}} {
		read, write := 1/tc.kind.Service(0, false).Seconds(), 1/tc.kind.Service(0, true).Seconds()
		large := 1e3 / tc.kind.Service(1e9, false).Seconds()
		if math.Abs(read/tc.read-1) > 1e-3 || math.Abs(write/tc.write-1) > 1e-3 || math.Abs(large/tc.mb-1) > 0.01 {
			t.Errorf("%s: %.1f reads/s, %.1f writes/s, %.1f MB/s, want %v, %v, %v", tc.kind.Name, read, write, large, tc.read, tc.write, tc.mb)
		}
	}
	// The paper's own example: 200 KB photos from a 15K disk, about 40 MB/s.
	if mb := 0.2 / FastHDD().Service(200e3, false).Seconds(); mb < 40 || mb > 42 {
		t.Errorf("200 KB reads: %.1f MB/s", mb)
	}
}

// Requests of one size that arrive at random wait ρs/2(1-ρ) on average (M/D/1).
func TestMeanWaitIsThatOfMD1(t *testing.T) {
	const size, requests = 8192, 2_000_000
	for _, kind := range []Kind{SSD(), HDD()} {
		for _, load := range []float64{0.2, 0.5, 0.8} {
			rng := rand.New(rand.NewPCG(1, 0))
			d := Disk{Kind: kind}
			service := kind.Service(size, false).Seconds()
			at, wait := 0.0, 0.0
			for range requests {
				at += rng.ExpFloat64() * service / load
				arrives := time.Duration(at * 1e9)
				wait += ((d.Do(arrives, size, false) - arrives).Seconds() - service) / requests
			}
			want := load * service / (2 * (1 - load))
			if math.Abs(wait/want-1) > 0.02 {
				t.Errorf("%s at %.0f%%: mean wait %.4f ms, want %.4f", kind.Name, 100*load, 1e3*wait, 1e3*want)
			}
			if busy := d.Busy.Seconds() / at; math.Abs(busy/load-1) > 0.01 {
				t.Errorf("%s: busy %.3f, want %.1f", kind.Name, busy, load)
			}
		}
	}
}

// Offered twice what it can do, a disk serves its saturation rate, and is as much
// behind as time has passed.
func TestSaturation(t *testing.T) {
	const size = 32768
	d := Disk{Kind: HDD()}
	service := HDD().Service(size, true)
	served, last := 0, time.Duration(0)
	const long = 100 * time.Second
	for at := time.Duration(0); at < long; at += service / 2 {
		last = d.Do(at, size, true)
		if last <= long {
			served++
		}
	}
	if rate, most := float64(served)/long.Seconds(), 1/service.Seconds(); math.Abs(rate/most-1) > 1e-3 {
		t.Errorf("%.2f requests/s, saturation is at %.2f", rate, most)
	}
	if behind := d.Backlog(long); math.Abs(behind.Seconds()/long.Seconds()-1) > 1e-2 {
		t.Errorf("%v behind after %v, want as much again", behind, long)
	}
	if d.Backlog(last) != 0 {
		t.Error("behind after the last request")
	}
}

func TestSpace(t *testing.T) {
	d := Disk{Kind: SSD()}
	if !d.Take(31e9) || d.Take(2e9) || !d.Take(1e9) || d.Used != 32e9 {
		t.Errorf("%d bytes used", d.Used)
	}
	d.Give(2e9)
	if !d.Take(2e9) {
		t.Error("what was given back cannot be taken")
	}
}

func TestTimeDoesNotGoBack(t *testing.T) {
	d := Disk{Kind: SSD()}
	d.Do(time.Second, 1, false)
	defer func() {
		if recover() == nil {
			t.Error("a request from the past was served")
		}
	}()
	d.Do(time.Second-1, 1, false)
}

func BenchmarkDo(b *testing.B) {
	d := Disk{Kind: SSD()}
	for i := range b.N {
		d.Do(time.Duration(i)*time.Millisecond, 8192, i%2 == 0)
	}
}
