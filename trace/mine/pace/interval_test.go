package pace

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gleaner/trace/program"
)

// seenAt gives forty intervals at each scale, 2% around the value of the function of,
// with one in four delayed to up to three times as long.
func seenAt(of func(n int) float64, scales ...int) []intervals {
	chance := rand.New(rand.NewPCG(1, 2))
	var out []intervals
	for _, n := range scales {
		s := intervals{scale: n}
		for i := range 40 {
			ms := of(n) * (0.98 + 0.04*chance.Float64())
			if i%4 == 0 {
				ms *= 1 + 2*chance.Float64()
			}
			s.ms = append(s.ms, ms)
		}
		slices.Sort(s.ms)
		out = append(out, s)
	}
	return out
}

// TestPredict: growth is predicted if there is growth, and a step if it lasts; a delay by
// a busy machine at one scale is neither.
func TestPredict(t *testing.T) {
	for _, tc := range []struct {
		name string
		of   func(n int) float64
		want float64 // at n = 40
	}{
		{"the same", func(int) float64 { return 1000 }, 1000},
		{"a line", func(n int) float64 { return 20 * float64(n) }, 800},
		{"one scale on a busy machine", func(n int) float64 {
			if n == 12 {
				return 150
			}
			return 100
		}, 100},
		{"a step that stays", func(n int) float64 {
			if n < 8 {
				return 5
			}
			return 50
		}, 50},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := predict(seenAt(tc.of, 3, 4, 6, 8, 12, 16))
			if got := f.Eval(program.Vars{program.N: 40}); got < 0.95*tc.want || got > 1.05*tc.want {
				t.Errorf("%s is %.1f ms, want %.1f", f, got, tc.want)
			}
		})
	}
}

// TestNear: within 10% of what was recorded, not of what was predicted.
func TestNear(t *testing.T) {
	sorted := []float64{90, 91, 100, 111, 112}
	if got := near(sorted, 100); got != 3 {
		t.Errorf("%d of %v are within 10%% of 100, want 3", got, sorted)
	}
	if got := usual([]float64{50, 99, 100, 101, 300, 400, 500}); got != 100 {
		t.Errorf("%v is usual, want 100", got)
	}
}
