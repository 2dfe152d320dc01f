// Package memory keeps what nodes that are played need of earlier calls, and fills in the
// arguments of their calls from it.
//
// A Node has its own calls; those that other nodes take values from are Shared. Neither
// locks itself, because a call is filled in and entered in one go: the caller locks the
// node and then, where values come from others or go to them, the shared memory.
package memory

import (
	"slices"
	"sync"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
	"gleaner/trace/value"
)

// A Record is what is kept of one call: the leaves of its request and of its reply that
// arguments come from. Nothing else is kept, so that a node is small.
type Record struct {
	Refused bool // by the target
	parts   [2][]trace.Leaf
}

// Keep keeps what arguments come from of a part of a call.
func (rec *Record) Keep(st *plan.Site, part program.Part, leaves []trace.Leaf) {
	rec.parts[part] = st.Kept(part, leaves)
}

// A Waiter waits for a value. It is woken once by a call that may have it.
type Waiter interface{ Wake() }

// A posting is the calls found under one key of an index.
type posting struct {
	value.Posting[*Record]
	pools   [][]*item // values of unordered sources, by source
	waiting []Waiter  // for a call under this key
}

// An item is one value of an unordered source.
type item struct {
	text string
	used bool
}

// Shared has the calls of all nodes, by index.
type Shared struct {
	sync.Mutex
	found []map[string]*posting
}

// New returns a memory without calls.
func New(pl *plan.Plan) *Shared {
	m := &Shared{found: make([]map[string]*posting, len(pl.Indexes))}
	for i := range m.found {
		m.found[i] = map[string]*posting{}
	}
	return m
}

// at gives the posting under a key, and makes it if there is none.
func (m *Shared) at(ix *plan.Index, key string) *posting {
	p := m.found[ix.At][key]
	if p == nil {
		p = &posting{pools: make([][]*item, len(ix.Each))}
		m.found[ix.At][key] = p
	}
	return p
}

// add enters a call. A refusal does not hide the reply before, nor does a call that has the
// key and nothing else: a list has the same version as what was made last.
func (p *posting) add(rec *Record, ix *plan.Index) {
	if ix.Bare || !rec.Refused && ix.By != program.ByWhere || rec.serves(ix) {
		p.Add(rec, ix.All)
	} else {
		p.AddBehind(rec, ix.All)
	}
}

// some reports whether there is a call that is not behind others.
func (p *posting) some() bool {
	_, ok := p.Choose(program.PickLast, value.Place{})
	return ok
}

// serves reports whether a call has something that is taken from an index.
func (rec *Record) serves(ix *plan.Index) bool {
	for part, classes := range ix.Reads {
		for _, l := range rec.parts[part] {
			if slices.Contains(classes, value.Class(l.Path)) {
				return true
			}
		}
	}
	return false
}

// items are the values of a source in one call, in any element of a list.
func (rec *Record) items(s *plan.Source) (out []*item) {
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

// Publish enters a call of a node into its indexes: when it is made, and again when it is
// answered. The node is locked, and the shared memory too if others use the call.
func (m *Shared) Publish(n *Node, st *plan.Site, rec *Record, answered bool) {
	for _, ix := range st.Enters {
		if ix.Late != answered {
			continue
		}
		if ix.By != program.ByMe {
			m.enter(n, ix, rec)
			continue
		}
		n.own[ix.At].add(rec, ix)
		for _, s := range ix.Each {
			n.pools[s.Pool] = append(n.pools[s.Pool], rec.items(s)...)
		}
	}
	for _, w := range n.parked {
		w.Wake()
	}
	n.parked = n.parked[:0]
}

func (m *Shared) enter(n *Node, ix *plan.Index, rec *Record) {
	switch ix.By {
	case program.ByAnyone:
		m.enterAt(ix, "", rec)
	case program.ByAddress:
		if n.Address != "" {
			m.enterAt(ix, n.Address, rec)
		}
	case program.ByWhere:
		for _, l := range rec.parts[ix.KeyPart] {
			if value.Class(l.Path) == ix.KeyWhat {
				m.enterAt(ix, program.Plain(l.Value), rec)
			}
		}
	}
}

func (m *Shared) enterAt(ix *plan.Index, key string, rec *Record) {
	post := m.at(ix, key)
	post.add(rec, ix)
	for i, s := range ix.Each {
		post.pools[i] = append(post.pools[i], rec.items(s)...)
	}
	for _, w := range post.waiting {
		w.Wake()
	}
	post.waiting = nil
}

// read gives a source's value in a call.
func (rec *Record) read(s *plan.Source, at value.Place, key string) (string, bool) {
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
func (rec *Record) row(s *plan.Source, key string) (int, bool) {
	for _, l := range rec.parts[s.In.KeyPart] {
		if value.Class(l.Path) == s.In.KeyWhat && program.Plain(l.Value) == key {
			return value.Index(l.Path, s.Index.Level), true
		}
	}
	return 0, false
}

// length is the length of the list that a source takes its elements from.
func (rec *Record) length(s *plan.Source) int {
	n := 0
	for _, l := range rec.parts[s.Part] {
		if value.Class(l.Path) == s.Class {
			n = max(n, value.Index(l.Path, s.Index.Level)+1)
		}
	}
	return n
}
