// Package grow makes the traffic of any scale from a program.
//
// Calls are made one at a time, node after node, and nothing is kept of a node
// that is done: growing a hundred thousand nodes takes the memory of one. What
// a reply will give is left as a placeholder, the program's own expression in
// braces, for the player that gets the reply (PatternMiner §III-B5).
package grow

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"time"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/program"
)

// A Setting is how large to grow: the scale, and how many nodes of which type
// where the program's own formula is not to be used.
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
			return s, input.Errorf("--nodes", "the program has no node type %q; it has %s", name, strings.Join(names, ", "))
		}
		if s.Nodes[name] < 0 {
			return s, input.Errorf("--nodes", "%s=%d: a number of nodes is not negative", name, s.Nodes[name])
		}
		if s.Scale == 0 && !f.Constant() {
			s.Scale = invert(f, s.Nodes[name])
		}
	}
	if s.Scale == 0 {
		return s, input.Errorf("--scale", "the scale follows from none of the nodes given; give it")
	}
	if s.Start.IsZero() {
		s.Start = time.Unix(0, 0).UTC().AddDate(30, 0, 0)
	}
	return s, nil
}

// invert is the smallest scale at which a formula that grows gives v; 0 for none.
func invert(f program.Formula, v int) int {
	const limit = 1 << 31
	n := sort.Search(limit, func(n int) bool { return f.At(n) >= v })
	if n == limit {
		return 0
	}
	return n
}

// Nodes is how many nodes of a type there are.
func (s Setting) nodes(t *program.NodeType) int {
	if n, ok := s.Nodes[t.Name]; ok {
		return n
	}
	return t.Nodes.At(s.Scale)
}

// Calls yields the calls of every node in turn, each node's in time. A call is
// valid until the next is asked for.
func Calls(p *program.Program, s Setting, chance *rand.Rand) iter.Seq[*trace.Call] {
	return func(yield func(*trace.Call) bool) {
		starts := startTimes(p, s)
		end := s.Start.UnixNano() + s.Beats.Nanoseconds()
		if s.Beats == 0 {
			end = lastCall(p, s, starts)
		}
		for i := range p.Types {
			t := &p.Types[i]
			calls := byName(t)
			for rank := range s.nodes(t) {
				n := &node{kind: t, calls: calls, setting: s, rank: rank, chance: chance, at: starts[t.Name], made: map[string]int{}, yield: yield}
				if !n.play(end) {
					return
				}
			}
		}
	}
}

// lastCall is when the last type is done with its steps, by its first node.
func lastCall(p *program.Program, s Setting, starts map[string]int64) int64 {
	end := s.Start.UnixNano()
	for i := range p.Types {
		t := &p.Types[i]
		if s.nodes(t) == 0 {
			continue
		}
		n := &node{kind: t, calls: byName(t), setting: s, chance: rand.New(rand.NewPCG(0, 0)), at: starts[t.Name], made: map[string]int{},
			yield: func(*trace.Call) bool { return true }}
		n.steps(t.Steps)
		n.steps(t.Aside)
		end = max(end, n.at)
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

// startTimes places the start of each type: behind the type it waits for, by
// the wait the program says. What in that type's life it waits for is known
// only when it is played.
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
			start = at(t.Start.Of, depth+1) + millis(t.Start.Wait.Formula, s.Scale, 0)
		}
		out[name] = start
		return start
	}
	for _, t := range p.Types {
		at(t.Name, 0)
	}
	return out
}

// millis is an interval in nanoseconds; a formula that turns negative or wild
// beyond the scales it was learned at is cut to an hour.
func millis(f program.Formula, scale, rank int) int64 {
	v := f.Eval(program.Vars{"n": float64(scale), "node": float64(rank)})
	if math.IsNaN(v) || v < 0 {
		return 0
	}
	return int64(min(v, 3.6e6) * 1e6)
}

// A node plays its type's program once.
type node struct {
	kind    *program.NodeType
	calls   map[string]*program.Call
	setting Setting
	rank    int
	chance  *rand.Rand
	at      int64
	made    map[string]int // how often each call was made
	yield   func(*trace.Call) bool

	sender, address string
	vars            program.Vars
	out             trace.Call
}

// play makes the node's calls; its heartbeats go on until end.
func (n *node) play(end int64) bool {
	fill := func(t program.Template) string {
		return t.Fill(func(h *program.Hole) string { return n.fill(h, nil, 0) })
	}
	n.sender, n.address = fill(n.kind.Sender), fill(n.kind.Address)
	begin := n.at
	if !n.steps(n.kind.Steps) || !n.steps(n.kind.Aside) {
		return false
	}
	for _, b := range n.kind.Beats {
		every := max(millis(b.Every.Formula, n.setting.Scale, n.rank), 1e6)
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
		if s.Share > 0 && n.chance.Float64() >= s.Share {
			continue
		}
		for range n.times(s) {
			if s.Call == "" {
				if !n.steps(s.Steps) {
					return false
				}
				continue
			}
			c := n.calls[s.Call]
			if !n.call(c, millis(c.Wait.Formula, n.setting.Scale, n.rank)) {
				return false
			}
		}
	}
	return true
}

