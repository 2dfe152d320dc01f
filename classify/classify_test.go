package classify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"gleaner/cluster"
)

// TestScenarios classifies small clusters described in testdata. A tenant is a
// line "name kind servers=N seed=N keep=share", of the kinds of truth_test.go.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			days, minutes := 28, 10
			d.MaybeScanArgs(t, "days", &days)
			d.MaybeScanArgs(t, "minutes", &minutes)
			w := cluster.Window{From: monday, Step: time.Duration(minutes) * time.Minute, Len: days * 1440 / minutes}
			var series []cluster.Series
			for line := range strings.Lines(d.Input) {
				series = append(series, described(t, w, line))
			}
			return table(Run(w, series, Options{Seed: 1}))
		})
	})
}

func described(t *testing.T, w cluster.Window, line string) cluster.Series {
	t.Helper()
	var name, what string
	var seed uint64
	var keep float64
	s := cluster.Series{}
	if _, err := fmt.Sscanf(line, "%s %s servers=%d seed=%d keep=%g", &name, &what, &s.Servers, &seed, &keep); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return strings.ReplaceAll(k.name, " ", "-") == what })
	if i < 0 {
		t.Fatalf("no kind %q", what)
	}
	s.Tenant, s.CPU = cluster.TenantID(name), generateOver(kinds[i], w, seed).cpu
	for i := int(keep * float64(w.Len)); i < w.Len; i++ {
		s.CPU[i] = float32(math.NaN())
	}
	return s
}

func table(r Result) string {
	var out strings.Builder
	for _, c := range r.Classes {
		fmt.Fprintf(&out, "%s: %d servers, mean %.2f, peak %.2f", c.ID, c.Servers, c.Mean, c.Peak)
		if c.Period > 0 {
			fmt.Fprintf(&out, ", every %s", c.Period.Round(time.Minute))
		}
		out.WriteString("\n")
		for _, t := range r.Tenants {
			if t.Class == c.ID {
				fmt.Fprintf(&out, "  %s: %s\n", t.ID, t.Evidence.Why())
			}
		}
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&out, "skipped %s: %s\n", s.ID, s.Reason)
	}
	return out.String()
}

// mixed is a cluster of one tenant of every kind a few times over.
func mixed(times int) (cluster.Window, []cluster.Series) {
	w := cluster.Window{From: monday, Step: 20 * time.Minute, Len: 28 * 72}
	var series []cluster.Series
	for i := range times * len(kinds) {
		id := cluster.TenantID(fmt.Sprintf("t%03d", i))
		series = append(series, cluster.Series{Tenant: id, Servers: 1 + i%7, CPU: generateOver(kinds[i%len(kinds)], w, uint64(i)).cpu})
	}
	return w, series
}

func TestOrderDoesNotMatter(t *testing.T) {
	w, series := mixed(4)
	want := Run(w, series, Options{Seed: 9})
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(series), func(i, j int) { series[i], series[j] = series[j], series[i] })
	if got := Run(w, series, Options{Seed: 9}); !reflect.DeepEqual(got, want) {
		t.Error("the same tenants in another order are classified differently")
	}
}

// TestClassesCoverTenants: every tenant that was judged is in one class of its
// pattern, and every class lists its members and has a mean between theirs.
func TestClassesCoverTenants(t *testing.T) {
	w, series := mixed(4)
	r := Run(w, series, Options{MaxClasses: 3})
	if len(r.Tenants)+len(r.Skipped) != len(series) {
		t.Fatalf("%d tenants and %d skipped of %d", len(r.Tenants), len(r.Skipped), len(series))
	}
	for _, c := range r.Classes {
		servers, low, high := 0, math.Inf(1), 0.0
		var members []cluster.TenantID
		for _, x := range r.Tenants {
			if x.Class != c.ID {
				continue
			}
			members = append(members, x.ID)
			servers += x.Servers
			low, high = min(low, x.Mean), max(high, x.Mean)
			if x.Pattern != c.Pattern {
				t.Errorf("%s is %s in %s", x.ID, x.Pattern, c.ID)
			}
		}
		if !slices.Equal(members, c.Tenants) || servers != c.Servers {
			t.Errorf("%s: %d servers of %v, its tenants say %d of %v", c.ID, c.Servers, c.Tenants, servers, members)
		}
		if c.Mean < low || c.Mean > high || c.Peak < high || c.Peak > 1 {
			t.Errorf("%s: mean %.3f of %.3f..%.3f, peak %.3f", c.ID, c.Mean, low, high, c.Peak)
		}
	}
	for _, p := range cluster.Patterns {
		n := 0
		for _, c := range r.Classes {
			if c.Pattern == p {
				n++
			}
		}
		if n < 1 || n > 3 {
			t.Errorf("%d %s classes, want 1 to 3", n, p)
		}
	}
}

