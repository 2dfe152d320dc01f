package kind

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/minetest"
)

// TestScenarios: which senders are of one type, in which order, and what they are
// called.
func TestScenarios(t *testing.T) {
	minetest.Stories(t, func(c *corpus.Corpus) func(*testing.T, *datadriven.TestData) string {
		var types []*Kind
		return func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "types":
				for _, r := range c.Recordings {
					r.Sort()
				}
				types = Find(c, c.Recordings, rules(d))
				return members(c, types, c.Recordings)
			case "names":
				var out strings.Builder
				for k, ty := range types {
					of := func(s *corpus.Sender) intern.Symbol { return s.Name }
					fmt.Fprintf(&out, "%s: %s\n", ty.Name, Identity(c, c.Recordings, k, ty.Name, of))
				}
				return out.String()
			case "assign":
				r := minetest.Recording(t, c, minetest.Scale(t, d), d.Input)
				r.Sort()
				Assign(c, r, types, rules(d))
				return members(c, types, []*corpus.Recording{r})
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		}
	})
}

// rules are what a command says of types: "types special=(x|y)".
func rules(d *datadriven.TestData) []Rule {
	var out []Rule
	for _, a := range d.CmdArgs {
		if a.Key != "n" {
			out = append(out, Rule{Name: a.Key, Senders: regexp.MustCompile("^(?:" + a.Vals[0] + ")$")})
		}
	}
	return out
}

// members lists the senders of each type by rank.
func members(c *corpus.Corpus, types []*Kind, runs []*corpus.Recording) string {
	var out strings.Builder
	for _, r := range runs {
		for k, ty := range types {
			var names []string
			for _, s := range r.Senders {
				if s.Kind == k {
					names = append(names, fmt.Sprintf("%d=%s", s.Rank, c.Syms.Text[s.Name]))
				}
			}
			slices.Sort(names)
			fmt.Fprintf(&out, "n=%d %s: %s\n", r.Scale, ty.Name, strings.Join(names, " "))
		}
	}
	return out.String()
}
