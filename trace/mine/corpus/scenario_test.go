package corpus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
)

// TestScenarios: what is in the logs of senders, and what in messages is a list.
func TestScenarios(t *testing.T) {
	minetest.Stories(t, func(c *corpus.Corpus) func(*testing.T, *datadriven.TestData) string {
		return func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "logs":
				for _, r := range c.Recordings {
					r.Sort()
				}
				return logs(c)
			case "messages":
				c.FindLists(c.Recordings)
				return messages(c, c.Recordings)
			case "another":
				r := minetest.Recording(t, c, minetest.Scale(t, d), d.Input)
				c.WriteLists([]*corpus.Recording{r})
				return messages(c, []*corpus.Recording{r})
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		}
	})
}

func logs(c *corpus.Corpus) string {
	var out strings.Builder
	for _, r := range c.Recordings {
		for _, s := range r.Senders {
			fmt.Fprintf(&out, "n=%d %s:", r.Scale, c.Syms.Text[s.Name])
			for _, i := range s.Calls {
				out.WriteString(" " + c.OpOf[r.Calls[i].Op].Method)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func messages(c *corpus.Corpus, runs []*corpus.Recording) string {
	var out strings.Builder
	for _, r := range runs {
		for i := range r.Calls {
			out.WriteString(c.OpOf[r.Calls[i].Op].Method)
			for _, part := range []corpus.Part{corpus.Request, corpus.Response} {
				m := r.Calls[i].Message(part)
				for k, p := range c.Shapes.Paths[m.Shape] {
					fmt.Fprintf(&out, " %s=%s", c.Paths.Text[p], c.Syms.Text[m.Values[k]])
				}
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}
