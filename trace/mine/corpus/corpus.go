// Package corpus holds recorded runs in memory: the log of every sender, with
// each text, path and form of a message kept once.
package corpus

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
	Syms       intern.Symbols
	Paths      intern.Paths
	Shapes     intern.Shapes
	arena      []intern.Symbol // values are cut from large pieces: millions of small ones would slow the garbage collector
	ops        map[op]OpID
	OpOf       []op
	Recordings []*Recording
	lists      map[listOf]bool
}

// New returns an empty corpus.
func New() *Corpus {
	return &Corpus{ops: map[op]OpID{}, Syms: intern.NewSymbols(), Paths: intern.NewPaths(), Shapes: intern.NewShapes()}
}

// An op is what is called: PatternMiner's RPC type.
type op struct{ Target, Method string }

// An OpID is the number of an op.
type OpID int32

// A Recording is one recorded run: the calls of an experiment at one scale.
type Recording struct {
	File    string
	Scale   int
	Corpus  *Corpus
	Calls   []Call
	Senders []*Sender
	ByName  map[string]*Sender
}

// A Sender is one node of a run.
type Sender struct {
	Name    intern.Symbol
	Address intern.Symbol
	Calls   []int32 // into Recording.Calls, by start
	Kind    int     // which node type
	Rank    int     // among those of its type, in the order of their names
}

// A Call is one call. Its site is found later.
type Call struct {
	Start, End        int64
	Sender            *Sender
	Op                OpID
	Site              SiteID
	Nth               int32         // how many calls of the same site its sender made before; all tries of a call count as one
	Refused           bool          // by the target
	Status            intern.Symbol // of a refusal
	id, parent        intern.Symbol
	moved             bool // into the log of the sender that triggered it
	Request, Response Message
}

// A Message is the values of its leaves in the order of its shape: messages of
// one shape share their paths.
type Message struct {
	Shape  intern.ShapeID
	Values []intern.Symbol
}

// Begin begins a recording that was read from file.
func (c *Corpus) Begin(file string) *Recording {
	return &Recording{File: file, Corpus: c, ByName: map[string]*Sender{}}
}

// Learn makes a finished recording part of what is learned from.
func (c *Corpus) Learn(r *Recording) { c.Recordings = append(c.Recordings, r) }

// Add adds a call.
func (r *Recording) Add(in *trace.Call) {
	c := r.Corpus
	if r.Scale == 0 {
		r.Scale = in.Scale
	}
	s := r.ByName[in.Sender]
	if s == nil {
		s = &Sender{Name: c.Syms.ID(in.Sender), Address: c.Syms.ID(in.Address)}
		r.ByName[c.Syms.Text[s.Name]] = s
		r.Senders = append(r.Senders, s)
	}
	r.Calls = append(r.Calls, Call{Start: in.Start, End: in.End, Sender: s, Op: c.op(in.Target, in.Method), Site: NoSite,
		Refused: trace.Refused(in.Status), Status: c.refusal(in.Status), id: c.Syms.ID(in.ID), parent: c.Syms.ID(in.Parent), Request: c.message(in.Request), Response: c.message(in.Response)})
}

// refusal is the status of a refusal; empty for success.
func (c *Corpus) refusal(status string) intern.Symbol {
	if !trace.Refused(status) {
		return intern.Empty
	}
	return c.Syms.ID(status)
}

func (c *Corpus) op(target, method string) OpID {
	key := op{target, method}
	if id, ok := c.ops[key]; ok {
		return id
	}
	key = op{strings.Clone(target), strings.Clone(method)}
	c.ops[key] = OpID(len(c.OpOf))
	c.OpOf = append(c.OpOf, key)
	return OpID(len(c.OpOf) - 1)
}

func (c *Corpus) message(in []trace.Leaf) Message {
	if len(in) == 0 {
		return Message{}
	}
	if len(c.arena) < len(in) {
		const piece = 1 << 18 // a megabyte: little to waste at the end, and few pieces for a gigabyte
		c.arena = make([]intern.Symbol, max(piece, len(in)))
	}
	m := Message{Values: c.arena[:len(in):len(in)]}
	c.arena = c.arena[len(in):]
	c.Shapes.Begin()
	for i, l := range in {
		m.Values[i] = c.Syms.ID(l.Value)
		c.Shapes.Push(c.Paths.ID(l.Path, l.Kind))
	}
	m.Shape = c.Shapes.End()
	return m
}

// Sort puts the calls in the order of their start, and gives each sender its log.
func (r *Recording) Sort() {
	slices.SortStableFunc(r.Calls, func(a, b Call) int { return cmp.Compare(a.Start, b.Start) })
	for _, s := range r.Senders {
		s.Calls = s.Calls[:0]
	}
	children := r.relocate()
	var place func(i int32)
	place = func(i int32) {
		s := r.Calls[i].Sender
		s.Calls = append(s.Calls, i)
		for _, child := range children[i] {
			place(child)
		}
	}
	for i := range r.Calls {
		if !r.Calls[i].moved {
			place(int32(i))
		}
	}
}

// Drop takes calls out of a sorted run.
func (r *Recording) Drop(calls map[int32]bool) {
	if len(calls) == 0 {
		return
	}
	to, kept := make([]int32, len(r.Calls)), r.Calls[:0]
	for i := range r.Calls {
		to[i] = int32(len(kept))
		if !calls[int32(i)] {
			kept = append(kept, r.Calls[i])
		}
	}
	r.Calls = kept
	for _, s := range r.Senders {
		s.Calls = slices.DeleteFunc(s.Calls, func(i int32) bool { return calls[i] })
		for k, i := range s.Calls {
			s.Calls[k] = to[i]
		}
	}
}

// relocate moves every call that another call triggered into the log of the sender
// of that call, behind it (PatternMiner, Figure 2), and lists the calls that each
// call triggered. A sender's own calls stay where they are: messages of a server on
// a stream may come at any time. Without parents in the trace it does nothing.
func (r *Recording) relocate() map[int32][]int32 {
	byID := map[intern.Symbol]int32{}
	out := map[int32][]int32{}
	for i := range r.Calls {
		c := &r.Calls[i]
		if parent, ok := byID[c.parent]; ok && c.parent != intern.Empty && c.Sender != r.Calls[parent].Sender {
			c.Sender, c.moved = r.Calls[parent].Sender, true
			out[parent] = append(out[parent], int32(i))
		}
		if c.id != intern.Empty {
			byID[c.id] = int32(i)
		}
	}
	return out
}

// Hash is the same for equal messages: FNV-1a over whole numbers in place of bytes.
func (m *Message) Hash() uint64 {
	h := uint64(14695981039346656037)
	h = (h ^ uint64(m.Shape)) * 1099511628211
	for _, v := range m.Values {
		h = (h ^ uint64(v)) * 1099511628211
	}
	return h
}

// A Part is one side of a call.
type Part uint8

const (
	Request Part = iota
	Response
)

// Message is one side of the call.
func (c *Call) Message(p Part) *Message {
	if p == Request {
		return &c.Request
	}
	return &c.Response
}

// A SiteID is the call site that a call was found to be made at.
type SiteID int32

// NoSite is the site of a call that has none.
const NoSite SiteID = -1
