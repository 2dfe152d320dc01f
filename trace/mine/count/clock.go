package count

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// A follow is a count that follows the count of another site of the same type: twice
// as many status calls as polls, and four more.
type follow struct {
	site        *Site
	times, plus int
}

// findFollowers finds counts without a formula that follow another count in all
// runs. A site that the clock decides comes first.
func (s *Sites) findFollowers() {
	for _, st := range s.All {
		if st.Nature != Varying {
			continue
		}
		for _, want := range []Nature{Realtime, Varying} {
			for _, other := range s.All {
				if other.Kind != st.Kind || other == st || other.Nature != want || other.follows.site != nil || st.follows.site != nil {
					continue
				}
				if f, ok := inStep(st.Count.Points, other.Count.Points); ok && (want == Realtime || other.ID < st.ID) {
					f.site = other
					st.follows = f
				}
			}
		}
		if f := st.follows; f.site != nil && f.site.Nature == Realtime {
			st.Nature, st.Period = Realtime, f.site.Period/int64(f.times)
		}
	}
}

// inStep finds whole numbers with v = times*w + plus in all runs. Two numbers fit any
// two runs, so it takes four runs and three different counts. One run or one count
// less changes nothing in the recorded systems.
func inStep(v, w []ladder.Point) (follow, bool) {
	seen := map[int]bool{}
	for _, p := range w {
		seen[p.V] = true
	}
	if len(w) < 4 || len(seen) < 3 {
		return follow{}, false
	}
	low := slices.MinFunc(w, func(a, b ladder.Point) int { return cmp.Compare(a.V, b.V) })
	at := slices.Index(w, low)
	var f follow
	for i := range w {
		if dw := w[i].V - low.V; dw != 0 {
			f.times = (v[i].V - v[at].V) / dw
			break
		}
	}
	f.plus = v[at].V - f.times*low.V
	for i := range w {
		if v[i].V != f.times*w[i].V+f.plus {
			return follow{}, false
		}
	}
	return f, f.times > 0 && f.plus >= 0
}

// keepTime predicts a call that the clock decides: the time for which a node makes
// it, divided by the interval. The time is fitted to the scale, because it is not
// rounded as the count is.
func keepTime(st *Site, nodes Count, runs []*corpus.Recording) {
	var n, ms []float64
	var makers, all, repeats, total int64
	for i, r := range runs {
		all += int64(nodes.Points[i].V)
		if beats := beatsOf(r, st); beats.makers > 0 {
			makers += beats.makers
			repeats += beats.repeats
			total += beats.between
			n, ms = append(n, float64(r.Scale)), append(ms, float64(beats.lived)/float64(beats.makers)/1e6)
		}
	}
	if repeats == 0 || total == 0 {
		st.Count = perNode(st.Count, nodes)
		return
	}
	// The first call comes at the start, and half an interval is in the time already.
	each := fmt.Sprintf("0.5+(%s)/%s", ladder.Smooth(n, ms), ladder.Constant(float64(total)/float64(repeats)/1e6))
	if makers < all {
		each = fmt.Sprintf("(%s)*%.3f", each, float64(makers)/float64(all))
	}
	st.Count.Formula = product(each, nodes.Formula)
}

// beating sums up the regular calls of a site in one run.
type beating struct {
	makers, repeats int64
	between         int64 // from the first call to the last, in nanoseconds
	lived           int64 // the same, and on to the end of the run if the calls went on until then
}

func beatsOf(r *corpus.Recording, st *Site) beating {
	first, last := map[*corpus.Sender]int64{}, map[*corpus.Sender]int64{}
	var out beating
	for k := range r.Calls {
		c := &r.Calls[k]
		if c.Site != st.ID {
			continue
		}
		if _, ok := first[c.Sender]; !ok {
			first[c.Sender] = c.Start
			out.makers++
			out.repeats--
		}
		last[c.Sender] = c.Start
		out.repeats++
	}
	end := r.Calls[len(r.Calls)-1].Start
	for s, at := range last {
		out.between += at - first[s]
		rest := st.Period / 2
		if end-at < 2*st.Period { // one more call would have come, or was late
			rest = end - at
		}
		out.lived += at - first[s] + rest
	}
	return out
}

// perNode fits counts without a formula as calls for each node, because it is the
// number of nodes that grows.
func perNode(c Count, nodes Count) Count {
	if f, _, ok := AllButOne(c.Points); ok {
		c.Formula, c.nearly = f, true
		return c
	}
	var n, v []float64
	for i, p := range c.Points {
		if d := nodes.Points[i].V; d > 0 {
			n, v = append(n, float64(p.N)), append(v, float64(p.V)/float64(d))
		}
	}
	each := ladder.Smooth(n, v)
	if len(v) > 0 && slices.Max(v)-slices.Min(v) <= scatter(n, v) {
		each = ladder.Constant(mean(v)) // the scales differ no more than runs of one scale do
	}
	f := product(each.String(), nodes.Formula)
	if math.IsNaN(f.Eval(program.Vars{program.N: 10})) { // or at any other scale
		return Of(c.Points)
	}
	c.Formula = f
	return c
}

// product is a number for each node, times the nodes.
func product(each string, nodes program.Formula) program.Formula {
	if nodes.Is(1) {
		return program.MustFormula("%s", each)
	}
	return program.MustFormula("(%s)*(%s)", each, nodes)
}

// scatter is the largest difference between values at one scale.
func scatter(n, v []float64) float64 {
	out := 0.0
	for i := range v {
		for j := range i {
			if n[i] == n[j] {
				out = max(out, math.Abs(v[i]-v[j]))
			}
		}
	}
	return out
}

// leastRuns is how many runs it takes for one of them to be an exception: four that
// agree are one more than a line needs. With four, nothing changes in the recorded
// systems; with seven, a count of each is predicted wrong.
const leastRuns = 5

// AllButOne finds a line that meets all runs but one: chance made a
// difference once. If the exception is the largest run, it may be the first of many,
// and the formula keeps the difference.
func AllButOne(points []ladder.Point) (f program.Formula, odd int, ok bool) {
	if len(points) < leastRuns {
		return f, 0, false
	}
	for odd := range points {
		rest := slices.Delete(slices.Clone(points), odd, odd+1)
		forms := ladder.Exact(rest)
		if len(forms) == 0 || !forms[0].Line() {
			continue
		}
		f := forms[0]
		if p := points[odd]; largest(rest) < p.N {
			f = program.MustFormula("%s%+d", f, p.V-f.At(p.N))
			if f.Constant() {
				f = program.MustFormula("%d", p.V)
			}
		}
		return f, odd, true
	}
	return f, 0, false
}

func largest(points []ladder.Point) int {
	return slices.MaxFunc(points, func(a, b ladder.Point) int { return cmp.Compare(a.N, b.N) }).N
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
