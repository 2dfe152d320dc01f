package datacenter

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/input"
)

func small(t *testing.T, seed uint64) *Datacenter {
	t.Helper()
	p, err := Find("DC-9")
	if err != nil {
		t.Fatal(err)
	}
	return Generate(p, Options{Servers: 300, Past: 3, Days: 2, Seed: seed})
}

func TestOneSeedGivesOneDatacenterOnAnyNumberOfCores(t *testing.T) {
	a := small(t, 7)
	before := runtime.GOMAXPROCS(1)
	b := small(t, 7)
	runtime.GOMAXPROCS(before)
	other := small(t, 8)
	if !slices.Equal(a.Servers, b.Servers) || !slices.Equal(a.Reimages, b.Reimages) {
		t.Error("servers or reimages differ with the same seed")
	}
	differs := false
	for server := range a.Servers {
		for slot := range a.Window.Len {
			if a.CPU(server, slot) != b.CPU(server, slot) {
				t.Fatalf("server %d slot %d: %v and %v", server, slot, a.CPU(server, slot), b.CPU(server, slot))
			}
			differs = differs || a.CPU(server, slot) != other.CPU(server, slot)
		}
	}
	if !differs || slices.Equal(a.Reimages, other.Reimages) {
		t.Error("another seed gives the same datacenter")
	}
}

func TestAnyNumberOfServersCanBeHad(t *testing.T) {
	for _, p := range Profiles() {
		for _, n := range []int{FewestServers, 77, 500} {
			if d := Generate(p, Options{Servers: n, Seed: 1}); len(d.Servers) != n {
				t.Errorf("%s with %d servers has %d", p.Name, n, len(d.Servers))
			}
		}
	}
}

func TestThePastEndsAndTheFutureBeginsAtNow(t *testing.T) {
	d := small(t, 1)
	if got := d.SlotAt(d.Now); got != 3*720 {
		t.Errorf("now is slot %d", got)
	}
	if d.Window.Len != 5*720 || !d.Window.To().Equal(d.Now.AddDate(0, 0, 2)) {
		t.Errorf("window %+v", d.Window)
	}
	first, last := d.Reimages[0].At, d.Reimages[len(d.Reimages)-1].At
	if first.Before(start(d)) || !last.Before(end(d).Add(time.Hour)) {
		t.Errorf("reimages from %v to %v", first, last)
	}
	if !slices.IsSortedFunc(d.Reimages, func(a, b Reimage) int { return a.At.Compare(b.At) }) {
		t.Error("reimages are not in order of time")
	}
}

func TestScalingMeetsItsTarget(t *testing.T) {
	d := small(t, 1)
	for _, method := range Scalings {
		last := 0.0
		for _, target := range []float64{0.1, 0.25, 0.45, 0.6, 0.8} {
			scaled, err := d.Scaled(method, target)
			if err != nil {
				t.Fatal(err)
			}
			if got := scaled.MeanCPU(); math.Abs(got-target) > 0.003 {
				t.Errorf("%s to %v: average %.4f", method, target, got)
			}
			if f := scaled.Scaling().Factor; f <= last {
				t.Errorf("%s to %v: factor %v is not above %v", method, target, f, last)
			} else {
				last = f
			}
		}
	}
	if d.Scaling() != nil {
		t.Error("scaling changed the original")
	}
}

// §6.1: roots make the higher utilisations change less than the lower ones.
func TestRootScalingSaturatesLess(t *testing.T) {
	d := small(t, 1)
	saturated := func(method string) (n int) {
		scaled, err := d.Scaled(method, 0.6)
		if err != nil {
			t.Fatal(err)
		}
		for server := range d.Servers {
			for slot := 0; slot < d.Window.Len; slot += 20 {
				if scaled.CPU(server, slot) >= 1 {
					n++
				}
			}
		}
		return n
	}
	if linear, root := saturated("linear"), saturated("root"); linear == 0 || root >= linear/10 {
		t.Errorf("saturated: %d by linear, %d by root", linear, root)
	}
}

func TestBadNamesAndTargets(t *testing.T) {
	if _, err := Find("DC-10"); !input.Is(err) || !strings.Contains(err.Error(), "DC-9") {
		t.Errorf("Find: %v", err)
	}
	d := small(t, 1)
	for _, tc := range []struct {
		method string
		target float64
	}{{"cube", 0.5}, {"linear", 0}, {"linear", 1}, {"root", -1}, {"root", math.NaN()}} {
		if _, err := d.Scaled(tc.method, tc.target); !input.Is(err) {
			t.Errorf("Scaled(%q, %v): %v", tc.method, tc.target, err)
		}
	}
}

