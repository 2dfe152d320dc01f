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

// A follow ties the count of a site to that of another by the same type: twice
// as many status calls as polls, and four more.
type follow struct {
	site        *Site
	times, plus int
}

// findFollowers ties counts that no formula gives to others that vary in step
// with them in all runs, best to one that keeps time.
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

// inStep finds whole numbers with v = times*w + plus in all runs. It takes four
// runs and three different numbers to be more than a coincidence.
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

// keepTime predicts a call that follows the clock: a node makes it again and
// again for as long as it goes on. How long that is follows the scale, and is a
// measure where the count itself would be rounded.
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
	each := fmt.Sprintf("0.5+(%s)/%s", ladder.Smooth(n, ms), ladder.Constant(float64(total)/float64(repeats)/1e6))
	if makers < all {
		each = fmt.Sprintf("(%s)*%.3f", each, float64(makers)/float64(all))
	}
	st.Count.Formula = product(each, nodes.Formula)
}

// beating is how the senders of a run kept the time of a site, in all.
type beating struct {
	makers, repeats int64
	between         int64 // from the first call to the last, in nanoseconds
	lived           int64 // the same, and on to the end of the run where only that ended it
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
		if end-at < 2*st.Period {
			rest = end - at
		}
		out.lived += at - first[s] + rest
	}
	return out
}

// perNode fits counts that no formula meets as so many a node, because the
// number of nodes is what grows.
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
		each = ladder.Constant(mean(v)) // no more than chance does at one scale
	}
	f := product(each.String(), nodes.Formula)
	if math.IsNaN(f.Eval(program.Vars{"n": 10})) {
		return Of(c.Points)
	}
	c.Formula = f
	return c
}

// product is so many for each node.
func product(each string, nodes program.Formula) program.Formula {
	if nodes.String() == "1" {
		return program.MustFormula("%s", each)
	}
	return program.MustFormula("(%s)*(%s)", each, nodes)
}

// scatter is how far values at one scale lie apart.
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

// AllButOne is a plain formula that meets all runs but one: chance made a
// difference once. Where the odd one is the largest, it may as well be the first
// of many, and what it has more is kept.
func AllButOne(points []ladder.Point) (f program.Formula, odd int, ok bool) {
	if len(points) < 5 {
		return f, 0, false
	}
	for odd := range points {
		rest := slices.Delete(slices.Clone(points), odd, odd+1)
		forms := ladder.Exact(rest)
		if len(forms) == 0 || !Plain(forms[0]) {
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
