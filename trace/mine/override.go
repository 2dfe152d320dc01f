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

// A CallRule says what a call waits for.
type CallRule struct {
	Call  string        `yaml:"call"`
	Joins program.Joins `yaml:"join"`
}

// An ArgRule gives an argument its value: of one call of the program, or of all
// calls of a method.
type ArgRule struct {
	Call     string           `yaml:"call"`
	Method   string           `yaml:"method"`
	Argument string           `yaml:"argument"`
	Value    program.Template `yaml:"value"`
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
		found := false
		for c := range p.EachCall() {
			for k := range c.Args {
				if (c.Method == rule.Method || c.Name == rule.Call) && c.Args[k].Path == rule.Argument {
					c.Args[k].Value, found = rule.Value, true
					c.Lists = slices.DeleteFunc(c.Lists, func(l program.List) bool { return l.Path == innermost(rule.Argument) })
				}
			}
		}
		if !found {
			return input.Errorf(name, "no call of %q has an argument %q", cmp.Or(rule.Call, rule.Method), rule.Argument)
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

// apply replaces what a call waits for.
func (rule CallRule) apply(name string, p *program.Program) error {
	calls := map[string]*program.Call{}
	for c := range p.EachCall() {
		calls[c.Name] = c
	}
	for _, j := range rule.Joins {
		if calls[rule.Call] == nil || calls[j.After] == nil {
			return input.Errorf(name, "there is no call %q that could join a call %q", rule.Call, j.After)
		}
	}
	if calls[rule.Call] == nil {
		return input.Errorf(name, "there is no call %q", rule.Call)
	}
	calls[rule.Call].Joins = rule.Joins
	return nil
}

// meant is an error if single calls are named, and the program has other calls of their
// methods than the one that they were named of: their numbers mean something else.
func (o *Overrides) meant(name string, p *program.Program) error {
	named := o.single()
	if len(named) == 0 {
		return nil
	}
	switch print := fingerprint(p, named); {
	case slices.Contains(o.For, print):
		return nil
	case len(o.For) == 0:
		return input.Errorf(name, "it names the call %q, so it must say of which program; of the one learned here it would be \"for: [%s]\"", named[0], print)
	default:
		return input.Errorf(name, "it is for another program (for: [%s]): in the one learned here (%s) %q may be another call", strings.Join(o.For, ", "), print, named[0])
	}
}

// single are the calls that are named one by one.
func (o *Overrides) single() (out []string) {
	for _, rule := range o.Arguments {
		if rule.Call != "" {
			out = append(out, rule.Call)
		}
	}
	for _, rule := range o.Calls {
		out = append(out, rule.Call)
		for _, j := range rule.Joins {
			out = append(out, j.After)
		}
	}
	return out
}

// fingerprint is the same for programs in which nodes of the same types make the same
// calls, of the methods that some calls have.
func fingerprint(p *program.Program, named []string) string {
	methods := map[string]bool{}
	for _, call := range named {
		methods[method(call)] = true
	}
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
