package argument

import (
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
)

// Compare walks through a run and visits every call with how many of its
// arguments have the value that the rules give.
func (s *Rules) Compare(r *corpus.Run, visit func(c *corpus.Call, matched int)) {
	e := newEvaluator(s.sites)
	for _, args := range s.of {
		for _, a := range args {
			for _, sl := range a.slots() {
				for _, rule := range sl.best() {
					if src, ok := rule.(source); ok {
						e.need(src)
					}
				}
			}
		}
	}
	e.walk(r, func(i int32) {
		call, matched := &r.Calls[i], 0
		if call.Site != corpus.NoSite {
			for pos, p := range s.sites.All[call.Site].Plan(s.c, call.Request.Shape) {
				if args := s.of[call.Site]; int(p.Arg) < len(args) && args[p.Arg].foretold(e, occ{r, i, int32(pos), p.Star}) {
					matched++
				}
			}
		}
		visit(call, matched)
	})
}

// foretold reports whether the argument's rules give the value recorded.
func (a *arg) foretold(e *evaluator, o occ) bool {
	switch {
	case a.constant:
		return o.raw() == a.value
	case a.whole == nil:
		return false
	case a.whole.solved != unknown || len(a.words) == 0 || a.class() == unknown && a.whole.guess != nil:
		return a.whole.foretold(e, o)
	}
	if intern.Separators(e.c.Syms.Text[o.raw()]) != a.pattern {
		return false
	}
	for _, s := range a.words {
		if !s.foretold(e, o) {
			return false
		}
	}
	return true
}

func (s *slot) foretold(e *evaluator, o occ) bool {
	want, ok := s.value(e.c, o)
	if !ok {
		return false
	}
	for _, r := range s.best() {
		if t, isTime := r.(now); isTime {
			return t.meets(e.c, o, want)
		}
		if set, isSet := r.(shuffled); isSet {
			return set.set[want]
		}
		if src, isSource := r.(source); isSource && src.sel == each {
			if src.among(e, o, want) {
				return true
			}
			continue
		}
		if v, known := r.value(e, o); known {
			return v == want
		}
	}
	return false
}
