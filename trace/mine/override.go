package mine

import (
	"bytes"
	"cmp"
	"io"
	"iter"
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
	Types     []kind.Rule `yaml:"types"`
	Arguments []ArgRule   `yaml:"arguments"`
	Calls     []CallRule  `yaml:"calls"`
}

// A CallRule says what a call waits for.
type CallRule struct {
	Call string       `yaml:"call"`
	Join program.Join `yaml:"join"`
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

// Apply changes the program. It is an input error if no call has an argument, if a
// call does not exist, or if the changed program is not valid.
func (o *Overrides) Apply(name string, p *program.Program) error {
	for _, rule := range o.Arguments {
		found := false
		for c := range calls(p) {
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
		var call, after *program.Call
		for c := range calls(p) {
			if c.Name == rule.Call {
				call = c
			}
			if c.Name == rule.Join.After {
				after = c
			}
		}
		if call == nil || after == nil {
			return input.Errorf(name, "there is no call %q that could join a call %q", rule.Call, rule.Join.After)
		}
		call.Join = &rule.Join
	}
	if err := p.Check(); err != nil {
		return input.Errorf(name, "the program made with it: %v", err)
	}
	return nil
}

// innermost is the list that an argument stands in. An override also decides its
// length, by the source of its values.
func innermost(path string) string {
	return path[:max(0, strings.LastIndex(path, "[*]"))]
}

func calls(p *program.Program) iter.Seq[*program.Call] {
	return func(yield func(*program.Call) bool) {
		for i := range p.Types {
			for j := range p.Types[i].Calls {
				if !yield(&p.Types[i].Calls[j]) {
					return
				}
			}
		}
	}
}
