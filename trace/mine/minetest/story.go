package minetest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/trace/mine/corpus"
)

// Stories walks through the files of testdata/scenarios. The command "run n=3" has
// below it the log of a run to learn from. begin is called once for each file, with its
// corpus, and returns the function that answers all other commands.
func Stories(t *testing.T, begin func(c *corpus.Corpus) func(t *testing.T, d *datadriven.TestData) string) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		c := corpus.New()
		answer := begin(c)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				return answer(t, d)
			}
			c.Learn(Recording(t, c, Scale(t, d), d.Input))
			return ""
		})
	})
}

// Scale is the scale that a command names.
func Scale(t *testing.T, d *datadriven.TestData) (n int) {
	t.Helper()
	d.ScanArgs(t, "n", &n)
	return n
}

// Learned is a corpus with a run at each scale, and a log for each.
func Learned(t testing.TB, scales []int, log func(n int) string) *corpus.Corpus {
	t.Helper()
	c := corpus.New()
	for _, n := range scales {
		c.Learn(Recording(t, c, n, log(n)))
	}
	return c
}

// Times is a log of one line n times, with 0, 1, 2 and so on for every # in it.
func Times(n int, line string) string {
	var out strings.Builder
	for i := range n {
		out.WriteString(strings.ReplaceAll(line, "#", strconv.Itoa(i)) + "\n")
	}
	return out.String()
}
