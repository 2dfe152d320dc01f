package mine

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
	"gleaner/input/mapping"
	"gleaner/trace/mine/kind"
	"gleaner/trace/program"
)

// Overrides are the user's corrections (docs/trace.md): which senders are of one
// type, the values of arguments, and what calls wait for.
type Overrides struct {
	// For are the fingerprints of the programs that rules for a single call are meant
	// for: another program has other calls of the same names.
	For       []string    `yaml:"for"`
	Types     []kind.Rule `yaml:"types"`
	Arguments []ArgRule   `yaml:"arguments"`
	Calls     []CallRule  `yaml:"calls"`
}

// A Signature says which calls a rule is for: those that have all that is named. A type, a
// method and a number among the calls of both mean the same call in programs learned from
// other recordings; the number in a call's name need not.
type Signature struct {
	Call   string `yaml:"call"` // a name
	Type   string `yaml:"type"` // of nodes
	Method string `yaml:"method"`
	Nth    int    `yaml:"nth"` // of the calls of the type and the method; 1 is the first
}

// A CallRule says what a call waits for.
type CallRule struct {
	Signature `yaml:",inline"`
	Joins     program.Joins `yaml:"join"`
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
			if s.Type != "" && s.Type != p.Types[i].Name || s.Method != "" && s.Method != c.Method || s.Call != "" && s.Call != c.Name {
				continue
			}
			if nth++; s.Nth == 0 || s.Nth == nth {
				out = append(out, c)
			}
		}
	}
	return out
}

// String is the signature as errors say it.
func (s Signature) String() string {
	out := "call"
	if s.Call != "" || s.Method != "" {
		out += fmt.Sprintf(" of %q", cmp.Or(s.Call, s.Method))
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
	if s.Nth < 0 || s.Nth > 0 && (s.Type == "" || s.Method == "") {
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
			if rule.Argument != "" && rule.Argument != a.Path || rule.Was != nil && rule.Was.String() != a.Value.String() {
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

// apply replaces what calls wait for.
func (rule CallRule) apply(name string, p *program.Program) error {
	if err := rule.check(name); err != nil {
		return err
	}
	calls := rule.calls(p)
	if rule.Signature == (Signature{}) || len(calls) == 0 {
		return input.Errorf(name, "there is no %s that could join others", rule.Signature)
	}
	for _, c := range calls {
		c.Joins = rule.Joins
	}
	return nil
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

// named are the methods that rules name, and one of the calls that they name one by one.
func (o *Overrides) named() (methods map[string]bool, single string) {
	methods = map[string]bool{}
	add := func(s Signature, calls ...string) {
		if s.Method != "" {
			methods[s.Method] = true
		}
		for _, call := range append(calls, s.Call) {
			if call != "" {
				methods[method(call)], single = true, cmp.Or(single, call)
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
	}
	return methods, single
}

// fingerprint is the same for programs in which nodes of the same types make the same
// calls of some methods.
func fingerprint(p *program.Program, methods map[string]bool) string {
	var lines []string
	for i := range p.Types {
		for _, c := range p.Types[i].Calls {
			if methods[method(c.Name)] {
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
