package mine

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"gleaner/trace"
	"gleaner/trace/program"
)

// A Corpus holds the runs to learn from, each text kept once. Runs are added
// call by call, so that a trace is never held twice.
type Corpus struct {
	TypeRules []TypeRule // the user's word on node types; none: behaviour alone

	syms   symbols
	paths  paths
	shapes shapes
	arena  []symbol // values are cut from large pieces; millions of small ones would burden the collector
	ops    map[op]opID
	opOf   []op
	runs   []*Run
}

// NewCorpus returns an empty corpus.
func NewCorpus() *Corpus {
	c := &Corpus{ops: map[op]opID{}}
	c.syms.init()
	c.paths.init()
	c.shapes.init()
	return c
}

// An op is what is called: PatternMiner's RPC type.
type op struct{ target, method string }

type (
	opID    int32
	pathID  int32
	shapeID int32
	symbol  uint32 // a text, kept once
)

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
		s = &sender{name: c.syms.id(in.Sender), address: c.syms.id(in.Address)}
		r.byName[c.syms.text[s.name]] = s
		r.senders = append(r.senders, s)
	}
	r.calls = append(r.calls, call{start: in.Start, end: in.End, sender: s, op: c.op(in.Target, in.Method), site: noSite,
		status: c.syms.id(in.Status), id: c.syms.id(in.ID), parent: c.syms.id(in.Parent), req: c.message(in.Request), resp: c.message(in.Response)})
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
	c.shapes.begin()
	for i, l := range in {
		m.values[i] = c.syms.id(l.Value)
		c.shapes.push(c.paths.id(l.Path, l.Kind))
	}
	m.shape = c.shapes.end()
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

// symbols keeps every text once, with what is often asked about it.
type symbols struct {
	ids   map[string]symbol
	text  []string
	parts [][]symbol // the words of a text; nil until asked for
	plain []symbol   // a number without leading zeros; 0 until asked for
}

const empty symbol = 0 // the empty text

func (s *symbols) init() {
	s.ids = map[string]symbol{"": empty}
	s.text, s.parts, s.plain = []string{""}, [][]symbol{{}}, []symbol{empty}
}

func (s *symbols) id(text string) symbol {
	if id, ok := s.ids[text]; ok {
		return id
	}
	text = strings.Clone(text)
	id := symbol(len(s.text))
	s.ids[text] = id
	s.text = append(s.text, text)
	s.parts = append(s.parts, nil)
	s.plain = append(s.plain, 0)
	return id
}

// canonical gives numbers that differ only in leading zeros one symbol, so
// that 0001 in a path is the 1 of a reply.
func (s *symbols) canonical(v symbol) symbol {
	if s.plain[v] == 0 {
		text := s.text[v]
		if len(text) > 1 && text[0] == '0' && allDigits(text) {
			text = strings.TrimLeft(text, "0")
			if text == "" {
				text = "0"
			}
		}
		plain := v
		if len(text) != len(s.text[v]) {
			plain = s.id(text)
		}
		s.plain[v] = plain
	}
	return s.plain[v]
}

// words are the letters-and-digits pieces of a text.
func (s *symbols) words(v symbol) []symbol {
	if s.parts[v] == nil {
		out := []symbol{}
		program.EachWord(s.text[v], func(start, end int) { out = append(out, s.id(s.text[v][start:end])) })
		s.parts[v] = out
	}
	return s.parts[v]
}

func (s *symbols) number(v symbol) (int64, bool) {
	n, err := strconv.ParseInt(s.text[v], 10, 64)
	return n, err == nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func allLetters(s string) bool {
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			return false
		}
	}
	return s != ""
}

// separators is a text with every word taken out: what is left when only the
// words may vary.
func separators(text string) string {
	var out strings.Builder
	last := 0
	program.EachWord(text, func(start, end int) {
		out.WriteString(text[last:start])
		out.WriteByte('\x00')
		last = end
	})
	out.WriteString(text[last:])
	return out.String()
}

