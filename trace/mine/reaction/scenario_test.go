package reaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
)

// TestScenarios: which calls are reactions, to what, and what is left of the logs without
// them. All senders are of one type.
func TestScenarios(t *testing.T) {
	minetest.Stories(t, func(c *corpus.Corpus) func(*testing.T, *datadriven.TestData) string {
		return func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "reactions" {
				t.Fatalf("unknown command %s", d.Cmd)
			}
			for _, r := range c.Recordings {
				r.Sort()
			}
			var out strings.Builder
			for _, r := range Find(c, c.Recordings, 1) {
				fmt.Fprintf(&out, "%s, %s, %d times: after %d ms", c.OpOf[r.To].Method, r.Mark, r.Seen, r.Wait/1e6)
				for _, redo := range r.Calls {
					fmt.Fprintf(&out, " %s", c.OpOf[redo.Op].Method)
				}
				if r.Again {
					out.WriteString(" again")
				}
				out.WriteString("\n")
			}
			for _, r := range c.Recordings {
				for _, s := range r.Senders {
					fmt.Fprintf(&out, "n=%d %s:", r.Scale, c.Syms.Text[s.Name])
					for _, i := range s.Calls {
						fmt.Fprintf(&out, " %s", c.OpOf[r.Calls[i].Op].Method)
					}
					out.WriteString("\n")
				}
			}
			return out.String()
		}
	})
}
