package join

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/kind"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/mine/order"
	"gleaner/trace/mine/pace"
	"gleaner/trace/mine/site"
)

var scales = []int{3, 4, 6, 8, 12}

// A line is a call of a sender at a time in seconds.
func line(at float64, call string) string { return fmt.Sprintf("%.3f %s\n", at, call) }

// TestWaits: what calls wait for. The time that a chief takes for his second call differs
// from run to run, as workers do, unless a story says otherwise.
func TestWaits(t *testing.T) {
	// works is n workers that begin at once and end one after the other, and a chief who
	// begins with them.
	works := func(n int) (log string, end float64) {
		log = line(1, "chief: open()") + line(90+float64(n), "chief: close()")
		for k := range n {
			log += line(1.1+float64(k)/100, fmt.Sprintf("worker-%d: take()", k))
			end = 3 + float64(n) + float64(k)/10
			log += line(end, fmt.Sprintf("worker-%d: done()", k))
		}
		return log, end
	}
	for _, story := range []struct {
		name string
		log  func(n int) string
		want string
	}{
		{"the chief commits when all workers are done", func(n int) string {
			log, end := works(n)
			return log + line(end+0.1, "chief: commit()")
		}, "commit after all done"},
		{"the chief looks when the first worker is done", func(n int) string {
			log, _ := works(n)
			return log + line(3+float64(n)+0.02, "chief: look()")
		}, "look after done"},
		{"once it was the other way round", func(n int) string {
			log, end := works(n)
			if n == 8 {
				end -= 1.5
			}
			return log + line(end+0.1, "chief: commit()")
		}, ""},
		{"long after: it may be chance", func(n int) string {
			log, end := works(n)
			return log + line(end+30+float64(n), "chief: commit()")
		}, ""},
		{"the chief takes as long each time: he waits for nobody", func(n int) string {
			log := line(1, "chief: open()") + line(90, "chief: close()") + line(4, "chief: commit()")
			for k := range n {
				log += line(1.1, fmt.Sprintf("worker-%d: take()", k)) + line(3.9-float64((k+n)%9)/10, fmt.Sprintf("worker-%d: done()", k))
			}
			return log
		}, ""},
		{"what the step before has waited for is not waited for again", func(n int) string {
			log, end := works(n)
			return log + line(end+0.1, "chief: commit()") + line(end+0.2, "chief: move()")
		}, "commit after all done"},
		{"neither is what those before had waited for", func(n int) string {
			log, end := works(n)
			return log + line(end+0.1, "chief: commit()") + line(end+0.2+float64(n%5)/100, "clerk: read()") + line(0.9, "clerk: come()")
		}, "commit after all done, read after commit"},
		{"a beat is not waited for", func(n int) string {
			log, _ := works(n)
			log += minetest.Times(85, "#.500 guard: beat()") + line(0.4, "guard: come()")
			return log + line(float64(7*n)+0.52, "chief: commit()")
		}, ""},
	} {
		t.Run(story.name, func(t *testing.T) {
			if got := waits(minetest.Learned(t, scales, func(n int) string { return sorted(story.log(n)) })); got != story.want {
				t.Errorf("%q, not %q", got, story.want)
			}
		})
	}
}

// TestChance: calls of forty nodes, each a type of its own, at times that have nothing to do
// with each other. In a hundred such programs together about one wait is found.
func TestChance(t *testing.T) {
	found := 0
	for seed := range uint64(100) {
		chance := rand.New(rand.NewPCG(seed, 0))
		c := minetest.Learned(t, scales, func(n int) string {
			log := ""
			for k := range 40 {
				for call := range 2 {
					log += line(1+100*chance.Float64(), fmt.Sprintf("c%c%c: m%d()", 'a'+k/26, 'a'+k%26, 2*k+call))
				}
			}
			return sorted(log)
		})
		found += strings.Count(waits(c), "after")
	}
	if found > 3 {
		t.Errorf("%d waits are chance", found)
	}
}

// sorted puts the lines of a log in order of time.
func sorted(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		at, _, _ := strings.Cut(a, " ")
		other, _, _ := strings.Cut(b, " ")
		return cmp.Or(cmp.Compare(len(at), len(other)), cmp.Compare(at, other)) // all have three digits after the point
	})
	return strings.Join(lines, "\n")
}

// waits are the waits of calls between types, as text.
func waits(c *corpus.Corpus) string {
	runs := c.Recordings
	for _, r := range runs {
		r.Sort()
	}
	kinds := kind.Find(c, runs, nil)
	nodes := make([]count.Count, len(kinds))
	for k := range kinds {
		nodes[k] = count.Nodes(k, runs)
	}
	sites := count.Learn(site.Find(c, runs), nodes, runs)
	shapes := order.Find(sites, nodes, runs, func(a, b corpus.SiteID) bool { return false })
	found := Find(sites, shapes, pace.Learn(sites, runs, len(kinds)).Starts, runs)
	var out []string
	for _, st := range sites.All {
		for _, w := range found[st.ID] {
			who := map[bool]string{true: "all "}[w.All]
			out = append(out, c.OpOf[st.Op].Method+" after "+who+c.OpOf[w.After.Op].Method)
		}
	}
	return strings.Join(out, ", ")
}
