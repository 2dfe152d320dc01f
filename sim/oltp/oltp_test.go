package oltp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gleaner/input"
)

func scaled(t *testing.T, name string) Workload {
	t.Helper()
	w, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	if w, err = w.Scaled(100, 100); err != nil {
		t.Fatal(err)
	}
	return w
}

// Every section of every workload has the rate, the reads, the sizes and the range
// that it says, and requests come in order of time.
func TestRequestsAreAsTheirSections(t *testing.T) {
	const long = 4 * Turn
	for _, name := range Names() {
		w := scaled(t, name)
		type seen struct{ n, reads, large, sequential float64 }
		got := make([]seen, len(w.Sections))
		head := make([]int64, len(w.Sections))
		stream, last := w.Requests(rand.New(rand.NewPCG(1, 0))), time.Duration(0)
		for r := stream.Next(); r.At < long; r = stream.Next() {
			if r.At < last {
				t.Fatalf("%s: %v after %v", name, r.At, last)
			}
			last = r.At
			i := slices.IndexFunc(w.Sections, func(s Section) bool {
				return s.VDisk == r.VDisk && r.Offset >= s.From && r.Offset+r.Size <= s.From+s.Size
			})
			if i < 0 {
				t.Fatalf("%s: %+v is in no section", name, r)
			}
			if r.Offset%mb+r.Size > mb {
				t.Fatalf("%s: %+v is not aligned", name, r)
			}
			s := w.Sections[i]
			if s.Part > 0 && s.Part != int(r.At/Turn)%2+1 {
				t.Fatalf("%s: %+v is not its part's turn", name, r)
			}
			got[i].n++
			if !r.Write {
				got[i].reads++
			}
			if r.Size != s.Small {
				got[i].large++
			}
			if r.Offset == head[i] {
				got[i].sequential++
			}
			if r.Offset == head[i] || r.Offset == 0 {
				head[i] = r.Offset + r.Size
			}
		}
		for i, s := range w.Sections {
			active := long.Seconds()
			if s.Part > 0 {
				active /= 2
			}
			want := s.Rate * active
			if math.Abs(got[i].n-want) > 5*math.Sqrt(want) {
				t.Errorf("%s section %d: %g requests, want %.0f", name, i, got[i].n, want)
			}
			n := got[i].n
			for what, share := range map[string][2]float64{"reads": {got[i].reads / n, s.Reads}, "large": {got[i].large / n, s.Larger}} {
				if math.Abs(share[0]-share[1]) > 5*math.Sqrt(share[1]*(1-share[1])/n) {
					t.Errorf("%s section %d: %s %.3f, want %.3f", name, i, what, share[0], share[1])
				}
			}
			if s.Random == 0 && got[i].sequential < 0.99*n {
				t.Errorf("%s section %d: %g of %g requests read on", name, i, got[i].sequential, n)
			}
		}
	}
}

func TestHotDataIsHot(t *testing.T) {
	w := scaled(t, "oltp-skewed")
	stream := w.Requests(rand.New(rand.NewPCG(1, 0)))
	hot, all := 0.0, 0.0
	for range 200_000 {
		if r := stream.Next(); r.VDisk == 0 {
			all++
			if r.Offset < w.Sections[0].Size/10 {
				hot++
			}
		}
	}
	if share := hot / all; math.Abs(share-0.9) > 0.005 {
		t.Errorf("%.3f of the reads go to a tenth of the data, want 0.9", share)
	}
}

func TestSameSeedSameRequests(t *testing.T) {
	for _, name := range Names() {
		w := scaled(t, name)
		a, b, c := w.Requests(rand.New(rand.NewPCG(5, 0))), w.Requests(rand.New(rand.NewPCG(5, 0))), w.Requests(rand.New(rand.NewPCG(6, 0)))
		differs := false
		for range 10_000 {
			x := a.Next()
			if y := b.Next(); x != y {
				t.Fatalf("%s: %+v and %+v", name, x, y)
			}
			differs = differs || x != c.Next()
		}
		if !differs {
			t.Errorf("%s: another seed gives the same", name)
		}
	}
}

func TestVDisks(t *testing.T) {
	w, err := Find("oltp-vdi")
	if err != nil {
		t.Fatal(err)
	}
	sizes := w.VDisks()
	if len(sizes) != 302 || sizes[0] != 1792*gb || sizes[1] != 16*gb || sizes[2] != 10*gb || sizes[301] != 10*gb {
		t.Errorf("%d vDisks: %v", len(sizes), sizes[:4])
	}
}

// Two copies of the three OLTP workloads are the 5 TB that the paper's cluster is left
// with when nothing is removed (§3.4.2).
func TestSizesAddUpToThePapers(t *testing.T) {
	sum := 0.0
	for _, name := range Names()[:3] {
		w, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range w.VDisks() {
			sum += 2 * float64(size) / 1e12
		}
	}
	if math.Abs(sum-5) > 0.05 {
		t.Errorf("%.2f TB", sum)
	}
}

func TestMistakes(t *testing.T) {
	if _, err := Find("olap"); err == nil || !input.Is(err) {
		t.Errorf("an unknown workload: %v", err)
	}
	w, _ := Find("oltp")
	for _, scale := range []float64{0, -1, math.NaN()} {
		if _, err := w.Scaled(scale, 1); err == nil || !input.Is(err) {
			t.Errorf("space 1:%g: %v", scale, err)
		}
		if _, err := w.Scaled(1, scale); err == nil || !input.Is(err) {
			t.Errorf("rate 1:%g: %v", scale, err)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	w, _ := Find("oltp-vdi")
	s := w.Requests(rand.New(rand.NewPCG(1, 0)))
	for b.Loop() {
		s.Next()
	}
}
