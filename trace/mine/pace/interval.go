package pace

import (
	"slices"
	"strconv"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// intervals are those before the calls of one site at one scale, sorted.
type intervals struct {
	scale int
	ms    []float64
}

// models are the ways in which an interval may follow the scale, the plainest
// first. Each makes a formula of what was seen from a few scales.
var models = []func(seen []intervals) program.Formula{steady, latest, growing}

// steady is one interval for all scales.
func steady(seen []intervals) program.Formula {
	var all []float64
	for _, s := range seen {
		all = append(all, s.ms...)
	}
	slices.Sort(all)
	return ladder.Constant(rounded(max(usual(all), 0)))
}

// rounded has four significant digits: recorded times have no more.
func rounded(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return v
}

// latest is the interval at the largest scale.
func latest(seen []intervals) program.Formula { return steady(seen[len(seen)-1:]) }

// growing is c0 + c1 * n^i * log2(n)^j (PatternMiner §III-B4), unless that falls to
// zero at twice the largest scale.
func growing(seen []intervals) program.Formula {
	var n, v []float64
	for _, s := range seen {
		n, v = append(n, float64(s.scale)), append(v, usual(s.ms))
	}
	f := ladder.Smooth(n, v)
	if f.Eval(program.Vars{program.N: 2 * n[len(n)-1]}) <= 0 {
		return latest(seen)
	}
	return f
}

// testScales is how many of the largest scales a model must predict. With one, a busy
// machine at that scale decides: 0.7% of Kubernetes' intervals are lost. With four, 0.2%
// of Hadoop's are gained and 0.2% of Kubernetes' are lost.
const testScales = 2

// predict takes the model that predicts the largest scales best from the smaller ones.
func predict(seen []intervals) program.Formula {
	best, most := models[0], -1
	for _, model := range models {
		hits := 0
		for k := max(1, len(seen)-testScales); k < len(seen); k++ {
			hits += near(seen[k].ms, model(seen[:k]).Eval(program.Vars{program.N: float64(seen[k].scale)}))
		}
		if hits > most {
			best, most = model, hits
		}
	}
	return best(seen)
}

// usual is the interval that most others are within 10% of. Unlike the median it does
// not change with the few that were delayed. Of very many intervals it tries a
// thousand: the densest part holds many of those.
func usual(sorted []float64) float64 {
	var best []float64
	most := 0
	for i := 0; i < len(sorted); i += 1 + len(sorted)/1000 {
		n := near(sorted, sorted[i])
		if n > most {
			best, most = nil, n
		}
		if n == most {
			best = append(best, sorted[i])
		}
	}
	return middle(best)
}

// near is how many intervals a predicted one is within 10% of: the measure of the
// check, and about what two runs on one machine differ.
func near(sorted []float64, predicted float64) int {
	from, _ := slices.BinarySearch(sorted, predicted/1.1)
	to, _ := slices.BinarySearchFunc(sorted, predicted/0.9, func(ms, limit float64) int {
		if ms <= limit {
			return -1
		}
		return 1
	})
	return max(0, to-from)
}

// A Share is a number of things out of all.
type Share struct{ Part, Of int }

// Repeat is how many intervals of a run are within 10% of the usual one before the
// same call in another run. A run compared with itself gives the most that one
// interval for each call can predict.
func Repeat(s *count.Sites, run, other *corpus.Recording) Share {
	want, got := byGap(s, other), byGap(s, run)
	var out Share
	for g, ms := range got {
		out.Of += len(ms)
		if len(want[g]) > 0 {
			out.Part += near(ms, usual(want[g]))
		}
	}
	return out
}

func byGap(s *count.Sites, r *corpus.Recording) map[Gap][]float64 {
	out := map[Gap][]float64{}
	EachGap(s, r, func(g Gap, ms float64) { out[g] = append(out[g], ms) })
	for _, ms := range out {
		slices.Sort(ms)
	}
	return out
}
