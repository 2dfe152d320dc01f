package mine

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/program"
)

// TestScenarios mines small logs that show one thing each. A log is written
// as in PatternMiner's Figure 3, one call a line, with the sender before it:
//
//	[TIME] SENDER[#ID][^PARENT]: [REPLY =] METHOD(ARG, ARG...)
//
// Calls are 10 ms apart unless a time in seconds stands before them. A list is
// [1 2 3], in a reply [1,2,3].
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		c := corpus.New()
		var check *corpus.Run
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "run", "check":
				var scale int
				d.ScanArgs(t, "n", &scale)
				r := c.Run(fmt.Sprintf("n%03d", scale))
				for _, in := range parseLog(t, d.Input, scale) {
					r.Add(in)
				}
				if d.Cmd == "check" {
					check = r
				} else {
					c.Learn(r)
				}
				return ""
			case "mine":
				m, err := Learn(context.Background(), c)
				if err != nil {
					return err.Error()
				}
				out := describe(m)
				if check != nil {
					got := m.Check(check)
					out += fmt.Sprintf("check: %d calls, %d foretold, sequence %.2f, arguments %.2f\n", got.CallsExpected, got.CallsPredicted, got.SequenceMatch, got.ArgumentsMatch)
				}
				return out
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

var logLine = regexp.MustCompile(`^(?:([\d.]+) )?([\w-]+)(?:#(\w+))?(?:\^(\w+))?: (?:(\S+) = )?(\w+)\((.*)\)$`)

func parseLog(t *testing.T, text string, scale int) []*trace.Call {
	var out []*trace.Call
	now := 1000.0
	for line := range strings.SplitSeq(text, "\n") {
		m := logLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Fatalf("not a call: %s", line)
		}
		now += 0.01
		if m[1] != "" {
			at, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			now = 1000 + at
		}
		c := &trace.Call{Scale: scale, Start: int64(now * 1e9), End: int64((now + 0.005) * 1e9), Sender: m[2], ID: m[3], Parent: m[4], Method: m[6], Target: "server"}
		if m[5] != "" {
			c.Response = leavesOf("return", strings.ReplaceAll(m[5], ",", " "))
		}
		if m[7] != "" {
			for i, a := range strings.Split(m[7], ", ") {
				c.Request = append(c.Request, leavesOf(fmt.Sprintf("args%d", i), a)...)
			}
		}
		out = append(out, c)
	}
	return out
}

func leavesOf(path, text string) (out []trace.Leaf) {
	if !strings.HasPrefix(text, "[") {
		return []trace.Leaf{leafOf(path, text)}
	}
	for i, item := range strings.Fields(strings.Trim(text, "[]")) {
		out = append(out, leafOf(fmt.Sprintf("%s[%d]", path, i), item))
	}
	return out
}

func leafOf(path, text string) trace.Leaf {
	if plain, err := strconv.Unquote(text); err == nil {
		return trace.Leaf{Path: path, Kind: trace.String, Value: plain}
	}
	if text == "true" || text == "false" {
		return trace.Leaf{Path: path, Kind: trace.Bool, Value: text}
	}
	return trace.Leaf{Path: path, Kind: trace.Int, Value: text}
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
