package argument

import (
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/intern"
	"gleaner/trace/program"
)

// Compare goes through a run and visits every call with the number of its
// arguments whose value the rules give.
func (s *Rules) Compare(r *corpus.Recording, visit func(c *corpus.Call, matched int)) {
	e := newEvaluator(s)
	for _, args := range s.of {
		for _, a := range args {
			for _, sl := range a.slots() {
				e.learn(sl)
			}
		}
	}
	e.flows.Walk(r, func(i int32) {
		call, matched := &r.Calls[i], 0
		if call.Site != corpus.NoSite {
			for pos, p := range s.sites.All[call.Site].Plan(s.c, call.Request.Shape) {
				if args := s.of[call.Site]; int(p.Arg) < len(args) && args[p.Arg].predicted(e, flow.Occ{In: r, Call: i, Pos: int32(pos), Star: p.Star}) {
					matched++
				}
			}
		}
		visit(call, matched)
	})
}

// predicted reports whether the argument's rules give the value recorded.
func (a *arg) predicted(e *evaluator, o flow.Occ) bool {
	switch {
	case a.constant:
		return o.Raw() == a.value
	case a.whole == nil:
		return false
	case a.whole.solved != unknown || len(a.words) == 0 || a.class() == unknown && a.whole.guess != nil:
		return a.whole.predicted(e, o)
	}
	if intern.Separators(e.text(o.Raw())) != a.pattern {
		return false
	}
	for _, s := range a.words {
		if !s.predicted(e, o) {
			return false
		}
	}
	return true
}

func (s *slot) predicted(e *evaluator, o flow.Occ) bool {
	want, ok := s.value(e.rules.c, o)
	if !ok {
		return false
	}
	for i, r := range s.best() {
		switch r := r.(type) {
		case now:
			return r.meets(e.rules.c, o, want)
		case shuffled:
			return r.set[want]
		case taken:
			if r.AnyOrder() {
				if r.Among(e.flows, o, want) {
					return true
				}
				continue
			}
		}
		if got, known := e.at(o).Alt(e.said[s][i]); known {
			return program.Plain(got) == e.text(want)
		}
	}
	return false
}
