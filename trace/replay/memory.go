package replay

import (
	"sync"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
	"gleaner/trace/value"
)

// A record is what is kept of one call: the leaves of its request and of its reply that
// arguments come from. Nothing else is kept, so that a player is small.
type record struct {
	parts [2][]trace.Leaf
}

// A posting is the calls found under one key of an index.
type posting struct {
	value.Posting[*record]
	pools   [][]*item // values of unordered sources, by source
	waiting []*lane   // lanes that wait for a call under this key
}

// An item is one value of an unordered source.
type item struct {
	text string
	used bool
}

// A memory has the calls of all nodes, by index. A node's own calls are with its
// player.
type memory struct {
	mu    sync.Mutex
	found []map[string]*posting
}

func newMemory(pl *plan.Plan) *memory {
	m := &memory{found: make([]map[string]*posting, len(pl.Indexes))}
	for i := range m.found {
		m.found[i] = map[string]*posting{}
	}
	return m
}

// at gives the posting under a key, and makes it if there is none.
func (m *memory) at(ix *plan.Index, key string) *posting {
	p := m.found[ix.At][key]
	if p == nil {
		p = &posting{pools: make([][]*item, len(ix.Each))}
		m.found[ix.At][key] = p
	}
	return p
}

// items are the values of a source in one call, in any element of a list.
func (rec *record) items(s *plan.Source) (out []*item) {
	for _, l := range rec.parts[s.Part] {
		if value.Class(l.Path) != s.Class {
			continue
		}
		if text, ok := s.Word.Of(l.Value); ok {
			out = append(out, &item{text: text})
		}
	}
	return out
}

// publish enters a call of a node into its indexes: when it is made, and again when it
// is answered. The player is locked, and the memory too if others use the call.
func (r *controller) publish(p *player, st *plan.Site, rec *record, late bool) {
	for _, ix := range st.Enters {
		if ix.Late != late {
			continue
		}
		if ix.By != program.ByMe {
			r.enter(p, ix, rec)
			continue
		}
		p.own[ix.At].Add(rec, ix.All)
		for _, s := range ix.Each {
			p.pools[s.Pool] = append(p.pools[s.Pool], rec.items(s)...)
		}
	}
	for _, l := range p.parked {
		r.wake(l)
	}
	p.parked = p.parked[:0]
}

func (r *controller) enter(p *player, ix *plan.Index, rec *record) {
	switch ix.By {
	case program.ByAnyone:
		r.enterAt(ix, "", rec)
	case program.ByAddress:
		if p.address != "" {
			r.enterAt(ix, p.address, rec)
		}
	case program.ByWhere:
		for _, l := range rec.parts[ix.KeyPart] {
			if value.Class(l.Path) == ix.KeyWhat {
				r.enterAt(ix, program.Plain(l.Value), rec)
			}
		}
	}
}

func (r *controller) enterAt(ix *plan.Index, key string, rec *record) {
	post := r.memory.at(ix, key)
	post.Add(rec, ix.All)
	for i, s := range ix.Each {
		post.pools[i] = append(post.pools[i], rec.items(s)...)
	}
	for _, l := range post.waiting {
		r.wake(l)
	}
	post.waiting = nil
}

// read gives a source's value in a call.
func (rec *record) read(s *plan.Source, at value.Place, key string) (string, bool) {
	path := s.Path
	if s.Index.By != program.IndexFixed {
		row, ok := 0, true
		if s.Index.By == program.IndexRow {
			row, ok = rec.row(s, key)
		}
		if !ok {
			return "", false
		}
		path = value.At(path, s.Index.Level, at.Index(s.Index.By, row))
	}
	text, ok := trace.Get(rec.parts[s.Part], path)
	if !ok {
		return "", false
	}
	return s.Word.Of(text)
}

// row is the index of the list element of a call that holds the key.
func (rec *record) row(s *plan.Source, key string) (int, bool) {
	for _, l := range rec.parts[s.In.KeyPart] {
		if value.Class(l.Path) == s.In.KeyWhat && program.Plain(l.Value) == key {
			return value.Index(l.Path, s.Index.Level), true
		}
	}
	return 0, false
}

// length is the length of the list that a source takes its elements from.
func (rec *record) length(s *plan.Source) int {
	n := 0
	for _, l := range rec.parts[s.Part] {
		if value.Class(l.Path) == s.Class {
			n = max(n, value.Index(l.Path, s.Index.Level)+1)
		}
	}
	return n
}
