package dilation

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func sure(x float64) Estimate { return Estimate{x, x, x, 1} }

// §4.2: FileComp takes 78.08 s alone and 123.67 s beside STD-CPU.
func TestFileCompIsProbed(t *testing.T) {
	p := Machine{1, 1}.Probed(0, 1, sure(123.67/78.08))
	near(t, "share of CPU", p.Mean, 0.58, 0.005)
}

// §5.2.1 and eq. 11: 3.34 for four applications is what (0.125, 0.875) gives,
// or (0.875, 0.125): without a hint, either root is possible.
func TestRootsOfThePaper(t *testing.T) {
	m := Machine{1, 1}
	more, less := m.Roots(4, sure(3.34375))
	near(t, "more", more.Mean, 0.875, 1e-9)
	near(t, "less", less.Mean, 0.125, 1e-9)
	near(t, "with a hint of little CPU", Nearer(more, less, 0.3).Mean, 0.125, 1e-9)
	near(t, "with a hint of much CPU", Nearer(more, less, 0.6).Mean, 0.875, 1e-9)
	// §4.2: what Algorithm 1 gave for varmail and fileserver, forwards and back.
	for _, p := range []float64{0.02, 0.10} {
		_, less := m.Roots(3, sure(1+2*(p*p+(1-p)*(1-p))))
		near(t, "share of CPU", less.Mean, p, 1e-9)
	}
}

func TestRootsRecoverTheVectorOfIdenticalJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Machine{rapid.IntRange(1, 8).Draw(t, "cores"), rapid.IntRange(1, 8).Draw(t, "disks")}
		n := rapid.IntRange(2, 9).Draw(t, "n")
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		jobs := make([]Vector, n)
		for j := range jobs {
			jobs[j] = Vector{p, 1 - p}
		}
		more, less := m.Roots(n, sure(m.Factors(jobs)[0]))
		// Where the roots meet, a change of λ by 1e-16 moves them by 1e-8.
		near(t, "the nearer root", Nearer(more, less, p).Mean, p, 1e-6)
	})
}

func TestRootsOutsideTheModel(t *testing.T) {
	more, less := Machine{1, 1}.Roots(2, sure(1.2)) // less than 1.5, which an even job is stretched by
	near(t, "too little: more", more.Mean, 0.5, 1e-12)
	near(t, "too little: less", less.Mean, 0.5, 1e-12)
	more, less = Machine{1, 1}.Roots(2, sure(2.3))
	near(t, "too much: more", more.Mean, 1, 1e-12)
	near(t, "too much: less", less.Mean, 0, 1e-12)
}

func TestAProbeRecoversAShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machines(t)
		p := vectors(t, m, 1, 1)[0]
		i := rapid.IntRange(0, len(m)-1).Draw(t, "resource")
		probe := make(Vector, len(m))
		probe[i] = 1
		n := rapid.IntRange(1, 4).Draw(t, "probes")
		jobs := []Vector{p}
		for range n {
			jobs = append(jobs, probe)
		}
		near(t, "share", m.Probed(i, n, sure(m.Factors(jobs)[0])).Mean, p[i], 1e-9)
	})
}

// Jobs that were each observed beside the probes, beside each other and beside
// copies of themselves are all recovered at once.
func TestRegressionRecoversVectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machines(t)
		hidden := vectors(t, m, 1, 3)
		known := make([]Vector, len(hidden))
		all := append([]Vector{}, hidden...)
		for i := range m {
			probe := make(Vector, len(m))
			probe[i] = 1
			known, all = append(known, probe), append(all, probe)
		}
		var seen []Observation
		see := func(job int, beside ...int) {
			factor := 1.0
			for _, o := range beside {
				factor += m.dot(all[job], all[o])
			}
			seen = append(seen, Observation{job, beside, factor})
		}
		for j := range hidden {
			for i := range m {
				see(j, len(hidden)+i)
			}
			see(j, j)
			see(j, 0, len(hidden))
		}
		for j, shares := range m.Fit(known, seen) {
			for i, e := range shares {
				near(t, "share", e.Mean, all[j][i], 1e-4)
				if !(e.Low <= e.Mean && e.Mean <= e.High) {
					t.Fatalf("%+v", e)
				}
			}
		}
	})
}

func TestWhatWasNotSeenHasNoBounds(t *testing.T) {
	got := Machine{1, 1}.Fit([]Vector{nil, {1, 0}}, []Observation{{0, []int{1}, 1.3}, {0, []int{1}, 1.32}, {0, []int{1}, 1.28}})
	near(t, "share of CPU", got[0][0].Mean, 0.3, 1e-6)
	if e := got[0][1]; e.Tight(0.4) {
		t.Errorf("nothing was said of the disk, yet %+v", e)
	}
}

// The bounds hold the true mean about as often as they say.
func TestBoundsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{3, 5, 12, 40} {
		held := 0
		for range 4000 {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = 7 + rng.NormFloat64()
			}
			if e := Estimated(xs); e.Low <= 7 && 7 <= e.High {
				held++
			}
		}
		near(t, "held", float64(held)/4000, 0.95, 0.015)
	}
	if e := Estimated([]float64{3}); e.Tight(1e9) || e.Mean != 3 {
		t.Errorf("one measurement: %+v", e)
	}
	if e := Estimated([]float64{3, 3, 3}); !e.Tight(0) || math.IsNaN(e.Low) {
		t.Errorf("three alike: %+v", e)
	}
}
