package mine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/program"
)

// TestScenarios mines small logs that show one thing each.
func TestScenarios(t *testing.T) {
	minetest.Stories(t, func(c *corpus.Corpus) func(*testing.T, *datadriven.TestData) string {
		var check *corpus.Recording
		return func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "check":
				check = minetest.Recording(t, c, minetest.Scale(t, d), d.Input)
				return ""
			case "mine":
				m, err := Learn(context.Background(), c)
				if err != nil {
					return err.Error()
				}
				out := describe(m)
				if check != nil {
					got := m.Check(check)
					out += fmt.Sprintf("check: %d calls, %d predicted, sequence %.2f, arguments %.2f\n", got.CallsExpected, got.CallsPredicted, got.SequenceMatch, got.ArgumentsMatch)
				}
				return out
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		}
	})
}

// describe prints a model as the paper prints templates.
func describe(m *Model) string {
	var out strings.Builder
	for k, t := range m.Program.Types {
		fmt.Fprintf(&out, "type %s: %s nodes\n", t.Name, t.Nodes)
		for _, line := range segments(t.Steps) {
			fmt.Fprintf(&out, "  %s\n", line)
		}
		for _, s := range t.Beats {
			fmt.Fprintf(&out, "  real-time [%s] every %s ms\n", s.Call, s.Every)
		}
		if t.Leaves {
			fmt.Fprintln(&out, "  leaves with its last step")
		}
		for _, s := range t.Aside {
			fmt.Fprintf(&out, "  aside [%s] %s\n", s.Call, s.Repeat)
		}
		for _, c := range t.Calls {
			if c.Until != nil {
				fmt.Fprintf(&out, "  %s until %s is %s\n", c.Name, c.Until.Path, c.Until.Value)
			}
			for _, j := range c.Joins {
				fmt.Fprintf(&out, "  %s joins %s, share %g\n", c.Name, j.After, j.Share)
			}
			for _, a := range c.Args {
				fmt.Fprintf(&out, "  %s %s: %s\n", c.Name, a.Path, a.Value)
			}
		}
		if s := t.Start; s != nil && k > 0 {
			fmt.Fprintf(&out, "  starts after %s of %s, share %g\n", s.After, s.Of, s.Share)
		}
	}
	for _, a := range m.Report().Ambiguous {
		said := strings.Trim(strings.Join(a.Formulas, " or ")+"; "+a.Why, "; ")
		fmt.Fprintf(&out, "ambiguous: %s: %s; record n=%d\n", strings.TrimSpace(a.What+" "+a.Method), said, a.Next)
	}
	return out.String()
}

// segments prints steps as <type, pattern, repetition>.
func segments(steps []program.Step) []string {
	var out, static []string
	flush := func() {
		if len(static) > 0 {
			out = append(out, fmt.Sprintf("<static, [%s], 1>", strings.Join(static, " ")))
			static = nil
		}
	}
	for _, s := range steps {
		if s.Call != "" {
			name := s.Call
			if s.Share > 0 {
				name += fmt.Sprintf("?%g", s.Share)
			}
			static = append(static, name)
			continue
		}
		flush()
		out = append(out, fmt.Sprintf("<repeated, [%s], %s>", strings.Join(inner(s.Steps), " "), s.Repeat))
	}
	flush()
	return out
}

func inner(steps []program.Step) []string {
	var out []string
	for _, s := range steps {
		if s.Call != "" {
			out = append(out, s.Call)
		} else {
			out = append(out, fmt.Sprintf("(%s)*%s", strings.Join(inner(s.Steps), " "), s.Repeat))
		}
	}
	return out
}
