package count

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/mine/site"
)

var scales = []int{3, 4, 6, 8, 12}

// odd is what no formula of the scale gives, one number for each scale.
var odd = map[int]int{3: 7, 4: 5, 6: 16, 8: 9, 12: 11}

// retried is n calls that are made again until they are done.
func retried(n int) string {
	var out strings.Builder
	for i := range n {
		out.WriteString(minetest.Times((i+odd[n])%4, fmt.Sprintf("c: false = done(%d)", i)))
		fmt.Fprintf(&out, "c: true = done(%d)\n", i)
	}
	return out.String()
}

// TestNature: what decides how often a site is called, and how often that is. All
// senders are of one type.
func TestNature(t *testing.T) {
	for _, story := range []struct {
		name string
		log  func(n int) string
		want string // of every site: its nature, its formula, or how often it is called at n = 20
	}{
		{"the program decides", func(n int) string { return minetest.Times(2*n+1, "c: put(#)") },
			"put#1 logical 2*n+1"},
		{"even gaps of a second: the clock", func(n int) string { return minetest.Times(odd[n], "# c: beat()") },
			"beat#1 realtime every 1s"},
		{"even gaps of 10 ms are work", func(n int) string { return minetest.Times(odd[n], "c: beat()") },
			"beat#1 varying"},
		{"gaps of any length: nothing that is known", func(n int) string {
			var out strings.Builder
			for i := range odd[n] {
				fmt.Fprintf(&out, "%d c: gc()\n", i*i)
			}
			return out.String()
		}, "gc#1 varying"},
		{"even gaps, but as many as nodes: the program", func(n int) string { return minetest.Times(n, "# c: poll()") },
			"poll#1 logical n, every 1s"},
		{"even gaps, as many at every scale: perhaps the clock", func(int) string { return minetest.Times(8, "# c: poll()") },
			"poll#1 logical 8, every 1s, paced"},
		{"a reply decides", retried, "done#1 until return is true, asked n times"},
		{"a reply would decide: elsewhere it does", func(n int) string {
			return retried(n) + minetest.Times(n, "c: true = done(#, 1)")
		}, "done#1 until return is true, asked n times; done#2 logical n, and return is true as for done#1"},
		{"no reply would decide: it need not be met", func(n int) string {
			return retried(n) + minetest.Times(n, "c: false = done(#, 1)")
		}, "done#1 until return is true, asked n times; done#2 logical n"},
		{"another call has no such reply", func(n int) string {
			return retried(n) + minetest.Times(n, "c: true = begin(#, 1)")
		}, "done#1 until return is true, asked n times; begin#1 logical n"},
		{"a call that is always made twice is not repeated for its reply", func(n int) string {
			return minetest.Times(n, "c: false = done(#)\nc: true = done(#)")
		}, "done#1 logical 2*n"},
		{"two statuses for every poll, and one more", func(n int) string {
			return minetest.Times(odd[n], "# c: poll()") + minetest.Times(2*odd[n]+1, "c: status()")
		}, "poll#1 realtime every 1s; status#1 realtime every 500ms"},
		{"all runs but one", func(n int) string {
			extra := 0
			if n == 6 {
				extra = 2
			}
			return minetest.Times(3*n+extra, "c: get(#)")
		}, "get#1 varying, 60 at n = 20"},
		{"all runs but the largest: it may be the first of many", func(n int) string {
			extra := 0
			if n == 12 {
				extra = 2
			}
			return minetest.Times(3*n+extra, "c: get(#)")
		}, "get#1 varying, 62 at n = 20"},
		{"two nodes of 66 once more than all others", func(n int) string {
			out := minetest.Times(2*n, "w-#: join()\nw-#: report()")
			if n == 6 || n == 8 {
				out += "w-2: report()"
			}
			return out
		}, "join#1 logical 2*n; report#1 varying, 40 at n = 20"},
	} {
		t.Run(story.name, func(t *testing.T) {
			if got := natures(learned(t, story.log)); got != story.want {
				t.Errorf("%s, want %s", got, story.want)
			}
		})
	}
}

// TestReach: the number of reports follows no formula, but every block that is
// added is reported by three nodes. The recordings have 48 reports for 66 blocks,
// so 200 blocks at n = 100 make 600 times 48/198 reports.
func TestReach(t *testing.T) {
	runs, s := learnedRuns(t, func(n int) string {
		return minetest.Times(2*n, "client: add(#)") + minetest.Times(odd[n], "w: report(#)")
	})
	add, report := s.All[0], s.All[1]
	report.Kind = 1
	users := make([]map[corpus.SiteID][]int, len(runs))
	for i := range users {
		users[i] = map[corpus.SiteID][]int{add.ID: {3, 3, 3}}
	}
	s.FindReach(report, users, runs)
	if len(report.Reach) != 1 || report.Reach[0].Nodes.Formula.String() != "3" {
		t.Fatalf("a block is reported by %+v, want 3 nodes", report.Reach)
	}
	if report.LearnReach(); report.expect(100) != 145 {
		t.Errorf("%g reports at n = 100, want 145", report.expect(100))
	}
	users[2][add.ID] = []int{3, 2, 3}
	report.Reach = nil
	if s.FindReach(report, users, runs); len(report.Reach) != 0 {
		t.Error("one block is reported by two nodes, and still three is the rule")
	}
}

// TestTotals: of a call type with two sites the counts are summed; where only the
// sum follows the scale, the sum is what is predicted.
func TestTotals(t *testing.T) {
	runs, s := learnedRuns(t, func(n int) string {
		return minetest.Times(odd[n], "c: get(#)") + minetest.Times(20*n-odd[n], "c: get(#, 1)")
	})
	totals := s.Totals(runs)
	if len(totals) != 1 || totals[0].Nature != Logical || totals[0].At(20) != 400 {
		t.Errorf("%+v: %d calls at n = 20, want 400", totals[0], totals[0].At(20))
	}
}

func learned(t *testing.T, log func(n int) string) *Sites {
	_, s := learnedRuns(t, log)
	return s
}

func learnedRuns(t *testing.T, log func(n int) string) ([]*corpus.Recording, *Sites) {
	c := minetest.Learned(t, scales, log)
	for _, r := range c.Recordings {
		r.Sort()
	}
	return c.Recordings, Learn(site.Find(c, c.Recordings), []Count{Nodes(0, c.Recordings)}, c.Recordings)
}

func natures(s *Sites) string {
	var out []string
	for _, st := range s.All {
		said := st.Label + " " + st.Nature.String()
		switch st.Nature {
		case Logical:
			said += " " + st.Count.Formula.String()
			if st.Period > 0 {
				said += ", every " + every(st)
			}
			if st.Paced() {
				said += ", paced"
			}
		case Realtime:
			said += " every " + every(st)
		case Until:
			said += fmt.Sprintf(" %s is %s, asked %s times", s.c.Paths.Text[st.Until.Path], s.c.Syms.Text[st.Until.Value], st.Groups.Formula)
		case Varying:
			if st.Count.nearly {
				said += fmt.Sprintf(", %g at n = 20", st.expect(20))
			}
		}
		if like := st.Alike; like != nil {
			said += fmt.Sprintf(", and %s is %s as for %s", s.c.Paths.Text[st.Until.Path], s.c.Syms.Text[st.Until.Value], like.Label)
		}
		out = append(out, said)
	}
	return strings.Join(out, "; ")
}

func every(st *Site) string { return time.Duration(st.Period).String() }
