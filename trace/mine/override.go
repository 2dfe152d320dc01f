package mine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
	"gleaner/input/mapping"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/kind"
	"gleaner/trace/program"
)

// Overrides are the user's corrections (docs/trace.md): which senders are of one
// type, the values of arguments, and what calls wait for.
type Overrides struct {
	// For are the fingerprints of the programs that rules for a single call are meant
	// for: another program has other calls of the same names.
	For []string `yaml:"for"`
	// Without are senders that are left out: they are part of the target itself, and
	// do what they do when others are played to it.
	Without Pattern `yaml:"without"`
	// Same is the argument that names what a call is about; see Model.Follow.
	Same      string      `yaml:"same"`
	Types     []kind.Rule `yaml:"types"`
	Arguments []ArgRule   `yaml:"arguments"`
	Calls     []CallRule  `yaml:"calls"`
	Reactions []HeedRule  `yaml:"reactions"`
}

// A Pattern is a regular expression of whole names; the zero value matches none.
type Pattern struct {
	text string
	of   *regexp.Regexp
}

// Only is the pattern of one name.
func Only(name string) Pattern {
	return Pattern{name, regexp.MustCompile("^" + regexp.QuoteMeta(name) + "$")}
}

// Match reports whether a whole name fits.
func (p *Pattern) Match(name string) bool { return p.of != nil && p.of.MatchString(name) }

// UnmarshalYAML reads a pattern.
func (p *Pattern) UnmarshalYAML(n *yaml.Node) error {
	of, err := regexp.Compile("^(?:" + n.Value + ")$")
	if err != nil || n.Value == "" {
		return fmt.Errorf("line %d: %q is no regular expression of names", n.Line, n.Value)
	}
	p.text, p.of = n.Value, of
	return nil
}

// LeavesOut reports whether calls of a sender are not learned from.
func (o *Overrides) LeavesOut(sender string) bool { return o.Without.Match(sender) }

// A Signature says which calls a rule is for: those that have all that is named. A type, a
// method and a number among the calls of both mean the same call in programs learned from
// other recordings; the number in a call's name need not.
type Signature struct {
	Call   string  `yaml:"call"` // a name
	Type   string  `yaml:"type"` // of nodes
	Method Pattern `yaml:"method"`
	Nth    int     `yaml:"nth"` // of the calls of the type and the method; 1 is the first
}

// A CallRule says what a call waits for, or what it is made for.
type CallRule struct {
	Signature `yaml:",inline"`
	Joins     program.Joins   `yaml:"join"`
	Reach     []program.Reach `yaml:"reach"`
}

// A HeedRule says how nodes react to replies, those of one type or of all that call one of the
// methods.
type HeedRule struct {
	Type string  `yaml:"type"`
	To   Pattern `yaml:"to"` // methods
	// The calls that are made then are named, or given by their method: the first call of it
	// that the type has.
	program.Heed `yaml:",inline"`
}

// An ArgRule gives an argument its value: that of a name, or all that have a value now.
type ArgRule struct {
	Signature `yaml:",inline"`
	Argument  string            `yaml:"argument"`
	Was       *program.Template `yaml:"was"`
	Value     program.Template  `yaml:"value"`
}

// ReadOverrides reads overrides; name is the file's, for errors.
func ReadOverrides(name string, text []byte) (*Overrides, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	out := &Overrides{}
	if err := dec.Decode(out); err != nil && err != io.EOF {
		return nil, mapping.Mistake(name, err)
	}
	return out, nil
}

// Learn mines the recordings of a corpus with the user's corrections; name is the file they
// are in, for errors. Calls of senders that are left out must not be in the corpus.
func (o *Overrides) Learn(ctx context.Context, name string, c *corpus.Corpus) (*Model, error) {
	m, err := Learn(ctx, c, o.Types...)
	if err != nil {
		return nil, err
	}
	if o.Same != "" {
		m.Follow(o.Same)
	}
	return m, o.Apply(name, m.Program)
}

