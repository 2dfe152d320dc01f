// Package program is what mining learns, and what is grown and replayed: for every type
// of node, the calls it makes, in loops, with the origin of every argument.
//
// It is a typed language: each way to know a value is a type (see Alt), and numbers are
// formulas that can be asked what they are. YAML (docs/formats/program.md) is only its
// notation, for people to read and edit; nothing decides by its text. Reading and writing
// a program again gives the same bytes.
package program

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
	"gleaner/input/mapping"
	"gleaner/trace"
)

// A Program is what nodes of all types do, at any scale n.
type Program struct {
	Version int        `yaml:"version"`
	Scales  []int      `yaml:"scales,flow"` // that it was learned at
	Types   []NodeType `yaml:"types"`
}

// A NodeType is a group of nodes that behave alike.
type NodeType struct {
	Name    string    `yaml:"type"`
	Nodes   Formula   `yaml:"nodes"`               // how many there are
	Also    []Formula `yaml:"also,omitempty,flow"` // other formulas that fit as well
	Sender  Template  `yaml:"sender"`              // the name of each
	Address Template  `yaml:"address,omitempty"`
	Start   *Start    `yaml:"start,omitempty"` // none: at once
	Calls   []Call    `yaml:"calls,omitempty"` // all that it makes; the fields below say when
	Steps   []Step    `yaml:"steps,omitempty"`
	// Beats are called at regular intervals as long as the node lives, beside its
	// steps.
	Beats []Step `yaml:"beats,omitempty"`
	// Leaves: the node ends with its last step, and its beats stop before that.
	Leaves bool `yaml:"leaves,omitempty"`
	// Aside are calls without an order.
	Aside []Step `yaml:"aside,omitempty"`
	// Reactions are to replies that ask for something; of several to one reply, the first.
	Reactions []Reaction `yaml:"reactions,omitempty"`
}

// A Start is when a node starts: some time after other nodes have made a call.
type Start struct {
	After string   `yaml:"after"`           // a call
	Of    string   `yaml:"of,omitempty"`    // the type that makes it
	Share float64  `yaml:"share,omitempty"` // of its nodes that must have made it; 0: the first
	Wait  Interval `yaml:"wait"`
}

// A Call is a place in the program that makes a call.
type Call struct {
	Name   string   `yaml:"call"` // unique in the program
	Target string   `yaml:"target,omitempty"`
	Method string   `yaml:"method"`
	Wait   Interval `yaml:"wait,omitempty"` // after the node's call before
	Joins  Joins    `yaml:"join,omitempty"`
	Until  *Until   `yaml:"until,omitempty"`
	// Refused is the share of its recorded calls that the target refused.
	Refused float64 `yaml:"refused,omitempty"`
	Reach   []Reach `yaml:"reach,omitempty"`
	Lists   Lists   `yaml:"lists,omitempty"` // whose length varies
	Args    Args    `yaml:"args,omitempty"`
}

// A Join holds a call back until other nodes have had the answer to a call; to the last
// one, if they make it aside.
type Join struct {
	After string  `yaml:"after"`           // a call
	Share float64 `yaml:"share,omitempty"` // of the nodes that make it; 0: the first
	// Same is an argument of both calls: it waits for the one that has the same value.
	Same string `yaml:"same,omitempty"`
}

// Joins are all that a call waits for: written as one join, or as a list of them.
type Joins []Join

// MarshalYAML writes a single join without a list.
func (j Joins) MarshalYAML() (any, error) {
	if len(j) == 1 {
		return j[0], nil
	}
	return []Join(j), nil
}

// UnmarshalYAML reads one join, or a list of them.
func (j *Joins) UnmarshalYAML(n *yaml.Node) error {
	all := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		all = n.Content
	}
	*j = make(Joins, len(all))
	for i, one := range all {
		for k := 0; one.Kind == yaml.MappingNode && k < len(one.Content); k += 2 { // Decode lets unknown fields pass
			if key := one.Content[k]; !slices.Contains([]string{"after", "share", "same"}, key.Value) {
				return fmt.Errorf("line %d: field %s not found in a join", key.Line, key.Value)
			}
		}
		if err := one.Decode(&(*j)[i]); err != nil {
			return err
		}
	}
	return nil
}