// TestPeakIncludesShortJobs: load that fills less than 1% of the time but comes
// in every cycle is part of the peak, also if it pauses at weekends.
func TestPeakIncludesShortJobs(t *testing.T) {
	w := cluster.Window{From: monday, Step: 5 * time.Minute, Len: 28 * 288}
	for _, workdays := range []int{7, 5} {
		cpu := make([]float32, w.Len)
		for i := range cpu {
			cpu[i] = 0.1
			if i%288 >= 100 && i%288 < 102 && i/288%7 < workdays {
				cpu[i] = 0.7
			}
		}
		r := Run(w, []cluster.Series{{Tenant: "backup", Servers: 1, CPU: cpu}}, Options{})
		if x := r.Tenants[0]; x.Pattern != cluster.Periodic || x.Period != day || math.Abs(x.Peak-0.7) > 0.001 {
			t.Errorf("%d days a week: %s of %s, peak %.2f, want 0.70: %s", workdays, x.Pattern, x.Period, x.Peak, x.Evidence.Why())
		}
		if c := r.Classes[0]; math.Abs(c.Peak-0.7) > 0.001 {
			t.Errorf("%d days a week: the class peaks at %.2f, want 0.70", workdays, c.Peak)
		}
	}
}

// TestShortPeriods: a period of few bins is found from the samples, and one of
// fewer than four samples is not reported.
func TestShortPeriods(t *testing.T) {
	w := cluster.Window{From: monday, Step: 5 * time.Minute, Len: 30 * 288}
	for samples, want := range map[int]time.Duration{3: 0, 6: 30 * time.Minute, 9: 45 * time.Minute, 12: time.Hour} {
		c := newChance(uint64(samples))
		cpu := make([]float32, w.Len)
		for i := range cpu {
			cpu[i] = float32(0.2 + 0.02*c.NormFloat64())
			if i%samples < samples/3 {
				cpu[i] += 0.5
			}
		}
		r := Run(w, []cluster.Series{{Tenant: "poller", Servers: 1, CPU: cpu}}, Options{})
		if got := r.Tenants[0]; got.Period != want {
			t.Errorf("%d samples a cycle: %s of %s, want %s: %s", samples, got.Pattern, got.Period, want, got.Evidence.Why())
		}
	}
}

func TestNothingToClassify(t *testing.T) {
	if r := Run(cluster.Window{}, nil, Options{}); len(r.Tenants)+len(r.Classes)+len(r.Skipped) > 0 {
		t.Errorf("nothing gave %+v", r)
	}
	r := Run(cluster.Window{Step: time.Minute}, []cluster.Series{{Tenant: "a"}}, Options{})
	if len(r.Skipped) != 1 || r.Skipped[0].Reason != "no samples" {
		t.Errorf("an empty window gave %+v", r)
	}
}

