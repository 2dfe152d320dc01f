package argument

import (
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/intern"
)

// Compare goes through a run and visits every call with the number of its
// arguments whose value the rules give.
func (s *Rules) Compare(r *corpus.Recording, visit func(c *corpus.Call, matched int)) {
	e := flow.New(s.sites)
	for _, args := range s.of {
		for _, a := range args {
			for _, sl := range a.slots() {
				for _, rule := range sl.best() {
					if src, ok := rule.(taken); ok {
						e.Need(src.Source)
					}
				}
			}
		}
	}
	e.Walk(r, func(i int32) {
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
func (a *arg) predicted(e *flow.Evaluator, o flow.Occ) bool {
	switch {
	case a.constant:
		return o.Raw() == a.value
	case a.whole == nil:
		return false
	case a.whole.solved != unknown || len(a.words) == 0 || a.class() == unknown && a.whole.guess != nil:
		return a.whole.predicted(e, o)
	}
	if intern.Separators(e.Corpus.Syms.Text[o.Raw()]) != a.pattern {
		return false
	}
	for _, s := range a.words {
		if !s.predicted(e, o) {
			return false
		}
	}
	return true
}

func (s *slot) predicted(e *flow.Evaluator, o flow.Occ) bool {
	want, ok := s.value(e.Corpus, o)
	if !ok {
		return false
	}
	for _, r := range s.best() {
		if t, isTime := r.(now); isTime {
			return t.meets(e.Corpus, o, want)
		}
		if set, isSet := r.(shuffled); isSet {
			return set.set[want]
		}
		if src, isSource := r.(taken); isSource && src.AnyOrder() {
			if src.Among(e, o, want) {
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