// A Step makes a call, or repeats steps.
type Step struct {
	Call string `yaml:"call,omitempty"` // by name
	// Repeat is how often a step is made; none means once.
	Repeat *Formula `yaml:"repeat,omitempty"`
	// Also are other formulas that fit and differ at larger scales.
	Also []Formula `yaml:"also,omitempty,flow"`
	// Share of the nodes that make this step; none means all.
	Share float64  `yaml:"share,omitempty"`
	Every Interval `yaml:"every,omitempty"` // of a beat
	Steps []Step   `yaml:"steps,omitempty"` // of a loop
}

// An Until repeats a call until a leaf of its reply has a value.
type Until struct {
	Path  string  `yaml:"reply"`
	Value string  `yaml:"is"`
	Tries float64 `yaml:"tries"` // on average, when recorded
	// Every is the time between tries; if missing, that before the first.
	Every Interval `yaml:"every,omitempty"`
}

// A Reach is how many nodes make a call for each call of another kind: every block that
// is added is reported by min(3, n) nodes.
type Reach struct {
	From  string  `yaml:"from"`
	Nodes Formula `yaml:"nodes"`
}

// An Interval is a time in milliseconds, a formula of the scale.
type Interval struct{ Formula }

// IsZero makes YAML leave out an interval that is not set.
func (i Interval) IsZero() bool { return i.root == nil }

// An Arg is one argument of a call.
type Arg struct {
	Path  string
	Value Template
}

// Args are the arguments of a call, in order.
type Args []Arg

func (a Args) has(path string) bool {
	return slices.ContainsFunc(a, func(arg Arg) bool { return arg.Path == path })
}

// MarshalYAML writes arguments as a mapping in their order.
func (a Args) MarshalYAML() (any, error) {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, arg := range a {
		var key, value yaml.Node
		if err := key.Encode(arg.Path); err != nil {
			return nil, err
		}
		if err := value.Encode(arg.Value); err != nil {
			return nil, err
		}
		out.Content = append(out.Content, &key, &value)
	}
	return out, nil
}

// UnmarshalYAML reads arguments in their order.
func (a *Args) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: arguments are a mapping from path to value", n.Line)
	}
	*a = nil
	for i := 0; i < len(n.Content); i += 2 {
		arg := Arg{Path: n.Content[i].Value}
		if err := arg.Value.UnmarshalYAML(n.Content[i+1]); err != nil {
			return err
		}
		*a = append(*a, arg)
	}
	return nil
}

// UnmarshalYAML reads a formula, a number or a text.
func (f *Formula) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected a formula", n.Line)
	}
	if err := f.UnmarshalText([]byte(n.Value)); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

// Write gives the program as YAML.
func (p *Program) Write() ([]byte, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("program: write: %w", err)
	}
	return buf.Bytes(), enc.Close()
}

// Read reads a program; name is the file's, for errors.
func Read(name string, text []byte) (p *Program, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	p = &Program{}
	if err := dec.Decode(p); errors.Is(err, io.EOF) {
		return nil, input.Errorf(name, "is empty")
	} else if err != nil {
		return nil, mapping.Mistake(name, err)
	}
	if err := p.Check(); err != nil {
		return nil, named(name, text, err)
	}
	return p, nil
}

// A Doubt is a count for which two formulas differ at a scale.
type Doubt struct {
	What     string
	Formulas []string
	Values   []int
}

// Doubts lists what is not certain in the program at a scale.
func (p *Program) Doubts(scale int) []Doubt {
	var out []Doubt
	add := func(what string, all ...Formula) {
		d := Doubt{What: what}
		for _, f := range all {
			if v := f.At(scale); !slices.Contains(d.Values, v) {
				d.Formulas, d.Values = append(d.Formulas, f.String()), append(d.Values, v)
			}
		}
		if len(d.Values) > 1 {
			out = append(out, d)
		}
	}
	for i := range p.Types {
		t := &p.Types[i]
		add("nodes of "+t.Name, append([]Formula{t.Nodes}, t.Also...)...)
		t.Walk(func(s *Step) {
			if s.Repeat != nil {
				add("iterations of "+s.first()+" by "+t.Name, append([]Formula{*s.Repeat}, s.Also...)...)
			}
		})
	}
	return out
}

// first is the first call of a step.
func (s *Step) first() string {
	for s.Call == "" && len(s.Steps) > 0 {
		s = &s.Steps[0]
	}
	return s.Call
}

// Walk visits every step, loops before what is in them.
func (t *NodeType) Walk(visit func(*Step)) {
	var walk func([]Step)
	walk = func(steps []Step) {
		for i := range steps {
			visit(&steps[i])
			walk(steps[i].Steps)
		}
	}
	for _, part := range [][]Step{t.Steps, t.Beats, t.Aside} {
		walk(part)
	}
}

