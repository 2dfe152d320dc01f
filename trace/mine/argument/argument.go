// Package argument finds how the value of every argument is known: by its place
// (constant, regular, a time), from an earlier call, or by other arguments of
// its call (PatternMiner §III-B3).
package argument

import (
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/site"
)

// Rules is how the arguments of all sites are known.
type Rules struct {
	c     *corpus.Corpus
	sites *site.Sites
	of    [][]*arg // by site and by the argument's index in it
}

// Learn finds how every argument is known.
func Learn(in *site.Sites, runs []*corpus.Recording) *Rules {
	s := &Rules{c: in.Corpus, sites: in, of: make([][]*arg, len(in.All))}
	for i, st := range in.All {
		s.of[i] = make([]*arg, len(st.Args))
		for k, a := range st.Args {
			s.of[i][k] = &arg{Arg: a, peers: s.of[i]}
		}
	}
	s.occurrences(runs)
	var open []*slot
	for _, args := range s.of {
		for _, a := range args {
			if a.constant || len(a.occs) == 0 || a.whole.simple(s.c) {
				continue
			}
			a.split(s.c)
			var words []*slot
			for _, w := range a.words {
				if !w.simple(s.c) {
					w.prefix = "" // a value from another call is a whole word
					words = append(words, w)
				}
			}
			if len(a.words) > 0 && len(words) == 0 {
				continue // a regular value is not looked for in earlier calls, as in the paper
			}
			open = append(append(open, a.whole), words...)
		}
	}
	s.findFlows(open, runs)
	e := newEvaluator(s)
	for _, words := range []bool{true, false} { // prefer a rule for each word to one for the whole text
		for _, sl := range open {
			if (sl.word >= 0) == words && sl.arg.class() == unknown && sl.solved == unknown {
				sl.late(s.c, e)
			}
		}
	}
	s.findListed(runs)
	return s
}
