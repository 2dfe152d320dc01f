package plan

import "gleaner/trace/program"

// A Reaction is what nodes of a kind do when a reply asks them to.
type Reaction struct {
	*program.Reaction
	ID    int // in Plan.Reactions
	Local int // among those of its kind's that make calls; -1 for one that makes none
	Kind  *Kind
	Calls []Redo
}

// A Redo is a call that is made again in a reaction.
type Redo struct {
	*program.Redo
	Site *Site
	Nth  int // how many calls of the site are before it in the reaction
}

// react lays out the reactions of a kind.
func (k *Kind) react(pl *Plan) {
	for i := range k.Reactions {
		r := &Reaction{Reaction: &k.Reactions[i], ID: len(pl.Reactions), Local: -1, Kind: k}
		pl.Reactions = append(pl.Reactions, r)
		for c := range r.Reaction.Calls {
			redo := Redo{Redo: &r.Reaction.Calls[c], Site: pl.byName[r.Reaction.Calls[c].Call]}
			for _, before := range r.Calls {
				if before.Site == redo.Site {
					redo.Nth++
				}
			}
			redo.Site.Redone, redo.Site.RedoneAll = true, redo.Site.RedoneAll || redo.All
			r.Calls = append(r.Calls, redo)
		}
		if len(r.Calls) > 0 {
			r.Local = len(k.Lanes.Reactions)
			k.Lanes.Reactions = append(k.Lanes.Reactions, r)
		}
		for _, st := range k.Sites {
			for _, method := range r.To {
				if st.Method == method {
					st.Reactions = append(st.Reactions, r)
				}
			}
		}
	}
}
