package argument

import (
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/site"
)

// A Listed argument counts calls, and a reply lists the same names in the same
// order. Only a tenth name would show which of the two rules is right: sorted as
// text, 10 comes before 2.
type Listed struct {
	Name   string
	Either [2]string // the two rules, as a program writes them
	Calls  int       // that one node has to make to show it
}

// findListed finds the arguments that count calls and that a list in a reply gives
// as well.
func (s *Rules) findListed(runs []*corpus.Recording) {
	var counting, listed []*slot
	var questions []*flow.Question
	for _, args := range s.of {
		for _, a := range args {
			for _, w := range a.words {
				if w.oneDigit(s.c) {
					whole := &slot{arg: a, word: w.word}
					counting, listed, questions = append(counting, w), append(listed, whole), append(questions, whole.question(s.c))
				}
			}
		}
	}
	if len(questions) == 0 {
		return
	}
	for i, se := range flow.Find(s.sites, questions, runs) {
		if a := se.Answer(); a.Hits == len(listed[i].arg.occs) && len(a.Sources) == 1 && a.Sources[0].Listed() {
			listed[i].rules, listed[i].solved = []rule{taken{a.Sources[0]}}, fromFlow
			counting[i].listed = listed[i]
		}
	}
}

// oneDigit reports whether a slot counts calls and never reached 10.
func (s *slot) oneDigit(c *corpus.Corpus) bool {
	if len(s.rules) != 1 || s.width > 1 {
		return false
	}
	r, ok := s.rules[0].(affine)
	if !ok || r.x != nth || r.a != 1 || r.div != 1 {
		return false
	}
	for _, o := range s.arg.occs {
		if v, _ := s.value(c, o); len(c.Syms.Text[v]) != 1 {
			return false
		}
	}
	return true
}

// Listed are the arguments of a site that a list in a reply gives as well.
func (s *Rules) Listed(st *site.Site) []Listed {
	var out []Listed
	for _, a := range s.of[st.ID] {
		for i, w := range a.words {
			if w.listed == nil {
				continue
			}
			other := *a
			other.words = slices.Clone(a.words)
			other.words[i] = w.listed
			out = append(out, Listed{a.Name, [2]string{s.template(a).String(), s.template(&other).String()}, 11 - int(w.rules[0].(affine).b)})
		}
	}
	return out
}