// times is how often a step is made; what is left of a whole number decides by
// chance, so that the sum over all nodes is right.
func (n *node) times(s *program.Step) int {
	if s.Repeat == nil {
		return 1
	}
	v := s.Repeat.Eval(program.Vars{"n": float64(n.setting.Scale), "node": float64(n.rank)})
	if math.IsNaN(v) || v <= 0 {
		return 0
	}
	whole := math.Floor(v)
	if v-whole > 1e-9 && n.chance.Float64() < v-whole {
		whole++
	}
	return int(min(whole, 1e9))
}

func (n *node) call(c *program.Call, wait int64) bool {
	n.at += wait
	n.out = trace.Call{Run: n.setting.Run, Scale: n.setting.Scale, Start: n.at, Sender: n.sender, Address: n.address,
		Target: c.Target, Method: c.Method, Request: n.out.Request[:0]}
	if n.out.Run == "" {
		n.out.Run = "grown"
	}
	c.Elements(n.length, func(path string, item int, value program.Template) {
		n.out.Request = append(n.out.Request, n.leaf(c, path, item, value))
	})
	n.made[c.Name]++
	return n.yield(&n.out)
}

// length is how long a list is this time.
func (n *node) length(l program.List) int {
	f := l.Lengths[0]
	if len(l.Lengths) > 1 {
		f = l.Lengths[n.chance.IntN(len(l.Lengths))]
	}
	return max(0, min(f.At(n.setting.Scale), maxList))
}

// maxList bounds what a formula may do to a list far beyond what was seen.
const maxList = 1 << 20

// leaf fills in one argument.
func (n *node) leaf(c *program.Call, path string, item int, value program.Template) trace.Leaf {
	text := value.Fill(func(h *program.Hole) string { return n.fill(h, c, item) })
	l := trace.Leaf{Path: path, Kind: trace.String, Value: text}
	if value.Bare {
		l.Kind = bareKind(text)
	}
	return l
}

// bareKind is the kind of a value that is not a string; a placeholder stays one
// until it is filled.
func bareKind(text string) trace.Kind {
	if text == "true" || text == "false" {
		return trace.Bool
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return trace.Int
	}
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		return trace.Int
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && strings.Trim(text, "+-.0123456789eE") == "" {
		return trace.Float
	}
	return trace.String
}

// fill gives a hole's value, or the hole itself where only a reply can.
func (n *node) fill(h *program.Hole, c *program.Call, item int) string {
	nth := 0
	if c != nil {
		nth = n.made[c.Name]
	}
	for _, a := range h.Alts {
		if text, ok := n.alt(a, nth, item); ok {
			return strings.Repeat("0", max(0, h.Width-len(text))) + text
		}
		if a.Kind != program.Case {
			break
		}
	}
	return h.String()
}

func (n *node) alt(a program.Alt, nth, item int) (string, bool) {
	if n.vars == nil {
		n.vars = program.Vars{"n": float64(n.setting.Scale), "node": float64(n.rank)}
	}
	vars := n.vars
	vars["i"], vars["item"] = float64(nth), float64(item)
	switch a.Kind {
	case program.Number:
		return strconv.FormatFloat(math.Round(a.Formula.Eval(vars)), 'f', -1, 64), true
	case program.Const:
		return a.Texts[0], true
	case program.First:
		return a.Texts[min(nth, 1)], true
	case program.Now:
		return n.now(a.Unit), true
	case program.Draw:
		return a.Texts[n.chance.IntN(len(a.Texts))], true
	case program.Unknown:
		return n.unknown(a.Unit), true
	case program.Case:
		return n.pick(a, vars)
	case program.Sender:
		return word(n.sender, a.Word)
	case program.Address:
		return word(n.address, a.Word)
	}
	return "", false
}

// pick is the case that a number decides; one that an argument decides is the player's.
func (n *node) pick(a program.Alt, vars program.Vars) (string, bool) {
	if a.Is != "arg" {
		key := strconv.FormatFloat(vars[a.Path], 'f', -1, 64)
		for i := 0; i+1 < len(a.Texts); i += 2 {
			if a.Texts[i] == key {
				return a.Texts[i+1], true
			}
		}
	}
	return a.Where, a.Any && a.Is != "arg"
}

func (n *node) now(unit string) string {
	switch unit {
	case "rfc3339":
		return time.Unix(0, n.at).UTC().Format(time.RFC3339Nano)
	case "hexns":
		return strconv.FormatInt(n.at, 16)
	}
	return strconv.FormatInt(n.at/map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit], 10)
}

// unknown makes up a value of a kind.
func (n *node) unknown(kind string) string {
	switch kind {
	case "uuid":
		a, b := n.chance.Uint64(), n.chance.Uint64()
		return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff, b&0xffffffffffff)
	case "hex":
		return fmt.Sprintf("%08x", n.chance.Uint32())
	case "port":
		return strconv.Itoa(32768 + n.chance.IntN(28232))
	case "time":
		return n.now("ms")
	case "bytes":
		return fmt.Sprintf("base64:%08x", n.chance.Uint32())
	case "word":
		out := make([]byte, 5)
		for i := range out {
			out[i] = "bcdfghjklmnpqrstvwxz2456789"[n.chance.IntN(27)]
		}
		return string(out)
	}
	return strconv.FormatInt(n.chance.Int64N(1<<31), 10)
}

// word is one word of a text, or all of it for -1.
func word(text string, at int) (string, bool) {
	if at < 0 {
		return text, true
	}
	words := strings.FieldsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	if at >= len(words) {
		return "", false
	}
	return words[at], true
}
