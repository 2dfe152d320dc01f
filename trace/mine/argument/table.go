package argument

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// late finds rules for slots that neither their place nor an earlier call explains.
func (s *slot) late(c *corpus.Corpus, e *evaluator) {
	for _, try := range []func(*corpus.Corpus, *evaluator) rule{s.durationRule, s.sumRule, s.tableRule, s.shuffledRule, s.recentRule, s.usualRule} {
		if r := try(c, e); r != nil {
			s.rules, s.solved = []rule{r}, r.class()
			return
		}
	}
}

// A table gives a value for each value of something else: a feature of the place,
// or another argument.
type table struct {
	by   program.Case             // without its rows
	rows map[string]intern.Symbol // by key
	rest intern.Symbol            // the value for all other keys, if open
	open bool
}

// alt has a row for each case.
func (t table) alt(m *Rules, _ *arg) program.Alt {
	out := t.by
	for _, key := range slices.SortedFunc(maps.Keys(t.rows), intern.Natural) {
		out.Rows = append(out.Rows, program.Row{Key: key, Value: m.c.Syms.Text[t.rows[key]]})
	}
	if t.open {
		rest := m.c.Syms.Text[t.rest]
		out.Else = &rest
	}
	return out
}
func (t table) class() class { return regular }

// What a table takes to be no chance. Half or twice of each changes nothing in the
// recorded systems, where tables are small and clear.
const (
	maxRows       = 24 // cases; a program with more of them is too long to read
	maxExceptions = 4  // cases beside the common one
	callsPerRow   = 3  // on average: a table of single calls explains nothing
	fewCalls      = 20 // below that, one miss in twenty cannot be told from a wrong rule
)

// tableRule finds a table that gives the value in all runs.
func (s *slot) tableRule(c *corpus.Corpus, e *evaluator) rule {
	by := []program.Case{{Number: program.I}, {Number: program.Item}}
	for _, a := range s.arg.peers {
		varies := !a.constant && a.whole != nil || a.constant && a.count < s.arg.total
		if a != s.arg && varies && (a.Index < s.arg.Index || a.early()) {
			by = append(by, program.Case{Arg: a.Name})
		}
	}
	for _, b := range by {
		if t := (table{by: b, rows: map[string]intern.Symbol{}}); s.fits(t, c, e) {
			return t
		}
	}
	for _, b := range by[2:] {
		if t, ok := s.exceptions(table{by: b}, c, e); ok {
			return t
		}
	}
	return nil
}

// shuffled gives a list that has the same elements in every call, in any order (that
// of a hash table). The program has the most frequent order.
type shuffled struct {
	always
	set map[intern.Symbol]bool
}

func (r shuffled) class() class { return regular }

// shuffledRule finds lists whose elements have the same set of values in every call.
func (s *slot) shuffledRule(c *corpus.Corpus, _ *evaluator) rule {
	if s.word >= 0 || len(s.arg.occs) == 0 || s.arg.InList {
		return nil
	}
	r := shuffled{always: always{s.commonest(c)}}
	for _, o := range s.arg.occs {
		m := &o.CallOf().Request
		paths := c.Shapes.Paths[m.Shape]
		set := map[intern.Symbol]bool{}
		for pos, p := range paths {
			if c.Paths.Class[p] == c.Paths.Class[paths[o.Pos]] {
				set[m.Values[pos]] = true
			}
		}
		if r.set == nil {
			r.set = set
		}
		if len(set) < 2 || !maps.Equal(set, r.set) {
			return nil
		}
	}
	return r
}