// paths keeps every path once, with the lists it leads through.
type paths struct {
	ids  map[typedPath]pathID
	text []string
	kind []trace.Kind
	// lists[p] are the prefixes of p that are lists, outermost first, and where
	// each index stands.
	lists [][]listStep
	// class[p] is the same for paths that differ in their indices only.
	class   []classID
	classes map[string]classID
	moved   map[move]pathID
}

// A typedPath tells a number and a text at one path apart, but not two kinds of number.
type typedPath struct {
	text string
	kind trace.Kind
}

type classID int32

// A move is a path with one of its indices changed.
type move struct {
	path         pathID
	level, index int
}

type listStep struct {
	prefix     string // up to the bracket
	start, end int    // of the index in the path
	index      int
}

func (p *paths) init() {
	p.ids, p.classes, p.moved = map[typedPath]pathID{}, map[string]classID{}, map[move]pathID{}
}

func (p *paths) id(text string, kind trace.Kind) pathID {
	key := typedPath{text, kind}
	if kind == trace.Float {
		key.kind = trace.Int
	}
	if id, ok := p.ids[key]; ok {
		return id
	}
	text = strings.Clone(text)
	key.text = text
	id := pathID(len(p.text))
	p.ids[key] = id
	p.text = append(p.text, text)
	p.kind = append(p.kind, kind)
	steps := listSteps(text)
	p.lists = append(p.lists, steps)
	blank := text
	for i := len(steps) - 1; i >= 0; i-- {
		blank = blank[:steps[i].start] + blank[steps[i].end:]
	}
	if _, ok := p.classes[blank]; !ok {
		p.classes[blank] = classID(len(p.classes))
	}
	p.class = append(p.class, p.classes[blank])
	return id
}

// at is a path with the index at one level changed.
func (p *paths) at(path pathID, level, index int) pathID {
	key := move{path, level, index}
	if to, ok := p.moved[key]; ok {
		return to
	}
	step := p.lists[path][level]
	text := p.text[path]
	to := p.id(text[:step.start]+strconv.Itoa(index)+text[step.end:], p.kind[path])
	p.moved[key] = to
	return to
}

func listSteps(text string) []listStep {
	var out []listStep
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			end := strings.IndexByte(text[i:], ']')
			if end < 0 {
				return out
			}
			index, err := strconv.Atoi(text[i+1 : i+end])
			if err != nil {
				continue
			}
			out = append(out, listStep{prefix: text[:i], start: i + 1, end: i + end, index: index})
			i += end
		}
	}
	return out
}

// shapes keeps every list of paths that some message has, once.
type shapes struct {
	ids   map[string]shapeID
	paths [][]pathID
	at    []map[pathID]int32 // where a path stands in a shape; nil until asked for
	key   []byte
}

func (s *shapes) init() {
	s.ids = map[string]shapeID{"": 0}
	s.paths, s.at = [][]pathID{nil}, []map[pathID]int32{nil}
}

func (s *shapes) begin() { s.key = s.key[:0] }

func (s *shapes) push(p pathID) { s.key = binary.LittleEndian.AppendUint32(s.key, uint32(p)) }

func (s *shapes) end() shapeID {
	if id, ok := s.ids[string(s.key)]; ok {
		return id
	}
	id := shapeID(len(s.paths))
	s.ids[string(s.key)] = id
	list := make([]pathID, len(s.key)/4)
	for i := range list {
		list[i] = pathID(binary.LittleEndian.Uint32(s.key[4*i:]))
	}
	s.paths, s.at = append(s.paths, list), append(s.at, nil)
	return id
}

// find gives where a path stands in a shape, -1 for nowhere.
func (s *shapes) find(id shapeID, p pathID) int {
	if s.at[id] == nil {
		s.at[id] = make(map[pathID]int32, len(s.paths[id]))
		for i, path := range s.paths[id] {
			s.at[id][path] = int32(i)
		}
	}
	if i, ok := s.at[id][p]; ok {
		return int(i)
	}
	return -1
}
