package mine

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
	"gleaner/trace/program"
)

// Overrides is what a user knows better (docs/trace.md): which senders are of
// one type, and what an argument is that nothing explains.
type Overrides struct {
	Types     []TypeRule `yaml:"types"`
	Arguments []ArgRule  `yaml:"arguments"`
}

// An ArgRule gives an argument of all calls of a method its value.
type ArgRule struct {
	Method   string           `yaml:"method"`
	Argument string           `yaml:"argument"`
	Value    program.Template `yaml:"value"`
}

// UnmarshalYAML reads a type rule; senders is a regular expression.
func (t *TypeRule) UnmarshalYAML(n *yaml.Node) error {
	var plain struct {
		Name    string `yaml:"type"`
		Senders string `yaml:"senders"`
	}
	if err := n.Decode(&plain); err != nil {
		return err
	}
	pattern, err := regexp.Compile("^(?:" + plain.Senders + ")$")
	if err != nil || plain.Name == "" || plain.Senders == "" {
		return fmt.Errorf("line %d: a type has a name and a regular expression of its senders", n.Line)
	}
	t.Name, t.Senders = plain.Name, pattern
	return nil
}

// ReadOverrides reads overrides; name is the file's, for errors.
func ReadOverrides(name string, text []byte) (*Overrides, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	out := &Overrides{}
	if err := dec.Decode(out); err != nil && err != io.EOF {
		msg := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
		if rest, ok := strings.CutPrefix(msg, "line "); ok {
			at, rest, _ := strings.Cut(rest, ": ")
			if line, err := strconv.Atoi(at); err == nil {
				return nil, input.Linef(name, line, "%s", rest)
			}
		}
		return nil, input.Errorf(name, "%s", msg)
	}
	return out, nil
}

// Apply gives the program the user's values. An argument that no call has is
// the user's mistake.
func (o *Overrides) Apply(name string, p *program.Program) error {
	for _, rule := range o.Arguments {
		found := false
		for i := range p.Types {
			for j := range p.Types[i].Calls {
				c := &p.Types[i].Calls[j]
				for k := range c.Args {
					if c.Method == rule.Method && c.Args[k].Path == rule.Argument {
						c.Args[k].Value, found = rule.Value, true
					}
				}
			}
		}
		if !found {
			return input.Errorf(name, "no call of %q has an argument %q", rule.Method, rule.Argument)
		}
	}
	return nil
}
