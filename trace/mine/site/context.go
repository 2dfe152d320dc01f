package site

import (
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
)

// A Context is the forms of the calls before and after a call in the log of its
// sender.
type Context struct{ before, after siteKey }

// A Standing says whether the calls of a site have a fixed place in a log.
type Standing uint8

const (
	Nowhere Standing = iota // no: they come at any time
	InOrder
	Retried // yes, and they are repeated until the reply meets a condition
)

// Contexts visits the calls of a run that have a fixed place in a log. All tries of
// a call have the context of the first.
func (s *Sites) Contexts(r *corpus.Recording, visit func(call int32, at Context)) {
	for _, snd := range r.Senders {
		var log []int32              // the first try of each call
		tries := map[int32][]int32{} // and those after it
		first := map[uint64]int32{}  // the first try, by the hash of the call
		for _, i := range snd.Calls {
			call := &r.Calls[i]
			if call.Site == corpus.NoSite {
				continue
			}
			key := s.All[call.Site].key
			switch s.standing[key] {
			case Nowhere:
				continue
			case Retried:
				h := call.Request.Hash() ^ key.hash
				if at, again := first[h]; again {
					tries[at] = append(tries[at], i)
					continue
				}
				first[h] = i
			}
			log = append(log, i)
		}
		key := func(at int) siteKey {
			if at < 0 || at == len(log) {
				return siteKey{}
			}
			return s.All[r.Calls[log[at]].Site].key
		}
		for at, i := range log {
			around := Context{key(at - 1), key(at + 1)}
			visit(i, around)
			for _, again := range tries[i] {
				visit(again, around)
			}
		}
	}
}

// Stand sets which sites have a fixed place in a log.
func (s *Sites) Stand(of func(*Site) Standing) {
	s.standing = map[siteKey]Standing{}
	for _, st := range s.All {
		s.standing[st.key] = of(st)
	}
}

// A partKey is a form of calls in a context.
type partKey struct {
	form siteKey
	at   Context
}

// TellApart splits sites: parts has the contexts of each new site. Everything that
// was learned about sites before is invalid.
func (s *Sites) TellApart(parts map[corpus.SiteID][][]Context, runs []*corpus.Recording) {
	old := s.All
	s.All, s.parts = nil, map[partKey]*Site{}
	add := func(st *Site) *Site {
		fresh := &Site{ID: corpus.SiteID(len(s.All)), Kind: st.Kind, Op: st.Op, key: st.key, shapes: map[intern.ShapeID]int{}}
		s.All = append(s.All, fresh)
		return fresh
	}
	for _, st := range old {
		sites := []*Site{add(st)}
		s.byKey[st.key] = sites[0]
		for range len(parts[st.ID]) - 1 {
			sites = append(sites, add(st))
		}
		for i, contexts := range parts[st.ID] {
			for _, at := range contexts {
				s.parts[partKey{st.key, at}] = sites[i]
			}
		}
	}
	for _, r := range runs {
		s.Place(r)
		for i := range r.Calls {
			st := s.All[r.Calls[i].Site]
			st.Calls++
			st.shapes[r.Calls[i].Request.Shape]++
		}
	}
	for _, st := range s.All {
		if st.Calls > s.byKey[st.key].Calls {
			s.byKey[st.key] = st // for contexts that are new
		}
		st.layOut(s.Corpus)
	}
	s.label()
}

// tellApart moves the calls of a run to the sites of their contexts.
func (s *Sites) tellApart(r *corpus.Recording) {
	if len(s.parts) == 0 {
		return
	}
	to := map[int32]*Site{}
	s.Contexts(r, func(i int32, at Context) {
		if st := s.parts[partKey{s.All[r.Calls[i].Site].key, at}]; st != nil {
			to[i] = st
		}
	})
	for i, st := range to {
		r.Calls[i].Site = st.ID
	}
}
