package mine

// solve finds how every argument is known.
func (s *sites) solve(runs []*Run) {
	s.occurrences(runs)
	var open []*slot
	for _, st := range s.all {
		for _, a := range st.args {
			if a.constant || len(a.occs) == 0 || a.whole.simple(s.c) {
				continue
			}
			a.split(s.c)
			var words []*slot
			for _, w := range a.words {
				if !w.simple(s.c) {
					w.prefix = "" // what comes from elsewhere comes whole
					words = append(words, w)
				}
			}
			if len(a.words) > 0 && len(words) == 0 {
				continue // regular first, as in the paper
			}
			open = append(append(open, a.whole), words...)
		}
	}
	s.findFlows(open, runs)
	e := newEvaluator(s)
	for _, words := range []bool{true, false} { // a rule for each word says more than one for the text
		for _, sl := range open {
			if (sl.word >= 0) == words && sl.arg.class() == unknown && sl.solved == unknown {
				sl.late(s.c, e)
			}
		}
	}
}
