package mine

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// late finds rules for slots that neither their place nor a flow explains.
func (s *slot) late(c *Corpus, e *evaluator) {
	for _, try := range []func(*Corpus, *evaluator) rule{s.durationRule, s.cycleRule, s.tableRule, s.usualRule} {
		if r := try(c, e); r != nil {
			s.rules, s.solved = []rule{r}, r.class()
			return
		}
	}
}

// A table gives the value that went with the same value of something else: a
// feature of the place, or another argument.
type table struct {
	by   int // an argument's index, or -1-feature
	rows map[symbol]symbol
}

func (t table) value(e *evaluator, o occ) (symbol, bool) {
	key, ok := t.key(e, o)
	if !ok {
		return 0, false
	}
	v, ok := t.rows[key]
	return v, ok
}
func (t table) class() class { return regular }

func (t table) key(e *evaluator, o occ) (symbol, bool) {
	if t.by < 0 {
		return e.number(feature(-1 - t.by).of(o)), true
	}
	return e.argument(o.callOf(), int32(t.by), o.star)
}

// maxRows is how many cases a table may tell apart.
const maxRows = 24

// tableRule finds something small that decides the value in all runs.
func (s *slot) tableRule(c *Corpus, e *evaluator) rule {
	by := []int{-1 - int(nth), -1 - int(item)}
	for _, a := range s.arg.site.args {
		if a != s.arg && !a.constant && a.whole != nil && (a.index < s.arg.index || a.class() != unknown) {
			by = append(by, a.index)
		}
	}
	for _, b := range by {
		if t := (table{by: b, rows: map[symbol]symbol{}}); s.fits(t, c, e) {
			return t
		}
	}
	return nil
}

// fits fills a table; every row must be there in more than one run, and no two
// occurrences may disagree.
func (s *slot) fits(t table, c *Corpus, e *evaluator) bool {
	runs := map[symbol]map[*Run]bool{}
	for _, o := range s.arg.occs {
		key, ok := t.key(e, o)
		v, found := s.value(c, o)
		if !ok || !found {
			return false
		}
		if before, known := t.rows[key]; known && before != v {
			return false
		}
		t.rows[key] = v
		if runs[key] == nil {
			runs[key] = map[*Run]bool{}
		}
		runs[key][o.run] = true
		if len(t.rows) > maxRows {
			return false
		}
	}
	for _, in := range runs {
		if len(in) < 2 {
			return false
		}
	}
	return len(t.rows) > 1
}

// A cycle counts a feature from the start again and again, as a loop does that
// is run several times.
type cycle struct {
	affine
	length program.Formula
}

func (r cycle) value(e *evaluator, o occ) (symbol, bool) {
	length := int64(r.length.At(o.run.Scale))
	if length == 0 {
		return 0, false
	}
	return e.number(r.a*(r.x.of(o)%length) + r.b), true
}

// cycleRule: numbers that rise from call to call and fall back after as many
// calls as the scale says.
func (s *slot) cycleRule(c *Corpus, _ *evaluator) rule {
	if s.arg.stride != 1 {
		return nil
	}
	var points []ladder.Point
	var first int64
	for i, o := range s.arg.occs {
		v, _ := s.value(c, o)
		n, ok := c.syms.number(v)
		if !ok {
			return nil
		}
		if i == 0 {
			first = n
		}
		if at := int64(o.callOf().nth); n == first && at > 0 && !slices.ContainsFunc(points, func(p ladder.Point) bool { return p.N == o.run.Scale }) {
			points = append(points, ladder.Point{N: o.run.Scale, V: int(at)})
		}
	}
	forms := ladder.Exact(points)
	if len(forms) == 0 {
		return nil
	}
	r := cycle{affine: affine{x: nth, div: 1, a: 1, b: first}, length: forms[0]}
	for _, o := range s.arg.occs {
		v, _ := s.value(c, o)
		n, _ := c.syms.number(v)
		length := int64(r.length.At(o.run.Scale))
		if length == 0 || int64(o.callOf().nth)%length+first != n {
			return nil
		}
	}
	return r
}

// usual gives the value that an argument nearly always has.
type usual struct{ always }

// usualRule: one value, but for a few calls in a hundred.
func (s *slot) usualRule(c *Corpus, _ *evaluator) rule {
	counts := map[symbol]int{}
	for _, o := range s.arg.occs {
		v, _ := s.value(c, o)
		counts[v]++
	}
	best := slices.MaxFunc(s.arg.occs, func(a, b occ) int {
		va, _ := s.value(c, a)
		vb, _ := s.value(c, b)
		return cmp.Or(cmp.Compare(counts[va], counts[vb]), cmp.Compare(vb, va))
	})
	v, _ := s.value(c, best)
	if counts[v]*100 < 95*len(s.arg.occs) || len(s.arg.occs) < 20 {
		return nil
	}
	return usual{always{v}}
}

// A duration spells another argument, a number of seconds, as 7m30s.
type duration struct{ arg int32 }

func (r duration) value(e *evaluator, o occ) (symbol, bool) {
	v, ok := e.argument(o.callOf(), r.arg, o.star)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(e.c.syms.text[v], 10, 32)
	if err != nil {
		return 0, false
	}
	return e.c.syms.id((time.Duration(n) * time.Second).String()), true
}
func (r duration) class() class { return flow }

func (s *slot) durationRule(c *Corpus, e *evaluator) rule {
	if s.word >= 0 {
		return nil
	}
	for _, a := range s.arg.site.args {
		if a == s.arg {
			continue
		}
		r, ok := duration{int32(a.index)}, true
		for _, o := range s.arg.occs {
			want, _ := s.value(c, o)
			if got, known := r.value(e, o); !known || got != want {
				ok = false
				break
			}
		}
		if ok {
			return r
		}
	}
	return nil
}
