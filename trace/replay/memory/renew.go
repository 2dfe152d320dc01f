package memory

import (
	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
)

// renewals tell what a node has been given anew in reactions: of its calls, which were
// filled in before that and which since.
type renewals struct {
	turn int         // how often something was
	at   map[int]int // when the reply to a call was, by plan.Site.Local
	last map[int]int // the turn in which a call was filled in last
}

// Renew notes that a reaction has a new reply to a call. The node is locked.
func (n *Node) Renew(st *plan.Site) {
	if n.renewals == nil {
		n.renewals = &renewals{at: map[int]int{}, last: map[int]int{}}
	}
	n.renewals.turn++
	n.renewals.at[st.Local] = n.renewals.turn
}

// filled notes that a call was filled in.
func (n *Node) filled(st *plan.Site) {
	if n.renewals != nil {
		n.renewals.last[st.Local] = n.renewals.turn
	}
}

// stale reports whether the first of some alternatives is what the node sent before in such
// calls, while another is from a reply that is newer: a session is that of the call before
// until there is a new one.
func (f *Filling) stale(alts []program.Alt) bool {
	own := f.plan.Source(alts[0])
	if f.node.renewals == nil || own == nil || own.Part != program.Request || own.By != program.ByMe || own.In.Scope.Site != f.st {
		return false
	}
	for _, alt := range alts[1:] {
		s := f.plan.Source(alt)
		if s != nil && s.Part == program.Reply && s.By == program.ByMe && s.In.Scope.Site != nil &&
			f.node.renewals.at[s.In.Scope.Site.Local] > f.node.renewals.last[f.st.Local] {
			return true
		}
	}
	return false
}