// recentRule finds a time that the sender took earlier in the same run, or up to a
// minute before the first recorded call: processes start before they call. Half or
// twice of the minute changes nothing in the recorded systems.
func (s *slot) recentRule(c *corpus.Corpus, _ *evaluator) rule {
	for _, as := range []program.TimeFormat{program.TimeUS, program.TimeMS, program.TimeS} {
		r, ok := now{as}, true
		for _, o := range s.arg.occs {
			v, found := s.value(c, o)
			at, isTime := r.read(c.Syms.Text[v])
			began := o.In.Calls[0].Start - int64(time.Minute)
			if !found || !isTime || at < began || at > o.CallOf().Start+int64(near) {
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

// exceptions makes a table of the few cases in which the value is not the commonest
// one. Every case needs three calls, in two runs, and nearly all values must be
// right.
func (s *slot) exceptions(t table, c *corpus.Corpus, e *evaluator) (table, bool) {
	t.rest, t.open, t.rows = s.commonest(c), true, map[string]intern.Symbol{}
	counts, runs := map[string]map[intern.Symbol]int{}, map[string]map[*corpus.Recording]bool{}
	for _, o := range s.arg.occs {
		key, _ := e.at(o).Key(t.by)
		v, _ := s.value(c, o)
		if counts[key] == nil {
			counts[key], runs[key] = map[intern.Symbol]int{}, map[*corpus.Recording]bool{}
		}
		counts[key][v]++
		runs[key][o.In] = true
	}
	misses := 0
	for key, seen := range counts {
		best, all := t.rest, 0
		for v, n := range seen {
			if all += n; n > seen[best] || n == seen[best] && best != t.rest && v < best {
				best = v
			}
		}
		misses += all - seen[best]
		if best == t.rest {
			continue
		}
		t.rows[key] = best
		if all < 3 || len(runs[key]) < 2 || len(t.rows) > maxExceptions {
			return t, false
		}
	}
	return t, len(t.rows) > 0 && (misses == 0 || len(s.arg.occs) >= fewCalls && s.arg.rarely(misses, len(s.arg.occs)))
}

// fits fills a table. No two occurrences may disagree, and every row must be in two
// runs and in a third of all: rows that come with larger scales are no table.
func (s *slot) fits(t table, c *corpus.Corpus, e *evaluator) bool {
	runs, all := map[string]map[*corpus.Recording]bool{}, map[*corpus.Recording]bool{}
	for _, o := range s.arg.occs {
		key, _ := e.at(o).Key(t.by)
		v, found := s.value(c, o)
		if !found {
			return false
		}
		if before, known := t.rows[key]; known && before != v {
			return false
		}
		t.rows[key] = v
		if runs[key] == nil {
			runs[key] = map[*corpus.Recording]bool{}
		}
		runs[key][o.In] = true
		all[o.In] = true
		if len(t.rows) > maxRows {
			return false
		}
	}
	for _, in := range runs {
		if len(in) < 2 || len(in)*3 < len(all) {
			return false
		}
	}
	return len(t.rows) > 1 && len(s.arg.occs) >= callsPerRow*len(t.rows)
}

// A cycle counts a feature and starts again and again, as the index of an inner loop
// does.
type cycle struct {
	affine
	length program.Formula
}

func (r cycle) alt(*Rules, *arg) program.Alt { return program.Number{Formula: r.formula()} }

// cycleRule finds numbers that rise from call to call and start again after a number
// of calls that follows the scale.
func (s *slot) cycleRule(c *corpus.Corpus) rule {
	if s.arg.stride != 1 {
		return nil
	}
	var points []ladder.Point
	var first int64
	for i, o := range s.arg.occs {
		v, _ := s.value(c, o)
		n, ok := c.Syms.Number(v)
		if !ok {
			return nil
		}
		if i == 0 {
			first = n
		}
		if at := int64(o.CallOf().Nth); n == first && at > 0 && !slices.ContainsFunc(points, func(p ladder.Point) bool { return p.N == o.In.Scale }) {
			points = append(points, ladder.Point{N: o.In.Scale, V: int(at)})
		}
	}
	forms := ladder.Exact(points)
	if len(forms) == 0 {
		return nil
	}
	r := cycle{affine: affine{x: nth, div: 1, a: 1, b: first}, length: forms[0]}
	for _, o := range s.arg.occs {
		v, _ := s.value(c, o)
		n, _ := c.Syms.Number(v)
		length := int64(r.length.At(o.In.Scale))
		if length == 0 || int64(o.CallOf().Nth)%length+first != n {
			return nil
		}
	}
	return r
}

// usual gives the value that an argument nearly always has.
type usual struct{ always }

// usualRule finds one value that nearly all calls have. If only half of them have
// it, it is a guess.
func (s *slot) usualRule(c *corpus.Corpus, _ *evaluator) rule {
	best, count := s.commonest(c), 0
	for _, o := range s.arg.occs {
		if v, _ := s.value(c, o); v == best {
			count++
		}
	}
	if count*2 >= len(s.arg.occs) && s.guess == nil {
		s.guess = []rule{usual{always{best}}}
	}
	if !s.arg.rarely(len(s.arg.occs)-count, len(s.arg.occs)) || len(s.arg.occs) < fewCalls {
		return nil
	}
	return usual{always{best}}
}

// commonest is the value the slot had most often.
func (s *slot) commonest(c *corpus.Corpus) intern.Symbol {
	counts := map[intern.Symbol]int{}
	best := intern.Empty
	for _, o := range s.arg.occs {
		v, _ := s.value(c, o)
		counts[v]++
		if counts[v] > counts[best] || counts[v] == counts[best] && v < best {
			best = v
		}
	}
	return best
}

// A sum gives a total plus or minus two other arguments: what is left of a total, a
// sum, or a difference.
type sum struct{ program.Sum }

func (r sum) alt(*Rules, *arg) program.Alt { return r.Sum }
func (r sum) class() class                 { return fromFlow }

// leastSums is how many calls must show a sum: with two signs and any total there
// are four sums through a single call. Half or twice changes nothing in the
// recorded systems.
const leastSums = 8

// sumRule finds arguments of one call that add up.
func (s *slot) sumRule(c *corpus.Corpus, e *evaluator) rule {
	if s.word >= 0 || s.arg.Kind != trace.Int || len(s.arg.occs) < leastSums {
		return nil
	}
	var terms []string
	for _, a := range s.arg.peers[:s.arg.Index] {
		if !a.constant && a.whole != nil && a.Kind == trace.Int {
			terms = append(terms, a.Name)
		}
	}
	for i, x := range terms {
		for _, y := range terms[:i] {
			for _, minus := range [][2]bool{{true, true}, {false, false}, {false, true}, {true, false}} {
				r := sum{program.Sum{Terms: []program.Term{{Minus: minus[0], Path: x}, {Minus: minus[1], Path: y}}}}
				if r.fitTotal(s, c, e) && s.holds(r, c, e) {
					return r
				}
			}
		}
	}
	return nil
}

// fitTotal finds the total: the one that fits most of a few occurrences.
func (r *sum) fitTotal(s *slot, c *corpus.Corpus, e *evaluator) bool {
	counts := map[int64]int{}
	few := s.arg.spread(3) // of each run: two could both be odd ones
	varies, first := false, int64(0)
	terms := program.Sum{Terms: r.Terms}
	for i, o := range few {
		v, _ := s.value(c, o)
		n, isNumber := c.Syms.Number(v)
		text, known := e.at(o).Alt(terms)
		at, err := strconv.ParseInt(text, 10, 64)
		if !isNumber || !known || err != nil {
			return false
		}
		if i == 0 {
			first = at
		}
		varies = varies || at != first
		if counts[n-at]++; counts[n-at] > counts[r.Total] {
			r.Total = n - at
		}
	}
	return varies && counts[r.Total]*2 > len(few)
}

// holds reports whether a rule gives nearly every value. One that gives more than
// half is kept as a guess.
func (s *slot) holds(r rule, c *corpus.Corpus, e *evaluator) bool {
	misses, alt := 0, r.alt(e.rules, s.arg)
	for _, o := range s.arg.occs {
		if want, _ := s.value(c, o); !e.gives(alt, o, want) {
			if misses++; misses*2 > len(s.arg.occs) {
				return false
			}
		}
	}
	if !s.arg.rarely(misses, len(s.arg.occs)) {
		s.guess = []rule{r}
		return false
	}
	return true
}

// A duration gives another argument, a number of seconds, as 7m30s.
type duration struct{ program.Span }

func (r duration) alt(*Rules, *arg) program.Alt { return r.Span }
func (r duration) class() class                 { return fromFlow }

func (s *slot) durationRule(c *corpus.Corpus, e *evaluator) rule {
	if s.word >= 0 {
		return nil
	}
	for _, a := range s.arg.peers {
		if a == s.arg || a.Index > s.arg.Index && a.class() != unknown {
			continue
		}
		r := duration{program.Span{Path: a.Name}}
		if !slices.ContainsFunc(s.arg.occs, func(o flow.Occ) bool {
			want, _ := s.value(c, o)
			return !e.gives(r.Span, o, want)
		}) {
			return r
		}
	}
	return nil
}
