package site

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
)

// TestScenarios: which calls are of one site, and what its arguments are. All
// senders are of one type.
func TestScenarios(t *testing.T) {
	minetest.Stories(t, func(c *corpus.Corpus) func(*testing.T, *datadriven.TestData) string {
		var sites *Sites
		return func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "sites":
				for _, r := range c.Recordings {
					r.Sort()
				}
				sites = Find(c, c.Recordings)
				return show(sites, c.Recordings)
			case "place":
				r := minetest.Recording(t, c, minetest.Scale(t, d), d.Input)
				r.Sort()
				sites.Place(r)
				return show(sites, []*corpus.Recording{r})
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		}
	})
}

// show lists the calls of every site, each by its run, its sender, its number
// among the sender's calls of the site, and its arguments.
func show(s *Sites, runs []*corpus.Recording) string {
	var out strings.Builder
	list := func(id corpus.SiteID) {
		for _, r := range runs {
			for i := range r.Calls {
				if call := &r.Calls[i]; call.Site == id {
					fmt.Fprintf(&out, "  n=%d %s %d:%s\n", r.Scale, s.Corpus.Syms.Text[call.Sender.Name], call.Nth, arguments(s, call))
				}
			}
		}
	}
	for _, st := range s.All {
		fmt.Fprintln(&out, st.Label)
		list(st.ID)
	}
	out.WriteString("nowhere\n")
	list(corpus.NoSite)
	return strings.TrimSuffix(out.String(), "nowhere\n")
}

// arguments are the values of a call by the arguments of its site.
func arguments(s *Sites, call *corpus.Call) string {
	if call.Site == corpus.NoSite {
		return " " + s.Corpus.OpOf[call.Op].Method
	}
	var out strings.Builder
	st := s.All[call.Site]
	for i, leaf := range st.Plan(s.Corpus, call.Request.Shape) {
		name := strings.Replace(st.Args[leaf.Arg].Name, "[*]", fmt.Sprintf("[*%d]", leaf.Star), 1)
		fmt.Fprintf(&out, " %s=%s", name, s.Corpus.Syms.Text[call.Request.Values[i]])
	}
	return out.String()
}
