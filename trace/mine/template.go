package mine

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/trace/program"
)

const templateHead = `# What the recordings do not show, for "gleaner trace mine --override". A line gives an
# argument of some calls a value: take its # away and write the value. The one there was
# recorded. docs/trace.md has all that a line may say.
arguments:
`

// Template is a file of overrides to be filled in: a line for each argument that no rule
// explains, with a recorded value. All lines are comments, so that it changes nothing as it
// is.
func (m *Model) Template() ([]byte, error) {
	out := bytes.NewBufferString(templateHead)
	seen := map[string]bool{}
	for _, u := range m.Report().Unknown {
		rule := struct {
			Type     string           `yaml:"type"`
			Method   string           `yaml:"method"`
			Argument string           `yaml:"argument"`
			Value    program.Template `yaml:"value"`
		}{u.NodeType, u.Method, u.Argument, program.Text(u.Example, strings.HasPrefix(u.Generator, "="))}
		var line yaml.Node
		if err := line.Encode(rule); err != nil {
			return nil, fmt.Errorf("mine: write a template: %w", err)
		}
		line.Style = yaml.FlowStyle
		text, err := yaml.Marshal(&line)
		if err != nil {
			return nil, fmt.Errorf("mine: write a template: %w", err)
		}
		if key := fmt.Sprint(rule.Type, rule.Method, rule.Argument); !seen[key] {
			seen[key] = true
			fmt.Fprintf(out, "  # now %q\n  # - %s\n", shorten(u.Generator), strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", " "))
		}
	}
	return out.Bytes(), nil
}
