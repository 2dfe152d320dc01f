package argument

import (
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/intern"
	"gleaner/trace/program"
)

// taken is a value that an earlier call holds.
type taken struct{ flow.Source }

func (r taken) alt(m *Rules, a *arg) program.Alt { return r.Alt(m.sites, a.Site.Args) }

func (r taken) class() class {
	if r.Own() {
		return regular
	}
	return fromFlow
}

// samplesPerRun is how many occurrences of each run propose candidates. Two lose
// 0.7% of Hadoop's arguments and 0.3% of Kubernetes'; ten gain two of
// Hadoop's arguments.
const samplesPerRun = 5

// findFlows looks for the sources of the slots that are not known by place.
func (s *Rules) findFlows(slots []*slot, runs []*corpus.Recording) {
	questions := make([]*flow.Question, len(slots))
	for i, sl := range slots {
		questions[i] = sl.question(s.c)
	}
	var open, left []*slot
	searches := map[*slot]*flow.Search{}
	for i, se := range flow.Find(s.sites, questions, runs) {
		if searches[slots[i]] = se; !slots[i].accept(se.Answer()) {
			open = append(open, slots[i])
		}
	}
	for _, sl := range slots {
		sl.arg.preferWords()
		sl.instead(s, searches[sl])
	}
	var again []*flow.Search
	for _, sl := range open {
		// Where a rule gives each word of a text, that is better than any of many texts.
		if sl.arg.class() == unknown && searches[sl].SeldomTwice() {
			left, again = append(left, sl), append(again, searches[sl])
		}
	}
	flow.AnyOrder(s.sites, again, runs)
	for i, sl := range left {
		sl.accept(again[i].Answer())
	}
}

// question is the question where a slot's values come from.
func (s *slot) question(c *corpus.Corpus) *flow.Question {
	return &flow.Question{
		Occs: s.arg.occs, Samples: s.arg.spread(samplesPerRun),
		Value: func(o flow.Occ) (intern.Symbol, bool) { return s.value(c, o) },
		Key: func(arg int32, later bool) bool {
			a := s.arg.peers[arg]
			return !a.constant && !a.steady() && a != s.arg && (!later || a.early())
		},
	}
}

// preferWords drops the rules of a text that has several sources in turn, or none at
// first, if each of its words has one rule that has a value always.
func (a *arg) preferWords() {
	if len(a.words) == 0 || len(a.whole.rules) < 2 && !a.whole.unbegun || slices.ContainsFunc(a.words, func(w *slot) bool { return len(w.rules) != 1 || w.unbegun && a.whole.unbegun }) {
		return
	}
	a.whole.rules, a.whole.solved = nil, unknown
}

// instead finds another source for a value that comes from a reply of another target: in
// calls to the target of the call itself, which a replay that makes the call has.
func (s *slot) instead(m *Rules, se *flow.Search) {
	if len(s.rules) != 1 {
		return
	}
	target := func(id corpus.SiteID) string { return m.c.OpOf[m.sites.All[id].Op].Target }
	own := target(s.arg.Site.ID)
	first, ok := s.rules[0].(taken)
	if from, one := first.Site(); !ok || !one || !first.Reply() || target(from) == own {
		return
	}
	if src, ok := se.Also(func(src flow.Source) bool {
		from, one := src.Site()
		return one && from != s.arg.Site.ID && target(from) == own
	}); ok {
		s.also = []rule{taken{src}}
	}
}

// accept takes an answer, and reports whether it explains the slot. The sources must
// give half of the values to be a guess, and 90% to be rules: the first calls of a
// sender have no earlier call to take a value from. Less than 90% will do if only
// such first calls are left. With 80% two more arguments of Hadoop are explained,
// with 95% one less, and no value of the check changes.
func (s *slot) accept(a flow.Answer) bool {
	total := len(s.arg.occs)
	if a.Hits*2 < total {
		return false
	}
	var rules []rule
	for _, src := range a.Sources {
		rules = append(rules, taken{src})
	}
	if a.Closed {
		rules = append(rules, always{a.Rest})
	}
	s.guess = rules
	firsts := map[*corpus.Sender]bool{}
	for _, o := range s.arg.occs {
		firsts[o.CallOf().Sender] = true
	}
	if !s.arg.rarely(a.Misses, a.Hits+a.Misses) || a.Hits*10 < total*9 && (a.Left > len(firsts) || total < 3*len(firsts)) {
		return false
	}
	if s.placed && !counter(s.rules[0]) && !(a.Sources[0].Chained() && a.Misses == 0) {
		return true // the rule by its place is the better one
	}
	s.rules, s.solved, s.unbegun = rules, rules[0].class(), a.Left > 0
	return true
}
