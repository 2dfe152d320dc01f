package replay

import (
	"slices"
	"strings"
	"sync"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// A record is what is kept of one call: the leaves of its request and of its reply that
// arguments come from. Nothing else is kept, so that a player is small.
type record struct {
	parts   [2][]trace.Leaf
	refused bool
}

// A posting is the calls found under one key of an index.
type posting struct {
	first, last *record
	all         []*record // if index.all
	pools       [][]*item // values of unordered sources, by source
	waiting     []*lane   // lanes that wait for a call under this key
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

func newMemory(pl *plan) *memory {
	m := &memory{found: make([]map[string]*posting, len(pl.indexes))}
	for i := range m.found {
		m.found[i] = map[string]*posting{}
	}
	return m
}

// at gives the posting under a key, and makes it if there is none.
func (m *memory) at(ix *index, key string) *posting {
	p := m.found[ix.at][key]
	if p == nil {
		p = &posting{pools: make([][]*item, len(ix.each))}
		m.found[ix.at][key] = p
	}
	return p
}

// keep is how many calls are kept under one key: the first ones and the last.
const keep = 4096

// add enters a call. A refusal does not hide the reply before, nor does a call that has the
// key and nothing else: a list has the same version as what was made last.
func (p *posting) add(rec *record, ix *index) {
	if ix.bare || !rec.refused && ix.by != "where" || ix.serves(rec) {
		if p.first == nil {
			p.first = rec
		}
		p.last = rec
	}
	switch {
	case ix.all && len(p.all) < keep:
		p.all = append(p.all, rec)
	case ix.all:
		p.all[keep-1] = rec
	}
}

// serves reports whether a call has something that is taken from this index.
func (ix *index) serves(rec *record) bool {
	for part, classes := range ix.reads {
		for _, l := range rec.parts[part] {
			if slices.Contains(classes, value.Class(l.Path)) {
				return true
			}
		}
	}
	return false
}

// items are the values of a source in one call, in any element of a list.
func (s *source) items(rec *record) (out []*item) {
	for _, l := range rec.parts[s.part] {
		if value.Class(l.Path) != s.class {
			continue
		}
		if text, ok := program.Word(l.Value, s.Word); ok {
			out = append(out, &item{text: text})
		}
	}
	return out
}

// plainNumber takes leading zeros off, so that 0001 in a path is the 1 of a reply.
func plainNumber(text string) string {
	if len(text) < 2 || text[0] != '0' || strings.Trim(text, "0123456789") != "" {
		return text
	}
	if text = strings.TrimLeft(text, "0"); text == "" {
		return "0"
	}
	return text
}

// publish enters a call of a node into its indexes: when it is made, and again when it
// is answered. The player is locked, and the memory too if others use the call.
func (r *controller) publish(p *player, st *site, rec *record, late bool) {
	for _, ix := range st.enters {
		if ix.late != late {
			continue
		}
		if ix.by != "me" {
			r.enter(p, ix, rec)
			continue
		}
		p.own[ix.at].add(rec, ix)
		for _, s := range ix.each {
			p.pools[s.pool] = append(p.pools[s.pool], s.items(rec)...)
		}
	}
	for _, l := range p.parked {
		r.wake(l)
	}
	p.parked = p.parked[:0]
}

func (r *controller) enter(p *player, ix *index, rec *record) {
	switch ix.by {
	case "anyone":
		r.enterAt(ix, "", rec)
	case "address":
		if p.address != "" {
			r.enterAt(ix, p.address, rec)
		}
	case "where":
		for _, l := range rec.parts[ix.keyPart] {
			if value.Class(l.Path) == ix.keyWhat {
				r.enterAt(ix, plainNumber(l.Value), rec)
			}
		}
	}
}

func (r *controller) enterAt(ix *index, key string, rec *record) {
	post := r.memory.at(ix, key)
	post.add(rec, ix)
	for i, s := range ix.each {
		post.pools[i] = append(post.pools[i], s.items(rec)...)
	}
	for _, l := range post.waiting {
		r.wake(l)
	}
	post.waiting = nil
}

// read gives a source's value in a call.
func (s *source) read(rec *record, sc *value.Scene, key string) (string, bool) {
	if rec == nil {
		return "", false
	}
	path := s.Path
	switch s.Index {
	case "item":
		path = value.At(path, s.Level, sc.Item)
	case "node":
		path = value.At(path, s.Level, sc.Node)
	case "i":
		path = value.At(path, s.Level, sc.Nth)
	case "row":
		row := slices.IndexFunc(rec.parts[s.index.keyPart], func(l trace.Leaf) bool {
			return value.Class(l.Path) == s.index.keyWhat && plainNumber(l.Value) == key
		})
		if row < 0 {
			return "", false
		}
		path = value.At(path, s.Level, value.Index(rec.parts[s.index.keyPart][row].Path, s.Level))
	}
	text, ok := trace.Get(rec.parts[s.part], path)
	if !ok {
		return "", false
	}
	return program.Word(text, s.Word)
}

// length is the length of the list that a source takes its elements from.
func (s *source) length(rec *record) int {
	n := 0
	for _, l := range rec.parts[s.part] {
		if value.Class(l.Path) == s.class {
			n = max(n, value.Index(l.Path, s.Level)+1)
		}
	}
	return n
}
