package dilation

import (
	"math"
	"testing"
	"time"

	model "gleaner/dilation"
)

// Figure 4(b): FileComp beside STD-IO was measured at 105.50 s; the paper's
// estimate of 110.9 s is 5.1% off.
func TestErrorsAreCountedAsInThePaper(t *testing.T) {
	b := &Bench{Cores: 1}
	tr := &trial{Bench: b, loads: map[string]model.Vector{"filecomp": {0.58, 0.42}, "io": {0, 1}}, out: &Validation{}}
	second := func(s float64) []time.Duration { return []time.Duration{time.Duration(s * float64(time.Second))} }
	tr.compare(blend{"4", []part{{"filecomp", 1, 0}, {"io", 1, 0}}}, [][]time.Duration{second(78.08), second(200)}, [][]time.Duration{second(105.50), second(232.8)})
	tr.summarise()
	m := tr.out.Mixes[0]
	if got := m.Jobs[0].DFactorOff; math.Abs(got-0.051) > 0.001 {
		t.Errorf("FileComp is %.2f%% off, want 5.1%%", 100*got)
	}
	if m.Name() != "filecomp + io" || m.Jobs[0].Linear != 278.08 || m.DFactorOff >= m.LinearOff || tr.out.Better != 1 {
		t.Errorf("%s: %+v", m.Name(), m)
	}
	if got := tr.out.DFactorOff; math.Abs(got-m.DFactorOff) > 1e-12 {
		t.Errorf("mean %v of one mix that is %v off", got, m.DFactorOff)
	}
	if name := (&Mix{Jobs: []Row{{Job: "mail"}, {Job: "files"}, {Job: "mail"}}}).Name(); name != "2 mail + files" {
		t.Errorf("got %q", name)
	}
}

// No mix is predicted with a vector that was found by running that mix.
func TestMixesAreNotThoseProfiledWith(t *testing.T) {
	for _, m := range append(blends, withFio...) {
		same := true
		for _, p := range m.parts {
			same = same && p.work == m.parts[0].work && (p.work == "mail" || p.work == "files")
		}
		if same {
			t.Errorf("%+v are identical jobs, by which they were profiled", m)
		}
	}
}

func TestMedian(t *testing.T) {
	if got := median([]time.Duration{5, 1, 3}); got != 3 {
		t.Errorf("of three: %d", got)
	}
	if got := median([]time.Duration{4, 1, 2, 9}); got != 3 {
		t.Errorf("of four: %d", got)
	}
}