// Check finds errors that editing by hand may have made.
func (p *Program) Check() error {
	if p.Version != 1 {
		return at(fmt.Errorf("version %d; this reads version 1", p.Version), "version")
	}
	if i := slices.IndexFunc(p.Scales, func(n int) bool { return n < 1 || n > trace.MaxScale }); i >= 0 {
		return at(fmt.Errorf("a scale lies between 1 and %d, not %d", trace.MaxScale, p.Scales[i]), "scales", i)
	}
	if len(p.Types) == 0 {
		return errors.New("no node types")
	}
	owner, types := map[string]string{}, map[string]bool{}
	for i := range p.Types {
		t := &p.Types[i]
		if t.Name == "" || types[t.Name] {
			return at(fmt.Errorf("node type %q: a type needs a name of its own", t.Name), "types", i)
		}
		types[t.Name] = true
		for j, c := range t.Calls {
			if c.Name == "" || owner[c.Name] != "" {
				return at(fmt.Errorf("type %s, call %q: a call needs a name of its own", t.Name, c.Name), "types", i, "calls", j)
			}
			owner[c.Name] = t.Name
			if err := c.check(); err != nil {
				return at(fmt.Errorf("call %q: %w", c.Name, err), "types", i, "calls", j)
			}
		}
	}
	for i := range p.Types {
		if err := p.Types[i].check(owner, types); err != nil {
			return at(fmt.Errorf("type %s: %w", p.Types[i].Name, err), "types", i)
		}
	}
	return cmp.Or(p.checkStarts(owner), p.checkReach(), p.checkSame())
}

// checkSame finds calls that wait for one with the same argument, which one of them does not
// have.
func (p *Program) checkSame() error {
	args := map[string]Args{}
	for c := range p.EachCall() {
		args[c.Name] = c.Args
	}
	for i := range p.Types {
		for k, c := range p.Types[i].Calls {
			for _, j := range c.Joins {
				switch {
				case j.Same == "":
				case j.Share > 0:
					return at(fmt.Errorf("call %q: waits for a share of nodes, or for a call with the same argument, and not for both", c.Name), "types", i, "calls", k, "join")
				case !c.Args.has(j.Same) || !args[j.After].has(j.Same):
					return at(fmt.Errorf("call %q: it and %q do not both have an argument %q", c.Name, j.After, j.Same), "types", i, "calls", k, "join")
				}
			}
		}
	}
	return nil
}

// checkReach finds calls that are made, directly or not, for themselves: there would be
// more and more of them.
func (p *Program) checkReach() error {
	from := map[string][]Reach{}
	for i := range p.Types {
		for _, c := range p.Types[i].Calls {
			from[c.Name] = c.Reach
		}
	}
	var leads func(call, to string, seen map[string]bool) bool
	leads = func(call, to string, seen map[string]bool) bool {
		return slices.ContainsFunc(from[call], func(r Reach) bool {
			if r.From == to || seen[r.From] {
				return r.From == to
			}
			seen[r.From] = true
			return leads(r.From, to, seen)
		})
	}
	for i := range p.Types {
		for j, c := range p.Types[i].Calls {
			if leads(c.Name, c.Name, map[string]bool{}) {
				return at(fmt.Errorf("call %q: it is made for calls that are made for it", c.Name), "types", i, "calls", j, "reach")
			}
		}
	}
	return nil
}

// checkStarts finds types that wait for each other to start.
func (p *Program) checkStarts(owner map[string]string) error {
	waits := map[string]string{}
	for i := range p.Types {
		if s := p.Types[i].Start; s != nil {
			waits[p.Types[i].Name] = owner[s.After]
		}
	}
	for i := range p.Types {
		of := p.Types[i].Name
		for range p.Types {
			of = waits[of]
		}
		if of != "" {
			return at(fmt.Errorf("type %s: it never starts, because the types it waits for wait for each other", p.Types[i].Name), "types", i, "start")
		}
	}
	return nil
}

