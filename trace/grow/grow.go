// Package grow makes the traffic of any scale from a program.
//
// Calls are made one at a time, node after node, and nothing is kept of a node that is
// done: a hundred thousand nodes take the memory of one. A value that comes from a reply
// is left as a placeholder, the program's own expression in braces, for the player that
// gets the reply (PatternMiner §III-B5).
package grow

import (
	"iter"
	"math/rand/v2"
	"sort"
	"strings"
	"time"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// A Setting is how large to grow: the scale, and the number of nodes of types for which
// the program's formula is not used.
type Setting struct {
	Scale int
	Nodes map[string]int
	Start time.Time     // of the first call
	Beats time.Duration // how long heartbeats go on; 0: until the last node is done
	Run   string
}

// Resolve completes a setting: a scale that is not given follows from the
// number of nodes of a type. A type that does not exist is an input.Error.
func Resolve(p *program.Program, s Setting) (Setting, error) {
	known := map[string]program.Formula{}
	names := make([]string, 0, len(p.Types))
	for _, t := range p.Types {
		known[t.Name] = t.Nodes
		names = append(names, t.Name)
	}
	given := make([]string, 0, len(s.Nodes))
	for name := range s.Nodes {
		given = append(given, name)
	}
	sort.Strings(given)
	for _, name := range given {
		f, ok := known[name]
		if !ok {
			return s, input.Fieldf("nodes", "the program has no node type %q; it has %s", name, strings.Join(names, ", "))
		}
		if s.Nodes[name] < 0 || s.Nodes[name] > trace.MaxScale {
			return s, input.Fieldf("nodes", "%s=%d: a number of nodes is between 0 and %d", name, s.Nodes[name], trace.MaxScale)
		}
		if s.Scale == 0 && !f.Constant() {
			s.Scale = invert(f, s.Nodes[name])
		}
	}
	if s.Scale < 0 || s.Scale > trace.MaxScale {
		return s, input.Fieldf("scale", "%d is not between 1 and %d", s.Scale, trace.MaxScale)
	}
	if s.Beats < 0 {
		return s, input.Fieldf("beats", "%v is negative", s.Beats)
	}
	if s.Scale == 0 {
		return s, input.Fieldf("scale", "the numbers of nodes given do not determine the scale; give it")
	}
	for i := range p.Types {
		if t := &p.Types[i]; s.Count(t) > trace.MaxScale {
			return s, input.Fieldf("scale", "n = %d makes %d nodes of %s, more than %d; give another, or the nodes of each type", s.Scale, s.Count(t), t.Name, trace.MaxScale)
		}
	}
	if s.Start.IsZero() {
		s.Start = time.Unix(0, 0).UTC().AddDate(30, 0, 0)
	}
	return s, nil
}

// invert is the smallest scale at which a formula that grows gives v; 0 for none.
func invert(f program.Formula, v int) int {
	n := sort.Search(trace.MaxScale+1, func(n int) bool { return f.At(n) >= v })
	if n > trace.MaxScale {
		return 0
	}
	return n
}

// Count is how many nodes of a type there are.
func (s Setting) Count(t *program.NodeType) int {
	if n, ok := s.Nodes[t.Name]; ok {
		return n
	}
	return t.Nodes.At(s.Scale)
}

// Calls yields the calls of one node after another, each node's in the order of time. A
// call is valid until the next one is yielded.
func Calls(p *program.Program, s Setting, chance *rand.Rand) iter.Seq[*trace.Call] {
	return func(yield func(*trace.Call) bool) {
		starts := startTimes(p, s)
		end := later(s.Start.UnixNano(), s.Beats.Nanoseconds())
		if s.Beats == 0 {
			end = lastCall(p, s, starts)
		}
		for i := range p.Types {
			t := &p.Types[i]
			calls := byName(t)
			for rank := range s.Count(t) {
				n := newNode(t, calls, s, rank, chance)
				n.at, n.yield = starts[t.Name], yield
				if !n.play(end) {
					return
				}
			}
		}
	}
}

// farthest is the latest time of a call: sums of times beyond it would overflow.
const farthest = 1 << 62

func later(at, by int64) int64 { return at + min(by, farthest-min(at, farthest)) }

// lastCall is when the first nodes of all types have made their steps.
func lastCall(p *program.Program, s Setting, starts map[string]int64) int64 {
	end := s.Start.UnixNano()
	for i := range p.Types {
		t := &p.Types[i]
		if s.Count(t) == 0 {
			continue
		}
		n := newNode(t, byName(t), s, 0, rand.New(rand.NewPCG(0, 0)))
		end = max(end, later(later(starts[t.Name], n.span(t.Steps)), n.span(t.Aside)))
	}
	return end
}

func byName(t *program.NodeType) map[string]*program.Call {
	out := make(map[string]*program.Call, len(t.Calls))
	for i := range t.Calls {
		out[t.Calls[i].Name] = &t.Calls[i]
	}
	return out
}

// startTimes gives the start of each type: that of the type it waits for, plus the wait
// of the program. When the call comes that it waits for is known only in a replay.
func startTimes(p *program.Program, s Setting) map[string]int64 {
	out := map[string]int64{}
	byName := map[string]*program.NodeType{}
	for i := range p.Types {
		byName[p.Types[i].Name] = &p.Types[i]
	}
	var at func(name string, depth int) int64
	at = func(name string, depth int) int64 {
		if t, ok := out[name]; ok {
			return t
		}
		t := byName[name]
		start := s.Start.UnixNano()
		if t != nil && t.Start != nil && depth < len(p.Types) {
			start = at(t.Start.Of, depth+1) + value.Millis(t.Start.Wait.Formula, s.Scale, 0)
		}
		out[name] = start
		return start
	}
	for _, t := range p.Types {
		at(t.Name, 0)
	}
	return out
}

// A node plays its type's program once.
type node struct {
	kind    *program.NodeType
	calls   map[string]*program.Call
	setting Setting
	rank    int
	at      int64
	made    map[string]int // how often each call was made
	yield   func(*trace.Call) bool

	scene value.Scene
	room  int // elements that the lists of the call may still have
	out   trace.Call
}

func newNode(t *program.NodeType, calls map[string]*program.Call, s Setting, rank int, chance *rand.Rand) *node {
	return &node{kind: t, calls: calls, setting: s, rank: rank, made: map[string]int{},
		scene: value.Scene{Place: value.Place{Scale: s.Scale, Node: rank}, Chance: chance}}
}

// play makes the node's calls, and its heartbeats until end.
func (n *node) play(end int64) bool {
	fill := func(t program.Template) string {
		return t.Fill(func(h *program.Hole) string { return n.fill(h, nil, 0) })
	}
	n.scene.Sender, n.scene.Address = fill(n.kind.Sender), fill(n.kind.Address)
	begin := n.at
	if !n.steps(n.kind.Steps) || !n.steps(n.kind.Aside) {
		return false
	}
	for _, b := range n.kind.Beats {
		every := max(value.Millis(b.Every.Formula, n.setting.Scale, n.rank), 1e6)
		for n.at = begin; n.at <= end; n.at += every {
			if !n.call(n.calls[b.Call], 0) {
				return false
			}
		}
	}
	return true
}

func (n *node) steps(steps []program.Step) bool {
	for i := range steps {
		s := &steps[i]
		if s.Share > 0 && n.scene.Chance.Float64() >= s.Share || value.Idle(s, n.setting.Scale, n.rank) {
			continue
		}
		for range value.Times(s.Repeat, n.setting.Scale, n.rank, n.scene.Chance) {
			if s.Call == "" {
				if !n.steps(s.Steps) {
					return false
				}
				continue
			}
			c := n.calls[s.Call]
			if !n.call(c, value.Millis(c.Wait.Formula, n.setting.Scale, n.rank)) {
				return false
			}
		}
	}
	return true
}

// span is how long the steps take on average. It is computed without making the calls,
// because at a large scale a node may have very many.
func (n *node) span(steps []program.Step) int64 {
	sum := value.Sum(steps, n.setting.Scale, n.rank, func(call string) float64 {
		return float64(value.Millis(n.calls[call].Wait.Formula, n.setting.Scale, n.rank))
	})
	return int64(min(sum, farthest))
}

func (n *node) call(c *program.Call, wait int64) bool {
	n.at = min(n.at+wait, farthest)
	n.out = trace.Call{Run: n.setting.Run, Scale: n.setting.Scale, Start: n.at, Sender: n.scene.Sender, Address: n.scene.Address,
		Target: c.Target, Method: c.Method, Request: n.out.Request[:0]}
	if n.out.Run == "" {
		n.out.Run = "grown"
	}
	n.room = value.MaxElements
	c.Elements(n.length, func(path string, item int, v program.Template) {
		n.out.Request = append(n.out.Request, n.leaf(c, path, item, v))
	})
	n.made[c.Name]++
	return n.yield(&n.out)
}

// length is the length of a list in this call.
func (n *node) length(l program.List) int {
	long := min(value.Length(l, n.setting.Scale, n.scene.Chance), n.room)
	n.room -= long
	return long
}

// leaf fills in one argument.
func (n *node) leaf(c *program.Call, path string, item int, v program.Template) trace.Leaf {
	text := v.Fill(func(h *program.Hole) string { return n.fill(h, c, item) })
	l := trace.Leaf{Path: path, Kind: trace.String, Value: text}
	if v.Bare {
		l.Kind = value.Bare(text)
	}
	return l
}

// fill gives a hole's value, or the hole itself if the value comes from a reply.
func (n *node) fill(h *program.Hole, c *program.Call, item int) string {
	n.scene.Nth, n.scene.Item, n.scene.At = 0, item, n.at
	if c != nil {
		n.scene.Nth = n.made[c.Name]
	}
	for _, a := range h.Alts {
		if text, ok := n.scene.Alt(a); ok {
			return value.Pad(text, h.Width)
		}
		if _, chosen := a.(program.Case); !chosen {
			break
		}
	}
	return h.String()
}