// Apply changes the program. It is an input error if they are for another program, if no
// call has an argument, if a call does not exist, or if the changed program is not valid.
func (o *Overrides) Apply(name string, p *program.Program) error {
	if err := o.meant(name, p); err != nil {
		return err
	}
	for _, rule := range o.Arguments {
		if err := rule.apply(name, p); err != nil {
			return err
		}
	}
	for _, rule := range o.Calls {
		if err := rule.apply(name, p); err != nil {
			return err
		}
	}
	for _, rule := range o.Reactions {
		if err := rule.apply(name, p); err != nil {
			return err
		}
	}
	if err := p.Check(); err != nil {
		return input.Errorf(name, "the program made with it: %v", err)
	}
	return nil
}

// calls are the calls that the signature is of.
func (s Signature) calls(p *program.Program) (out []*program.Call) {
	for i := range p.Types {
		nth := 0
		for k := range p.Types[i].Calls {
			c := &p.Types[i].Calls[k]
			if s.Type != "" && s.Type != p.Types[i].Name || s.Method.of != nil && !s.Method.Match(c.Method) || s.Call != "" && s.Call != c.Name {
				continue
			}
			if nth++; s.Nth == 0 || s.Nth == nth {
				out = append(out, c)
			}
		}
	}
	return out
}

// none says that nothing is named.
func (s Signature) none() bool {
	return s.Call == "" && s.Type == "" && s.Method.of == nil && s.Nth == 0
}

// String is the signature as errors say it.
func (s Signature) String() string {
	out := "call"
	if s.Call != "" || s.Method.text != "" {
		out += fmt.Sprintf(" of %q", cmp.Or(s.Call, s.Method.text))
	}
	if s.Type != "" {
		out += fmt.Sprintf(" by %q", s.Type)
	}
	if s.Nth > 0 {
		out += fmt.Sprintf(" with the number %d", s.Nth)
	}
	return out
}

// check is an error for a number among calls that are not those of one type and method.
func (s Signature) check(name string) error {
	if s.Nth < 0 || s.Nth > 0 && (s.Type == "" || s.Method.text == "") {
		return input.Errorf(name, "nth: %d counts the calls of a type and a method from 1, so both must be named", s.Nth)
	}
	return nil
}

// apply gives the arguments their value.
func (rule ArgRule) apply(name string, p *program.Program) error {
	if err := rule.check(name); err != nil {
		return err
	}
	if rule.Argument == "" && rule.Was == nil {
		return input.Errorf(name, "a rule for a %s names no argument", rule.Signature)
	}
	found := false
	for _, c := range rule.calls(p) {
		for k := range c.Args {
			a := &c.Args[k]
			if rule.Argument != "" && !names(rule.Argument, a.Path) || rule.Was != nil && rule.Was.String() != a.Value.String() {
				continue
			}
			a.Value, found = rule.Value, true
			c.Lists = slices.DeleteFunc(c.Lists, func(l program.List) bool { return l.Path == innermost(a.Path) })
		}
	}
	switch {
	case found:
		return nil
	case rule.Was != nil:
		return input.Errorf(name, "no %s has an argument that was %q", rule.Signature, rule.Was)
	}
	return input.Errorf(name, "no %s has an argument %q", rule.Signature, rule.Argument)
}

// names reports whether an override's argument is the one at path. A list that had one element
// in all recordings is no list in the program, and [*] is then its index.
func names(argument, path string) bool { return argument == path || program.Matches(path, argument) }

// apply replaces what calls wait for.
func (rule CallRule) apply(name string, p *program.Program) error {
	if err := rule.check(name); err != nil {
		return err
	}
	calls := rule.calls(p)
	if rule.Signature.none() || len(calls) == 0 {
		return input.Errorf(name, "there is no %s that could join others", rule.Signature)
	}
	for _, c := range calls {
		if rule.Joins != nil {
			c.Joins = rule.Joins
		}
		if rule.Reach != nil {
			c.Reach = rule.Reach
		}
	}
	return nil
}

