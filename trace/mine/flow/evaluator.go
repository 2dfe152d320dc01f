package flow

import (
	"cmp"
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// An Evaluator goes through a run in the order of time and knows at each call what
// every source holds.
type Evaluator struct {
	Corpus  *corpus.Corpus
	sites   *site.Sites
	run     *corpus.Recording
	indexes map[spec]*index
	bySite  map[int32][]*index
	byOp    map[int32][]*index
	byAny   []*index
	where   map[leafClass][]int32
	spent   map[spent]int
}

type leafClass struct {
	shape intern.ShapeID
	class intern.ClassID
}

type index struct {
	spec
	postings map[intern.Symbol]*posting
	all      bool      // some source asks for more than the first and the last
	room     []posting // postings are cut from here
}

type posting = value.Posting[ref]

// New returns an evaluator without sources.
func New(s *site.Sites) *Evaluator {
	return &Evaluator{Corpus: s.Corpus, sites: s, indexes: map[spec]*index{}, bySite: map[int32][]*index{}, byOp: map[int32][]*index{},
		where: map[leafClass][]int32{}, spent: map[spent]int{}}
}

// Need makes sure that what a source asks about is indexed.
func (e *Evaluator) Need(s Source) {
	if s.key < sameSender {
		return
	}
	sp := s.spec()
	wantsAll := s.sel != program.PickLast && s.sel != program.PickFirst
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

// Walk goes through a run in the order of time. visit is called for each call as
// it is made: earlier requests and replies are indexed then, the call itself is
// not.
func (e *Evaluator) Walk(r *corpus.Recording, visit func(i int32)) {
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

func (e *Evaluator) publish(i int32, late bool) {
	call := &e.run.Calls[i]
	for _, list := range [][]*index{e.bySite[int32(call.Site)], e.byOp[int32(call.Op)], e.byAny} {
		for _, ix := range list {
			if ix.late == late {
				e.enter(ix, call, i)
			}
		}
	}
}

func (e *Evaluator) enter(ix *index, call *corpus.Call, i int32) {
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
			ix.add(e.Corpus.Syms.Canonical(m.Values[pos]), ref{i, pos})
		}
	}
}

func (ix *index) add(key intern.Symbol, r ref) {
	p := ix.postings[key]
	if p == nil {
		if len(ix.room) == 0 {
			ix.room = make([]posting, 256) // one allocation for many: half or twice only changes their number
		}
		p, ix.room = &ix.room[0], ix.room[1:]
		ix.postings[key] = p
	}
	p.Add(r, ix.all)
}

// positions are where leaves of a class stand in a shape.
func (e *Evaluator) positions(shape intern.ShapeID, class intern.ClassID) []int32 {
	key := leafClass{shape, class}
	out, ok := e.where[key]
	if !ok {
		for i, p := range e.Corpus.Shapes.Paths[shape] {
			if e.Corpus.Paths.Class[p] == class {
				out = append(out, int32(i))
			}
		}
		e.where[key] = out
	}
	return out
}

func (e *Evaluator) wordOf(v intern.Symbol, word int16) (intern.Symbol, bool) {
	if word >= 0 {
		words := e.Corpus.Syms.Words(v)
		if int(word) >= len(words) {
			return 0, false
		}
		v = words[word]
	}
	return e.Corpus.Syms.Canonical(v), true
}

// Argument is the value of one of a call's own arguments, in the same element of a
// list where it stands in one; not ok when the call does not have it.
func (e *Evaluator) Argument(call *corpus.Call, arg, star int32) (intern.Symbol, bool) {
	st := e.sites.All[call.Site]
	for pos, p := range st.Plan(e.Corpus, call.Request.Shape) {
		if p.Arg == arg && (p.Star == star || !st.Args[arg].InList) {
			return call.Request.Values[pos], true
		}
	}
	return intern.Empty, false
}