// TestEvidenceIsFinite: series without noise cause no division by zero.
func TestEvidenceIsFinite(t *testing.T) {
	w := cluster.Window{From: monday, Step: 5 * time.Minute, Len: 21 * 288}
	for _, tc := range []struct {
		name string
		want cluster.Pattern
		at   func(i int) float64
	}{
		{"idle", cluster.Constant, func(int) float64 { return 0 }},
		{"full", cluster.Constant, func(int) float64 { return 1 }},
		{"level", cluster.Constant, func(int) float64 { return 0.3 }},
		{"one spike", cluster.Constant, func(i int) float64 { return float64(max(0, 1-(i-3000)*(i-3000))) }},
		{"sine", cluster.Periodic, func(i int) float64 { return 0.5 + 0.5*math.Sin(2*math.Pi*float64(i)/288) }},
		{"ramp", cluster.Unpredictable, func(i int) float64 { return float64(i) / float64(w.Len) }},
	} {
		cpu := make([]float32, w.Len)
		for i := range cpu {
			cpu[i] = float32(tc.at(i))
		}
		p, e := judge(truth{window: w, cpu: cpu})
		if p != tc.want {
			t.Errorf("%s: %s: %s", tc.name, p, e.Why())
		}
		for _, v := range []float64{e.Cycles, e.Share, e.Steady, e.Swing, e.Drift, e.Bursts, e.Noise} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: %+v", tc.name, e)
			}
		}
	}
}

func TestSpectrumOfADay(t *testing.T) {
	w := cluster.Window{From: monday, Step: 2 * time.Minute, Len: 31 * 720}
	cpu := make([]float32, w.Len)
	for i := range cpu {
		cpu[i] = float32(0.5 + 0.2*math.Sin(2*math.Pi*float64(i)/720))
		if i%5 == 0 {
			cpu[i] = float32(math.NaN())
		}
	}
	cycles, strength := Spectrum(w, cpu)
	best := 0
	for i, s := range strength {
		if s > strength[best] {
			best = i
		}
	}
	if math.Abs(cycles[best]-31) > 0.01 || math.Abs(strength[best]-0.2) > 0.01 {
		t.Errorf("strongest at %.2f cycles per window with %.3f, want 31 (OSDI'16 Figure 1b) with 0.2", cycles[best], strength[best])
	}
}

func TestCarry(t *testing.T) {
	before := Result{
		Tenants: []Tenant{{ID: "a", Class: "constant-1", Pattern: cluster.Constant}, {ID: "b", Class: "periodic-1", Pattern: cluster.Periodic}, {ID: "gone", Class: "constant-1"}},
		Classes: []cluster.Class{{ID: "constant-1", Peak: 0.3}, {ID: "periodic-1", Peak: 0.5}},
	}
	next := Result{Tenants: []Tenant{{ID: "a", Pattern: cluster.Constant}, {ID: "b", Pattern: cluster.Unpredictable}, {ID: "new"}}}
	nan := float32(math.NaN())
	got := Carry(before, next, []cluster.Series{{Tenant: "a", CPU: []float32{0.1, 0.3, nan, 0.4}}, {Tenant: "b", CPU: []float32{0.5}}, {Tenant: "new", CPU: []float32{0.1}}})
	if want := (Carried{Tenants: 2, Kept: 1, Samples: 4, Under: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestMissingIsNeverInvented compares the bins with the samples themselves.
func TestMissingIsNeverInvented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpu := rapid.SliceOfN(rapid.OneOf(rapid.Float32Range(0, 1), rapid.Just(float32(math.NaN()))), 1, 3*maxBins).Draw(t, "cpu")
		w := cluster.Window{From: monday, Step: time.Minute, Len: len(cpu)}
		var b bins
		s := b.read(w, cpu)
		every, filled := perBin(w), 0
		for i, got := range b.value {
			var sum float64
			n := 0
			for _, v := range cpu[i*every : min((i+1)*every, len(cpu))] {
				if v == v {
					sum += float64(v)
					n++
				}
			}
			filled += n
			if want := sum / float64(n); 2*n < every || n == 0 {
				if got == got {
					t.Fatalf("bin %d has %d of %d samples and the value %g", i, n, every, got)
				}
			} else if math.Abs(got-want) > 1e-9 {
				t.Fatalf("bin %d is %g, want %g", i, got, want)
			}
		}
		if s.filled != filled {
			t.Fatalf("%d samples, want %d", s.filled, filled)
		}
	})
}