// apply adds a reaction to the types that it is for.
func (rule HeedRule) apply(name string, p *program.Program) error {
	found := false
	for i := range p.Types {
		t := &p.Types[i]
		to := methodsOf(t, &rule.To)
		if rule.Type != "" && rule.Type != t.Name || len(to) == 0 {
			continue
		}
		found = true
		heed := rule.Heed
		heed.Calls = slices.Clone(rule.Calls)
		for k := range heed.Calls {
			c := &heed.Calls[k]
			if at := slices.IndexFunc(t.Calls, func(of program.Call) bool { return of.Method == c.Call }); at >= 0 {
				c.Call = t.Calls[at].Name
			}
		}
		t.Reactions = append(t.Reactions, program.Reaction{To: to, Heed: heed})
	}
	if !found {
		return input.Errorf(name, "there is no %s that a node could react to", Signature{Type: rule.Type, Method: rule.To})
	}
	return nil
}

// methodsOf are the methods of a type that fit a pattern.
func methodsOf(t *program.NodeType, fit *Pattern) (out []string) {
	for _, c := range t.Calls {
		if fit.Match(c.Method) && !slices.Contains(out, c.Method) {
			out = append(out, c.Method)
		}
	}
	return out
}

// meant is an error if the rules say for which programs they are, and the program has other
// calls of the methods that they name. If they name single calls, they have to say so: the
// numbers of calls mean something else in another program.
func (o *Overrides) meant(name string, p *program.Program) error {
	methods, single := o.named()
	if single == "" && len(o.For) == 0 {
		return nil
	}
	switch print := fingerprint(p, methods); {
	case slices.Contains(o.For, print):
		return nil
	case len(o.For) == 0:
		return input.Errorf(name, "it names the call %q, so it must say of which program; of the one learned here it would be \"for: [%s]\"", single, print)
	default:
		return input.Errorf(name, "it is for another program (for: [%s]): the one learned here (%s) makes other calls of the methods that it names", strings.Join(o.For, ", "), print)
	}
}

// named says which methods rules name, and gives one of the calls that they name one by one.
func (o *Overrides) named() (has func(method string) bool, single string) {
	var patterns []Pattern
	add := func(s Signature, calls ...string) {
		patterns = append(patterns, s.Method)
		for _, call := range append(calls, s.Call) {
			if call != "" {
				patterns, single = append(patterns, Only(method(call))), cmp.Or(single, call)
			}
		}
	}
	for _, rule := range o.Arguments {
		add(rule.Signature)
	}
	for _, rule := range o.Calls {
		add(rule.Signature)
		for _, j := range rule.Joins {
			add(Signature{}, j.After)
		}
		for _, r := range rule.Reach {
			add(Signature{}, r.From)
		}
	}
	for _, rule := range o.Reactions {
		for _, c := range rule.Calls {
			if strings.Contains(c.Call, "#") { // by its number in the program
				add(Signature{}, c.Call)
			}
		}
	}
	return func(method string) bool {
		return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Match(method) })
	}, single
}

// fingerprint is the same for programs in which nodes of the same types make the same
// calls of some methods.
func fingerprint(p *program.Program, has func(method string) bool) string {
	var lines []string
	for i := range p.Types {
		for _, c := range p.Types[i].Calls {
			if has(method(c.Name)) {
				lines = append(lines, fmt.Sprintf("%q %q %q", p.Types[i].Name, c.Name, c.Target))
			}
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:6])
}

// method is a call's name without its number.
func method(call string) string {
	before, _, _ := strings.Cut(call, "#")
	return before
}

// innermost is the list that an argument stands in. An override also decides its
// length, by the source of its values.
func innermost(path string) string {
	return path[:max(0, strings.LastIndex(path, "[*]"))]
}