// check finds errors in a single call.
func (c *Call) check() error {
	if c.Method == "" {
		return errors.New("it has no method")
	}
	if err := known(c.Wait.Formula, N); err != nil {
		return at(err, "wait")
	}
	for i, j := range c.Joins {
		if err := checkShare(j.Share); err != nil {
			return at(err, "join", i, "share")
		}
	}
	if c.Until != nil {
		if err := known(c.Until.Every.Formula, N); err != nil {
			return at(err, "until", "every")
		}
	}
	if err := checkShare(c.Refused); err != nil {
		return at(err, "refused")
	}
	for i, r := range c.Reach {
		if err := known(r.Nodes, N); err != nil {
			return at(err, "reach", i, "nodes")
		}
	}
	for _, l := range c.Lists {
		for _, f := range l.Lengths {
			if err := known(f, N); err != nil {
				return at(err, "lists", l.Path)
			}
		}
	}
	return nil
}

func (t *NodeType) check(owner map[string]string, types map[string]bool) error {
	if err := known(t.Nodes, N); err != nil {
		return at(err, "nodes")
	}
	if s := t.Start; s != nil {
		if owner[s.After] == "" {
			return at(fmt.Errorf("starts after the call %q, which does not exist", s.After), "start", "after")
		}
		if s.Of != "" && !types[s.Of] {
			return at(fmt.Errorf("starts after the type %q, which does not exist", s.Of), "start", "of")
		}
		if err := cmp.Or(at(checkShare(s.Share), "share"), at(known(s.Wait.Formula, N), "wait")); err != nil {
			return at(err, "start")
		}
	}
	for i, c := range t.Calls {
		if err := c.checkFlows(owner); err != nil {
			return at(fmt.Errorf("call %q%w", c.Name, err), "calls", i)
		}
	}
	for i := range t.Beats {
		if t.Beats[i].Call == "" {
			return at(errors.New("a beat is a call, and no loop"), "beats", i)
		}
	}
	for i := range t.Reactions {
		if err := t.Reactions[i].check(t); err != nil {
			return at(err, "reactions", i)
		}
	}
	return cmp.Or(
		at(checkSteps(t.Steps, t.Name, owner), "steps"),
		at(checkSteps(t.Beats, t.Name, owner), "beats"),
		at(checkSteps(t.Aside, t.Name, owner), "aside"))
}

// checkFlows finds calls that do not exist and that a call is made for, or takes values
// from.
func (c *Call) checkFlows(owner map[string]string) error {
	for i, j := range c.Joins {
		if owner[j.After] == "" {
			return at(fmt.Errorf(": joins the call %q, which does not exist", j.After), "join", i, "after")
		}
	}
	for i, r := range c.Reach {
		if owner[r.From] == "" {
			return at(fmt.Errorf(": made for the call %q, which does not exist", r.From), "reach", i)
		}
	}
	for _, a := range c.Args {
		for alt := range a.Value.Alts() {
			if past, ok := alt.(*Past); ok && past.Of.Call != "" && owner[past.Of.Call] == "" {
				return at(fmt.Errorf(", argument %s: taken from the call %q, which does not exist", a.Path, past.Of.Call), "args", a.Path)
			}
		}
	}
	return nil
}

func checkSteps(steps []Step, kind string, owner map[string]string) error {
	for i := range steps {
		if err := steps[i].check(kind, owner); err != nil {
			return at(err, i)
		}
		if err := checkSteps(steps[i].Steps, kind, owner); err != nil {
			return at(err, i, "steps")
		}
	}
	return nil
}

func (s *Step) check(kind string, owner map[string]string) error {
	switch {
	case s.Call == "" && len(s.Steps) == 0:
		return errors.New("a step is neither a call nor a loop")
	case s.Call != "" && len(s.Steps) > 0:
		return fmt.Errorf("step %q is a call and a loop at once", s.Call)
	case s.Call != "" && owner[s.Call] != kind:
		return fmt.Errorf("step %q: this type has no such call", s.Call)
	}
	if err := checkShare(s.Share); err != nil {
		return fmt.Errorf("step %q: %w", s.Call, err)
	}
	if s.Repeat != nil {
		if err := known(*s.Repeat, N, Node); err != nil {
			return at(err, "repeat")
		}
	}
	return at(known(s.Every.Formula, N, Node), "every")
}

func checkShare(share float64) error {
	if !(share >= 0 && share <= 1) { // also NaN
		return fmt.Errorf("a share lies between 0 and 1, not %g", share)
	}
	return nil
}

// known is an error for names in a formula that have no value there.
func known(f Formula, names ...Variable) error {
	here := string(names[0])
	for _, name := range names[1:] {
		here += " and " + string(name)
	}
	for _, name := range f.Names() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("formula %q: %q is not known here; %s", f, name, here)
		}
	}
	return nil
}
