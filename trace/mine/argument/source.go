package argument

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
)

// A source is information flow (PatternMiner §III-B3): it says in which earlier
// call, and where in it, a value is found. It covers the paper's four cases,
// because a site's place in loops and nodes does not matter to it, and adds
// joins: "the last reply that names what I name".
type source struct {
	from  scope
	key   keyKind
	sel   selector
	part  corpus.Part   // of the earlier call the value is in
	path  intern.PathID // with index 0 at level when an index is not fixed
	level int8          // of the index that is not fixed
	index indexBy       // what gives that index
	word  int16         // of the text; -1: the whole value
	qPart corpus.Part   // where the earlier call holds the key
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
	selector  uint8
	indexBy   uint8
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

const (
	last selector = iota
	nthOne
	nodeOne
	firstOne
	each // any of them: in which order they are used is nobody's choice
)

const (
	fixed indexBy = iota
	byItem
	byRow // the row of the list that holds the key
	byNode
	byNth
)

func (s source) class() class {
	if s.key == ownName || s.key == ownAddress {
		return regular
	}
	return flow
}

// cost is how far-fetched a source is; of those that are as often right, the
// least is taken.
func (s source) cost() int {
	costs := [...]int{ownCall: 24, ownName: 22, ownAddress: 20, sameSender: 0, sameArg: 10, anyCall: 30, sameAddress: 40}
	n := costs[s.key] + [...]int{0, 3, 6}[s.from.kind] + [...]int{last: 0, nthOne: 4, nodeOne: 5, firstOne: 2, each: 100}[s.sel]
	if s.part == corpus.Request && s.key != sameSender {
		n += 5 // of what others said and what they were told, the second is for all to see
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

func (s source) spec() spec {
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

// An evaluator walks through a run in time and knows at each moment what every
// source holds.
type evaluator struct {
	c       *corpus.Corpus
	sites   *site.Sites
	run     *corpus.Run
	indexes map[spec]*index
	bySite  map[int32][]*index
	byOp    map[int32][]*index
	byAny   []*index
	where   map[leafClass][]int32
	numbers map[int64]intern.Symbol
	spent   map[spent]int
}

type leafClass struct {
	shape intern.ShapeID
	class intern.ClassID
}

type index struct {
	spec
	postings map[intern.Symbol]*posting
	all      bool      // somebody asks for more than the first and the last
	room     []posting // postings are cut from here
}

// A posting is the calls found under one key.
type posting struct {
	first, last ref
	refs        []ref // all of them, where somebody asks
}

func newEvaluator(s *site.Sites) *evaluator {
	return &evaluator{c: s.Corpus, sites: s, indexes: map[spec]*index{}, bySite: map[int32][]*index{}, byOp: map[int32][]*index{},
		where: map[leafClass][]int32{}, numbers: map[int64]intern.Symbol{}, spent: map[spent]int{}}
}

func (e *evaluator) number(n int64) intern.Symbol {
	v, ok := e.numbers[n]
	if !ok {
		v = e.c.Syms.ID(strconv.FormatInt(n, 10))
		e.numbers[n] = v
	}
	return v
}

// need makes sure that what a source asks about is indexed.
func (e *evaluator) need(s source) {
	if s.key < sameSender {
		return
	}
	sp := s.spec()
	wantsAll := s.sel != last && s.sel != firstOne
	if ix := e.indexes[sp]; ix != nil {
		ix.all = ix.all || wantsAll
		return
	}
	ix := &index{spec: sp, postings: map[intern.Symbol]*posting{}, all: wantsAll}
	e.indexes[sp] = ix
	switch sp.from.kind {
	case siteScope:
		e.bySite[sp.from.id] = append(e.bySite[sp.from.id], ix)
	case opScope:
		e.byOp[sp.from.id] = append(e.byOp[sp.from.id], ix)
	default:
		e.byAny = append(e.byAny, ix)
	}
}

// walk goes through a run in time; visit is called for each call as it is
// made, when all that went before is known and itself is not.
func (e *evaluator) walk(r *corpus.Run, visit func(i int32)) {
	e.run = r
	clear(e.spent)
	for _, ix := range e.indexes {
		clear(ix.postings)
	}
	type event struct {
		at   int64
		call int32
		late bool
	}
	events := make([]event, 0, 2*len(r.Calls))
	for i := range r.Calls {
		events = append(events, event{r.Calls[i].Start, int32(i), false})
		if end := r.Calls[i].End; end != 0 {
			events = append(events, event{end, int32(i), true})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		if a.late != b.late && a.call != b.call {
			if a.late {
				return -1
			}
			return 1
		}
		if a.call != b.call {
			return cmp.Compare(a.call, b.call)
		}
		if a.late {
			return 1
		}
		return -1
	})
	for _, ev := range events {
		if !ev.late {
			visit(ev.call)
		}
		e.publish(ev.call, ev.late)
	}
}

func (e *evaluator) publish(i int32, late bool) {
	call := &e.run.Calls[i]
	for _, list := range [][]*index{e.bySite[int32(call.Site)], e.byOp[int32(call.Op)], e.byAny} {
		for _, ix := range list {
			if ix.late == late {
				e.enter(ix, call, i)
			}
		}
	}
}

func (e *evaluator) enter(ix *index, call *corpus.Call, i int32) {
	switch ix.key {
	case anyCall:
		ix.add(intern.Empty, ref{i, 0})
	case sameSender:
		ix.add(call.Sender.Name, ref{i, 0})
	case sameAddress:
		if call.Sender.Address != intern.Empty {
			ix.add(call.Sender.Address, ref{i, 0})
		}
	case sameArg:
		m := call.Message(ix.qPart)
		for _, pos := range e.positions(m.Shape, ix.q) {
			ix.add(e.c.Syms.Canonical(m.Values[pos]), ref{i, pos})
		}
	}
}

// keep is how many entries under one key are remembered.
const keep = 4096

func (ix *index) add(key intern.Symbol, r ref) {
	p := ix.postings[key]
	if p == nil {
		if len(ix.room) == 0 {
			ix.room = make([]posting, 256)
		}
		p, ix.room = &ix.room[0], ix.room[1:]
		p.first = r
		ix.postings[key] = p
	}
	p.last = r
	if !ix.all {
		return
	}
	if len(p.refs) < keep {
		p.refs = append(p.refs, r)
	} else {
		p.refs[keep-1] = r // the first ones and the last stay
	}
}

// positions are where leaves of a class stand in a shape.
func (e *evaluator) positions(shape intern.ShapeID, class intern.ClassID) []int32 {
	key := leafClass{shape, class}
	out, ok := e.where[key]
	if !ok {
		for i, p := range e.c.Shapes.Paths[shape] {
			if e.c.Paths.Class[p] == class {
				out = append(out, int32(i))
			}
		}
		e.where[key] = out
	}
	return out
}

// value is what the source holds for an occurrence.
func (s source) value(e *evaluator, o occ) (intern.Symbol, bool) {
	call := o.callOf()
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
	r, ok := s.pick(p, o)
	if !ok {
		return 0, false
	}
	return s.read(e, o, r)
}

func (s source) posting(e *evaluator, o occ) *posting {
	ix := e.indexes[s.spec()]
	if ix == nil {
		return nil
	}
	key, call := intern.Empty, o.callOf()
	switch s.key {
	case sameSender:
		key = call.Sender.Name
	case sameAddress:
		key = call.Sender.Address
	case sameArg:
		v, ok := e.argument(call, s.arg, o.star)
		if !ok {
			return nil
		}
		key = e.c.Syms.Canonical(v)
	}
	return ix.postings[key]
}

func (s source) pick(p *posting, o occ) (ref, bool) {
	at := 0
	switch s.sel {
	case last:
		return p.last, true
	case firstOne:
		return p.first, true
	case nthOne:
		at = int(o.callOf().Nth)
	case nodeOne:
		at = o.callOf().Sender.Rank
	}
	if at >= len(p.refs) {
		return ref{}, false
	}
	return p.refs[at], true
}

// among reports whether any of the calls the source may mean holds v, anywhere
// in the list the path leads to, and the sender has not used it up: each is
// used once.
func (s source) among(e *evaluator, o occ, v intern.Symbol) bool {
	p := s.posting(e, o)
	if p == nil {
		return false
	}
	held, class := 0, e.c.Paths.Class[s.path]
	for i := len(p.refs) - 1; i >= max(0, len(p.refs)-256); i-- {
		m := e.run.Calls[p.refs[i].call].Message(s.part)
		for _, pos := range e.positions(m.Shape, class) {
			if got, ok := e.wordOf(m.Values[pos], s.word); ok && got == v {
				held++
			}
		}
	}
	if held == 0 {
		return false
	}
	key := spent{s, o.callOf().Sender, o.callOf().Site, v}
	if e.spent[key] >= held {
		return false
	}
	e.spent[key]++
	return true
}

// spent is what a sender has taken from an unordered source.
type spent struct {
	from source
	by   *corpus.Sender
	site corpus.SiteID
	v    intern.Symbol
}

// read takes the value out of the earlier call.
func (s source) read(e *evaluator, o occ, r ref) (intern.Symbol, bool) {
	call := &e.run.Calls[r.call]
	m := call.Message(s.part)
	path := s.path
	switch s.index {
	case byItem:
		path = e.c.Paths.At(path, int(s.level), int(o.star))
	case byNode:
		path = e.c.Paths.At(path, int(s.level), o.callOf().Sender.Rank)
	case byNth:
		path = e.c.Paths.At(path, int(s.level), int(o.callOf().Nth))
	case byRow:
		key := call.Message(s.qPart)
		steps := e.c.Paths.Lists[e.c.Shapes.Paths[key.Shape][r.pos]]
		if int(s.level) >= len(steps) {
			return 0, false
		}
		path = e.c.Paths.At(path, int(s.level), steps[s.level].Index)
	}
	pos := e.c.Shapes.Find(m.Shape, path)
	if pos < 0 {
		return 0, false
	}
	return e.wordOf(m.Values[pos], s.word)
}

// own takes the value from another argument of the same call.
func (s source) own(e *evaluator, o occ) (intern.Symbol, bool) {
	m := &o.callOf().Request
	path := s.path
	if s.index == byItem {
		path = e.c.Paths.At(path, int(s.level), int(o.star))
	}
	pos := e.c.Shapes.Find(m.Shape, path)
	if pos < 0 {
		return 0, false
	}
	return e.wordOf(m.Values[pos], s.word)
}

func (e *evaluator) wordOf(v intern.Symbol, word int16) (intern.Symbol, bool) {
	if word >= 0 {
		words := e.c.Syms.Words(v)
		if int(word) >= len(words) {
			return 0, false
		}
		v = words[word]
	}
	return e.c.Syms.Canonical(v), true
}

// argument is the value of one of a call's own arguments, in the same element
// of a list where it stands in one.
func (e *evaluator) argument(call *corpus.Call, arg, star int32) (intern.Symbol, bool) {
	st := e.sites.All[call.Site]
	found, value := false, intern.Empty
	for pos, p := range st.Plan(e.c, call.Request.Shape) {
		if p.Arg != arg {
			continue
		}
		if p.Star == star {
			return call.Request.Values[pos], true
		}
		found, value = true, call.Request.Values[pos]
	}
	return value, found
}

// given is the value of one of a call's own arguments, of the same element of a
// list where it stands in one; nothing when it is not given.
func (e *evaluator) given(call *corpus.Call, arg, star int32) intern.Symbol {
	st := e.sites.All[call.Site]
	inList := strings.Contains(st.Args[arg].Name, "[*]")
	for pos, p := range st.Plan(e.c, call.Request.Shape) {
		if p.Arg == arg && (p.Star == star || !inList) {
			return call.Request.Values[pos]
		}
	}
	return intern.Empty
}
