package mine

import (
	"cmp"
	"slices"
	"strings"

	"gleaner/trace"
	"gleaner/trace/mine/intern"
)

// A Corpus holds the runs to learn from, each text kept once. Runs are added
// call by call, so that a trace is never held twice.
type Corpus struct {
	TypeRules []TypeRule // the user's word on node types; none: behaviour alone

	syms   intern.Symbols
	paths  intern.Paths
	shapes intern.Shapes
	arena  []symbol // values are cut from large pieces; millions of small ones would burden the collector
	ops    map[op]opID
	opOf   []op
	runs   []*Run
}

// NewCorpus returns an empty corpus.
func NewCorpus() *Corpus {
	return &Corpus{ops: map[op]opID{}, syms: intern.NewSymbols(), paths: intern.NewPaths(), shapes: intern.NewShapes()}
}

// An op is what is called: PatternMiner's RPC type.
type op struct{ target, method string }

type opID int32

// What is kept once goes by number.
type (
	symbol   = intern.Symbol
	pathID   = intern.PathID
	classID  = intern.ClassID
	shapeID  = intern.ShapeID
	listStep = intern.ListStep
)

const empty = intern.Empty

// A Run is one recorded experiment.
type Run struct {
	File    string
	Scale   int
	corpus  *Corpus
	calls   []call
	senders []*sender
	byName  map[string]*sender
}

type sender struct {
	name    symbol
	address symbol
	calls   []int32 // into Run.calls, by start
	kind    int     // which node type
	rank    int     // among those of its type, in the order of their names
}

type call struct {
	start, end int64
	sender     *sender
	op         opID
	site       siteID
	nth        int32 // how many calls of the same site its sender made before; tries of one call are one
	status     symbol
	id, parent symbol
	moved      bool // into the log of the sender that triggered it
	req, resp  message
}

// A message is the values of its leaves in the order of its shape: messages of
// one shape share their paths.
type message struct {
	shape  shapeID
	values []symbol
}

// Run begins a run that was recorded in file.
func (c *Corpus) Run(file string) *Run {
	return &Run{File: file, corpus: c, byName: map[string]*sender{}}
}

// Learn makes a finished run part of what is learned from.
func (c *Corpus) Learn(r *Run) { c.runs = append(c.runs, r) }

// Add adds a call to the run.
func (r *Run) Add(in *trace.Call) {
	c := r.corpus
	if r.Scale == 0 {
		r.Scale = in.Scale
	}
	s := r.byName[in.Sender]
	if s == nil {
		s = &sender{name: c.syms.ID(in.Sender), address: c.syms.ID(in.Address)}
		r.byName[c.syms.Text[s.name]] = s
		r.senders = append(r.senders, s)
	}
	r.calls = append(r.calls, call{start: in.Start, end: in.End, sender: s, op: c.op(in.Target, in.Method), site: noSite,
		status: c.syms.ID(in.Status), id: c.syms.ID(in.ID), parent: c.syms.ID(in.Parent), req: c.message(in.Request), resp: c.message(in.Response)})
}

// Calls is how many calls the run has.
func (r *Run) Calls() int { return len(r.calls) }

// Senders is how many senders the run has.
func (r *Run) Senders() int { return len(r.senders) }

func (c *Corpus) op(target, method string) opID {
	key := op{target, method}
	if id, ok := c.ops[key]; ok {
		return id
	}
	key = op{strings.Clone(target), strings.Clone(method)}
	c.ops[key] = opID(len(c.opOf))
	c.opOf = append(c.opOf, key)
	return opID(len(c.opOf) - 1)
}

func (c *Corpus) message(in []trace.Leaf) message {
	if len(in) == 0 {
		return message{}
	}
	if len(c.arena) < len(in) {
		c.arena = make([]symbol, max(1<<18, len(in)))
	}
	m := message{values: c.arena[:len(in):len(in)]}
	c.arena = c.arena[len(in):]
	c.shapes.Begin()
	for i, l := range in {
		m.values[i] = c.syms.ID(l.Value)
		c.shapes.Push(c.paths.ID(l.Path, l.Kind))
	}
	m.shape = c.shapes.End()
	return m
}

// sort brings the calls into the order in which they were made, and gives
// each sender its log.
func (r *Run) sort() {
	slices.SortStableFunc(r.calls, func(a, b call) int { return cmp.Compare(a.start, b.start) })
	for _, s := range r.senders {
		s.calls = s.calls[:0]
	}
	children := r.relocate()
	var place func(i int32)
	place = func(i int32) {
		s := r.calls[i].sender
		s.calls = append(s.calls, i)
		for _, child := range children[i] {
			place(child)
		}
	}
	for i := range r.calls {
		if !r.calls[i].moved {
			place(int32(i))
		}
	}
}

// relocate puts every call that another call triggered into the log of that
// other's sender, behind it (PatternMiner, Figure 2), and lists what each call
// triggered. A sender's own calls keep their place: what the server says on a
// stream comes when it comes. Without parents in the trace it does nothing.
func (r *Run) relocate() map[int32][]int32 {
	byID := map[symbol]int32{}
	out := map[int32][]int32{}
	for i := range r.calls {
		c := &r.calls[i]
		if parent, ok := byID[c.parent]; ok && c.parent != empty && c.sender != r.calls[parent].sender {
			c.sender, c.moved = r.calls[parent].sender, true
			out[parent] = append(out[parent], int32(i))
		}
		if c.id != empty {
			byID[c.id] = int32(i)
		}
	}
	return out
}