func TestARecordedHistoryIsADatacenterToo(t *testing.T) {
	gap := float32(math.NaN())
	d := New("recorded", cluster.Window{From: now, Step: 5 * time.Minute, Len: 3}, now.Add(5*time.Minute))
	d.Add(cluster.Server{ID: "a"}, []float32{gap, 0.25, 0.75})
	d.Add(cluster.Server{ID: "b", Environment: "e", Function: "f"}, []float32{0.5, gap, 1})
	d.Add(cluster.Server{ID: "c", Environment: "e", Function: "f"}, []float32{0.1, 0.3, 0})
	d.Reimages = []Reimage{{At: now, Server: 2}}
	for server, want := range [][]float32{{0, 0.25, 0.75}, {0.5, 0.5, 1}, {0.1, 0.3, 0}} {
		for slot, u := range want {
			if got := d.CPU(server, slot); math.Abs(float64(got-u)) > 1e-4 {
				t.Errorf("server %d slot %d: %v, not %v", server, slot, got, u)
			}
		}
	}
	if peaks := d.Peaks(0, 2); len(d.Tenants) != 2 || math.Abs(peaks[0]-0.25) > 1e-4 || math.Abs(peaks[1]-0.4) > 1e-4 {
		t.Errorf("%d tenants, peaks %v", len(d.Tenants), peaks)
	}
	if rates := d.ReimageRates(now, now.Add(2*Month)); rates[0] != 0 || math.Abs(rates[1]-0.25) > 1e-9 {
		t.Errorf("rates %v", rates)
	}
	tenant := d.Series(0, 3)[1]
	for slot, u := range []float32{0.3, 0.4, 0.5} {
		if got := tenant.CPU[slot]; tenant.Servers != 2 || math.Abs(float64(got-u)) > 1e-4 {
			t.Errorf("the average of %d servers in slot %d: %v, not %v", tenant.Servers, slot, got, u)
		}
	}
}

// Servers that are busy in turn can be half busy on average at any time, but are
// never half busy themselves.
func TestScalingWorksOnServersNotOnTheirAverage(t *testing.T) {
	d := New("in turn", cluster.Window{From: now, Step: 5 * time.Minute, Len: 62}, now)
	for server := range 2 {
		cpu := make([]float32, 62)
		for slot := range cpu {
			cpu[slot] = 0.1
			if slot%2 == server {
				cpu[slot] = 0.9
			}
		}
		d.Add(cluster.Server{ID: cluster.ServerID('a' + rune(server)), Environment: "e", Function: "f"}, cpu)
	}
	scaled, err := d.Scaled("linear", 0.75)
	if err != nil {
		t.Fatal(err)
	}
	// The busy one saturates at 1, so the idle one has to reach 0.5.
	for server := range 2 {
		for slot := range 62 {
			want := 0.5
			if slot%2 == server {
				want = 1
			}
			if got := scaled.CPU(server, slot); math.Abs(float64(got)-want) > 0.01 {
				t.Fatalf("server %d slot %d: %v, not %v", server, slot, got, want)
			}
		}
	}
}

func TestApportionKeepsTheTotalAndTheBounds(t *testing.T) {
	for _, tc := range []struct {
		total, least, most int
		weights            []float64
		want               []int
	}{
		{10, 1, 10, []float64{1, 1, 2}, []int{2, 2, 6}},
		{10, 1, 4, []float64{1, 1, 8}, []int{3, 3, 4}},
		{3, 1, 3, []float64{100, 1, 1}, []int{1, 1, 1}},
	} {
		got := apportion(tc.total, tc.weights, tc.least, tc.most)
		sum := 0
		for _, n := range got {
			sum += n
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if sum != tc.total || !slices.Equal(got, tc.want) {
			t.Errorf("apportion(%d, %v): %v, want %v", tc.total, tc.weights, got, tc.want)
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	p, _ := Find("DC-9")
	b.Run("5000servers_31days", func(b *testing.B) {
		for b.Loop() {
			Generate(p, Options{Past: 31, Seed: 1})
		}
	})
}

func BenchmarkCPU(b *testing.B) {
	p, _ := Find("DC-9")
	d := Generate(p, Options{Past: 31, Seed: 1})
	for _, method := range Scalings {
		scaled, err := d.Scaled(method, 0.45)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("5000servers_"+method, func(b *testing.B) {
			server, slot := 0, 0
			for b.Loop() {
				scaled.CPU(server, slot)
				if server++; server == len(d.Servers) {
					server, slot = 0, (slot+1)%d.Window.Len
				}
			}
		})
	}
}
