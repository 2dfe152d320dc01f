// Package flow finds information flow (PatternMiner §III-B3): the earlier calls,
// and the places in them, that the values of arguments are taken from.
package flow

import (
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// A Source is information flow (PatternMiner §III-B3): it says in which earlier
// call, and where in it, a value is found. It covers the paper's four cases,
// because a site's place in loops and nodes does not matter to it, and adds
// joins: "the last reply that names what I name".
type Source struct {
	from  scope
	key   keyKind
	sel   program.Pick
	part  corpus.Part     // of the earlier call the value is in
	path  intern.PathID   // with index 0 at level when an index is not fixed
	level int8            // of the index that is not fixed
	index program.IndexBy // what gives that index
	word  int16           // of the text; -1: the whole value
	qPart corpus.Part     // where the earlier call holds the key
	q     intern.ClassID
	arg   int32 // which of the own arguments the key must equal
}

// A scope is the calls a source may be in.
type scope struct {
	kind scopeKind
	id   int32
}

type (
	scopeKind uint8
	keyKind   uint8
)

const (
	siteScope scopeKind = iota
	opScope
	anyScope
)

const (
	ownCall    keyKind = iota // not an earlier call: another argument of this one
	ownName                   // not a call: the sender's name
	ownAddress                // or its address
	sameSender                // an earlier call of the same sender
	sameArg                   // one that holds the value of one of the own arguments
	anyCall
	sameAddress
)

// Own reports whether the source is the sender's own name or address.
func (s Source) Own() bool { return s.key == ownName || s.key == ownAddress }

// OwnAddress is the sender's address.
func OwnAddress() Source { return Source{key: ownAddress, word: -1} }

// Reply reports whether the value comes from the reply to an earlier call.
func (s Source) Reply() bool { return s.key >= sameSender && s.part == corpus.Response }

// Sent reports whether the value comes from an earlier request of the sender, in a certain
// call.
func (s Source) Sent() bool {
	return s.key == sameSender && s.part == corpus.Request && s.sel != program.PickEach
}

// AnyOrder reports whether any of the calls may be meant: then Among says
// whether they hold a value, and Value does not know.
func (s Source) AnyOrder() bool { return s.sel == program.PickEach }

// Chained reports whether the value comes from the reply to the sender's previous
// call.
func (s Source) Chained() bool {
	return s.part == corpus.Response && s.key == sameSender && s.sel == program.PickLast
}

// LastOf reports whether the source is the sender's own last call of a site: then
// the order of its calls matters.
func (s Source) LastOf(st *site.Site) bool {
	return s.key == sameSender && s.sel == program.PickLast && s.from.holds(st.ID, st.Op)
}

// Told reports whether the source is the whole value of a reply that several
// nodes may use: in any order, or found by an argument of the call.
func (s Source) Told() bool {
	return (s.sel == program.PickEach || s.key == sameArg) && s.part == corpus.Response && s.index == program.IndexFixed && s.word < 0
}

// Listed reports whether the source is a list in a reply, taken element by
// element with each call.
func (s Source) Listed() bool { return s.part == corpus.Response && s.index == program.IndexNth }

// Site is the site whose calls the source is in; not ok if it is not one site.
func (s Source) Site() (corpus.SiteID, bool) {
	return corpus.SiteID(s.from.id), s.from.kind == siteScope && s.key >= sameSender
}

// cost orders sources that are right equally often: the one of the least cost is
// taken. Only the order of the costs matters, not their size. The sender's own
// calls come before calls found by an argument, these before the sender's name and
// the call itself, and calls of anyone last; one site before all of a method, the
// last call before the first and the i-th; and any of several only when nothing
// else explains the value.
func (s Source) cost() int {
	costs := [...]int{ownCall: 24, ownName: 22, ownAddress: 20, sameSender: 0, sameArg: 10, anyCall: 30, sameAddress: 40}
	n := costs[s.key] + [...]int{0, 3, 6}[s.from.kind] + [...]int{program.PickLast: 0, program.PickNth: 4, program.PickNode: 5, program.PickFirst: 2, program.PickEach: 100}[s.sel]
	if s.part == corpus.Request && s.key != sameSender {
		n += 5 // prefer replies to others' requests
	}
	if s.word >= 0 {
		n++
	}
	return n + int(s.index)
}

// A spec is one index over earlier calls.
type spec struct {
	from  scope
	key   keyKind
	qPart corpus.Part
	q     intern.ClassID
	late  bool // entered when the reply is there, not when the call is made
}

func (s Source) spec() spec {
	sp := spec{from: s.from, key: s.key, late: s.part == corpus.Response}
	if s.key == sameArg {
		sp.qPart, sp.q = s.qPart, s.q
		sp.late = sp.late || s.qPart == corpus.Response
	}
	return sp
}

type ref struct {
	call int32
	pos  int32 // of the key, where it is a leaf
}

// Value is what the source holds for an occurrence.
func (s Source) Value(e *Evaluator, o Occ) (intern.Symbol, bool) {
	call := o.CallOf()
	switch s.key {
	case ownCall:
		return s.own(e, o)
	case ownName:
		return e.wordOf(call.Sender.Name, s.word)
	case ownAddress:
		return e.wordOf(call.Sender.Address, s.word)
	}
	p := s.posting(e, o)
	if p == nil {
		return 0, false
	}
	r, ok := p.Choose(s.sel, o.Place())
	if !ok {
		return 0, false
	}
	return s.read(e, o, r)
}

func (s Source) posting(e *Evaluator, o Occ) *posting {
	ix := e.indexes[s.spec()]
	if ix == nil {
		return nil
	}
	key, call := intern.Empty, o.CallOf()
	switch s.key {
	case sameSender:
		key = call.Sender.Name
	case sameAddress:
		key = call.Sender.Address
	case sameArg:
		v, ok := e.Argument(call, s.arg, o.Star)
		if !ok {
			return nil
		}
		key = e.Corpus.Syms.Canonical(v)
	}
	return ix.postings[key]
}

// recent is how many calls an unordered source looks back. Half loses 0.1% of
// Hadoop's arguments, and twice 0.4%.
const recent = 256

// Among reports whether v is in one of the calls that the source may mean, anywhere
// in the list that the path leads to, and the sender has not used it as often as
// it is there.
func (s Source) Among(e *Evaluator, o Occ, v intern.Symbol) bool {
	p := s.posting(e, o)
	if p == nil {
		return false
	}
	held, class := 0, e.Corpus.Paths.Class[s.path]
	all := p.All()
	for _, r := range all[max(0, len(all)-recent):] {
		m := e.run.Calls[r.call].Message(s.part)
		for _, pos := range e.positions(m.Shape, class) {
			if got, ok := e.wordOf(m.Values[pos], s.word); ok && got == v {
				held++
			}
		}
	}
	if held == 0 {
		return false
	}
	key := spent{s, o.CallOf().Sender, o.CallOf().Site, v}
	if e.spent[key] >= held {
		return false
	}
	e.spent[key]++
	return true
}

// spent is a value that a sender has taken from an unordered source.
type spent struct {
	from Source
	by   *corpus.Sender
	site corpus.SiteID
	v    intern.Symbol
}

// read takes the value out of the earlier call.
func (s Source) read(e *Evaluator, o Occ, r ref) (intern.Symbol, bool) {
	call := &e.run.Calls[r.call]
	m := call.Message(s.part)
	path := s.path
	if s.index != program.IndexFixed {
		row := 0
		if s.index == program.IndexRow {
			key := call.Message(s.qPart)
			steps := e.Corpus.Paths.Lists[e.Corpus.Shapes.Paths[key.Shape][r.pos]]
			if int(s.level) >= len(steps) {
				return 0, false
			}
			row = steps[s.level].Index
		}
		path = e.Corpus.Paths.At(path, int(s.level), o.Place().Index(s.index, row))
	}
	pos := e.Corpus.Shapes.Find(m.Shape, path)
	if pos < 0 {
		return 0, false
	}
	return e.wordOf(m.Values[pos], s.word)
}

// own takes the value from another argument of the same call.
func (s Source) own(e *Evaluator, o Occ) (intern.Symbol, bool) {
	m := &o.CallOf().Request
	path := s.path
	if s.index != program.IndexFixed {
		path = e.Corpus.Paths.At(path, int(s.level), o.Place().Index(s.index, 0))
	}
	pos := e.Corpus.Shapes.Find(m.Shape, path)
	if pos < 0 {
		return 0, false
	}
	return e.wordOf(m.Values[pos], s.word)
}

// An Occ is one occurrence of an argument in a run.
type Occ struct {
	In   *corpus.Recording
	Call int32
	Pos  int32 // of the leaf in the request
	Star int32
}

// CallOf is the call it is an argument of.
func (o Occ) CallOf() *corpus.Call { return &o.In.Calls[o.Call] }

// Place is where it stands.
func (o Occ) Place() value.Place {
	c := o.CallOf()
	return value.Place{Scale: o.In.Scale, Node: c.Sender.Rank, Nth: int(c.Nth), Item: int(o.Star)}
}

// Raw is the value as recorded.
func (o Occ) Raw() intern.Symbol { return o.In.Calls[o.Call].Request.Values[o.Pos] }

// Produced are the values that a source has in a run, with the site of each.
func (s Source) Produced(r *corpus.Recording, c *corpus.Corpus) map[intern.Symbol]corpus.SiteID {
	out := map[intern.Symbol]corpus.SiteID{}
	for i := range r.Calls {
		call := &r.Calls[i]
		if call.Site == corpus.NoSite || !s.from.holds(call.Site, call.Op) {
			continue
		}
		m := call.Message(s.part)
		if pos := c.Shapes.Find(m.Shape, s.path); pos >= 0 {
			out[m.Values[pos]] = call.Site
		}
	}
	return out
}

func (sc scope) holds(site corpus.SiteID, op corpus.OpID) bool {
	switch sc.kind {
	case siteScope:
		return site == corpus.SiteID(sc.id)
	case opScope:
		return op == corpus.OpID(sc.id)
	}
	return true
}
