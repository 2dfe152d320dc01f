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
			open = append(open, a.whole)
			a.split(s.c)
			for _, w := range a.words {
				if !w.simple(s.c) {
					open = append(open, w)
				}
			}
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
