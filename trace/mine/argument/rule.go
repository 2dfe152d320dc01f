package argument

import (
	"math"
	"strconv"
	"time"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// A rule is how the value of a slot is known.
type rule interface {
	// alt is the rule as a program says it, which is also how its values are computed.
	alt(m *Rules, a *arg) program.Alt
	class() class
}

// always gives one value.
type always struct{ v intern.Symbol }

func (r always) alt(m *Rules, _ *arg) program.Alt { return program.Const(m.c.Syms.Text[r.v]) }
func (r always) class() class                     { return constant }

// firstThen gives one value in a sender's first call of the site, another later.
type firstThen struct{ first, then intern.Symbol }

func (r firstThen) alt(m *Rules, _ *arg) program.Alt {
	return program.First{First: m.c.Syms.Text[r.first], Then: m.c.Syms.Text[r.then]}
}
func (r firstThen) class() class { return regular }

// scaled gives a formula of the scale.
type scaled struct{ f program.Formula }

func (r scaled) alt(*Rules, *arg) program.Alt { return program.Number{Formula: r.f} }
func (r scaled) class() class                 { return regular }

// A feature is a number that an occurrence's place gives.
type feature uint8

const (
	nth  feature = iota // how many calls of this site its sender made before
	node                // the sender's rank in its type
	item                // the index in a list
)

// features are their names in a program.
var features = [...]program.Variable{nth: program.I, node: program.Node, item: program.Item}

func (f feature) of(o flow.Occ) int64 {
	switch f {
	case nth:
		return int64(o.CallOf().Nth)
	case node:
		return int64(o.CallOf().Sender.Rank)
	}
	return int64(o.Star)
}

// affine gives a*floor(x/div)+b of a feature.
type affine struct {
	x    feature
	div  int64
	a, b int64
}

func (r affine) alt(*Rules, *arg) program.Alt { return program.Number{Formula: r.formula()} }
func (r affine) class() class                 { return regular }

// now gives the time of the call, in the format of the argument.
type now struct{ as program.TimeFormat }

func (r now) alt(*Rules, *arg) program.Alt { return program.Now{As: r.as} }
func (r now) class() class                 { return regular }

// near is how far from the start of its call a time may be and still be the time of
// the call: clocks of machines differ, and calls wait in queues. With one second, 17
// of Kubernetes' times are found elsewhere and 0.07% of its arguments are lost; four
// seconds find five more, but a time that comes from a reply a few seconds old
// passes as well.
const near = 2 * time.Second

// meets reports whether a value is the time of its call.
func (r now) meets(c *corpus.Corpus, o flow.Occ, v intern.Symbol) bool {
	at, ok := r.read(c.Syms.Text[v])
	return ok && math.Abs(float64(at-o.CallOf().Start)) <= float64(near)
}

func (r now) read(text string) (int64, bool) {
	if r.as == program.TimeRFC3339 {
		if len(text) < 20 || text[4] != '-' {
			return 0, false
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		return t.UnixNano(), err == nil
	}
	if r.as == program.TimeHexNS {
		v, err := strconv.ParseInt(text, 16, 64)
		return v, err == nil
	}
	unit := r.as.Unit()
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v <= 0 || v > math.MaxInt64/unit {
		return 0, false
	}
	return v * unit, true
}

// simple finds a rule that needs only the place of an occurrence. It is not sure of
// a rule that counts from a large number: a server hands out such numbers, and the
// reply that had it is the better rule. Nor of a plain number that counts calls: it
// may come from the reply before.
func (s *slot) simple(c *corpus.Corpus) (sure bool) {
	for _, try := range []func(*corpus.Corpus) rule{s.constantRule, s.addressRule, s.scaleRule, s.firstRule, s.affineRule, s.cycleRule, s.ringRule, s.timeRule} {
		if r := try(c); r != nil {
			s.rules, s.solved = []rule{r}, r.class()
			s.placed = true
			return !counter(r) && !s.echo(r)
		}
	}
	return false
}

// echo reports whether a rule counts calls in a plain number.
func (s *slot) echo(r rule) bool {
	a, ok := r.(affine)
	return ok && a.x == nth && s.word < 0 && s.arg.Kind == trace.Int
}

// counter reports whether a rule counts from a large number. Counts of a program
// start at 0 or 1, and servers number from 1000 or far above: half changes nothing
// in the recorded systems; with twice, nine identifiers of Hadoop are taken for
// counts.
func counter(r rule) bool {
	const large = 1000
	switch r := r.(type) {
	case affine:
		return r.b >= large
	case scaled:
		return r.f.Eval(nil) >= large
	}
	return false
}

func (s *slot) constantRule(c *corpus.Corpus) rule {
	first, ok := s.value(c, s.arg.occs[0])
	for _, o := range s.arg.occs {
		if v, found := s.value(c, o); !found || v != first {
			ok = false
			break
		}
	}
	if !ok {
		return nil
	}
	return always{first}
}

// addressRule finds the sender's own address: at a larger scale it is better known than
// what its last number counts.
func (s *slot) addressRule(c *corpus.Corpus) rule {
	for _, o := range s.arg.occs {
		v, ok := s.value(c, o)
		if at := o.CallOf().Sender.Address; !ok || at == intern.Empty || v != c.Syms.Canonical(at) {
			return nil
		}
	}
	return taken{flow.OwnAddress()}
}

// scaleRule finds one number in each run that follows the scale. Beyond 2^40 a
// number is an identifier or a time, and products in formulas would overflow.
func (s *slot) scaleRule(c *corpus.Corpus) rule {
	seen := map[*corpus.Recording]intern.Symbol{}
	var points []ladder.Point
	for _, o := range s.arg.occs {
		v, _ := s.value(c, o)
		before, ok := seen[o.In]
		if ok && before != v {
			return nil
		}
		if !ok {
			n, isNumber := c.Syms.Number(v)
			if !isNumber || o.In.Scale == 0 || n > 1<<40 || n < -1<<40 {
				return nil
			}
			seen[o.In] = v
			points = append(points, ladder.Point{N: o.In.Scale, V: int(n)})
		}
	}
	if forms := ladder.Exact(points); len(forms) > 0 {
		return scaled{forms[0]}
	}
	return nil
}

func (s *slot) firstRule(c *corpus.Corpus) rule {
	var r firstThen
	var firsts, thens int
	for _, o := range s.arg.occs {
		v, _ := s.value(c, o)
		kept, n := &r.then, &thens
		if o.CallOf().Nth == 0 {
			kept, n = &r.first, &firsts
		}
		if *n > 0 && *kept != v {
			return nil
		}
		*kept = v
		*n++
	}
	if firsts == 0 || thens < 2 {
		return nil
	}
	return r
}

// maxDivisor is how many calls in a row may have one number. Half or twice changes
// nothing in the recorded systems; replicas and retries come in twos and threes.
const maxDivisor = 4

func (s *slot) affineRule(c *corpus.Corpus) rule {
	values := make([]int64, len(s.arg.occs))
	for i, o := range s.arg.occs {
		v, ok := s.value(c, o)
		if !ok {
			return nil
		}
		if values[i], ok = c.Syms.Number(v); !ok {
			return nil
		}
	}
	for _, x := range []feature{nth, node, item} {
		for div := int64(1); div <= maxDivisor; div++ {
			if r, ok := fitAffine(x, div, s.arg.occs, values); ok {
				return r
			}
		}
	}
	return nil
}

// fitAffine finds the line through two occurrences and tries it on all. There is a
// line through any two, so a third place must be on it.
func fitAffine(x feature, div int64, occs []flow.Occ, values []int64) (affine, bool) {
	first := x.of(occs[0]) / div
	for i, o := range occs {
		dx := x.of(o)/div - first
		if dx == 0 {
			continue
		}
		r := affine{x: x, div: div, a: (values[i] - values[0]) / dx}
		r.b = values[0] - r.a*first
		third := false
		for j, p := range occs {
			at := x.of(p) / div
			if r.a*at+r.b != values[j] {
				return r, false
			}
			third = third || at != first && at != first+dx
		}
		return r, third && r.a != 0
	}
	return affine{}, false
}

// timeRule finds the time of the call, as a number or as a text. What calls at different times
// of a run all have is none, however soon they come after it: somebody told them.
func (s *slot) timeRule(c *corpus.Corpus) rule {
	formats := []program.TimeFormat{program.TimeNS, program.TimeUS, program.TimeMS, program.TimeS, program.TimeHexNS}
	if s.arg.Kind == trace.String && s.word < 0 {
		formats = append(formats, program.TimeRFC3339)
	}
	for _, as := range formats {
		unit := as.Unit()
		if as == program.TimeRFC3339 {
			unit = int64(time.Second) // often with no more
		}
		if s.arg.steady() && s.arg.drawnOut(unit) {
			continue
		}
		r, hits := now{as}, 0
		for _, o := range s.arg.occs {
			if v, ok := s.value(c, o); ok && r.meets(c, o, v) {
				hits++
			}
		}
		if float64(hits) >= (1-wrong)*float64(len(s.arg.occs)) {
			return r
		}
	}
	return nil
}
