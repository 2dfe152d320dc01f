package order

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/mine/site"
)

var scales = []int{3, 4, 6, 8, 12}

// odd is what no formula of the scale gives, one number for each scale.
var odd = map[int]int{3: 7, 4: 5, 6: 16, 8: 9, 12: 11}

// TestSteps: the order in which the senders of one type make their calls. A loop
// is (body)*iterations, a step that some make has the share of those.
func TestSteps(t *testing.T) {
	nested := func(inner func(n, i int) int) func(n int) string {
		return func(n int) string {
			var out strings.Builder
			for i := range 2 * n {
				out.WriteString("c: open()\n" + minetest.Times(inner(n, i), "c: read()") + "c: shut()\n")
			}
			return out.String()
		}
	}
	for _, story := range []struct {
		name string
		log  func(n int) string
		want string
	}{
		{"a loop between two calls", func(n int) string { return "c: join()\n" + minetest.Times(n-1, "c: make()\nc: put()") + "c: leave()" },
			"join (make put)*n-1 leave"},
		{"a loop in a loop explains a number that no formula gives", nested(func(n, _ int) int { return (n + 3) / 4 }),
			"(open (read)*ceil(n/4) shut)*2*n"},
		{"what is a loop later is none where it is made once", func(n int) string {
			return "c: make()\nc: put()\nc: list()\n" + minetest.Times(n, "c: make()\nc: put()")
		}, "make put list (make put)*n"},
		{"inner loops of random length: their calls are loose", nested(func(n, i int) int { return 1 + (i*i+odd[n])%3 }),
			"(open shut)*2*n; loose read"},
		{"an inner loop that grows with the outer one: its calls are counted aside", nested(func(_, i int) int { return i + 1 }),
			"(open (read)*0.5+1*n shut)*2*n; firm (open shut)*2*n; aside read"},
		{"one node of three does more", func(n int) string {
			return minetest.Times(3*n, "w-#: join()\nw-#: leave()") + minetest.Times(n, "w-#: report()")
		}, "join leave report?0.33"},
		{"nodes whose calls have no order in common", func(n int) string {
			var out strings.Builder
			chance := rand.New(rand.NewPCG(uint64(n), 0))
			for k := range n {
				for range 8 {
					for _, i := range chance.Perm(5) {
						fmt.Fprintf(&out, "w-%d: %c()\n", k, 'a'+i)
					}
				}
			}
			return out.String()
		}, "loose c e d a b"},
		{"a beat has no place in the order", func(n int) string {
			return "c: join()\n" + minetest.Times(odd[n], "# c: beat()") + "c: leave()"
		}, "join leave; beats beat"},
		{"a call that another thread makes once, at any time, does not part a loop", func(n int) string {
			at := 1 + odd[n]%n
			return minetest.Times(at, "c: make()\nc: put()\nc: check()\nc: close()") + "c: renew()\n" +
				minetest.Times(5*n-at, "c: make()\nc: put()\nc: check()\nc: close()")
		}, "(make put check close)*5*n; loose renew"},
		{"nor one in the middle of an iteration, and another one", func(n int) string {
			at, more := 1+odd[n]%n, odd[n]%4
			return minetest.Times(at, "c: make()\nc: put()\nc: check()\nc: close()") + "c: make()\nc: put()\nc: renew()\nc: check()\nc: close()\n" +
				minetest.Times(more, "c: make()\nc: put()\nc: check()\nc: close()") + "c: look()\n" + minetest.Times(5*n-at-more, "c: make()\nc: put()\nc: check()\nc: close()") + "c: end()"
		}, "(make put check close)*5*n+1 end; loose renew look"},
		{"threads: what overlaps in either order has none", func(n int) string {
			first, second := "a", "b"
			if n%4 == 0 {
				first, second = second, first
			}
			return fmt.Sprintf("0.001 c: %s()\n0.002 c: %s()\n", first, second) + minetest.Times(n, "c: put()\nc: get()")
		}, "a b (put get)*n"},
		{"what overlaps in one order only has that order", func(n int) string { return minetest.Times(n, "#.001 c: a()\n#.002 c: b()") },
			"(a b)*n"},
		{"one after the other, now in this order and now in that, is no order of threads", func(n int) string {
			if n%4 == 0 {
				return "c: b()\nc: a()\nc: z()"
			}
			return "c: a()\nc: b()\nc: z()"
		}, "b?0.60 a b?0.40 z"},
	} {
		t.Run(story.name, func(t *testing.T) {
			if got := show(found(t, story.log, nobody)); got != story.want {
				t.Errorf("%s, want %s", got, story.want)
			}
		})
	}
}

// TestThreadsThatDepend: two calls that overlap in either order keep their order
// where one takes something from the last of the other.
func TestThreadsThatDepend(t *testing.T) {
	log := func(n int) string {
		var out strings.Builder
		for i := range 2 * n {
			first, second := "a", "b"
			if i%2 == 1 {
				first, second = second, first
			}
			fmt.Fprintf(&out, "%d.001 c: %s()\n%d.002 c: %s()\nc: put()\n", i, first, i, second)
		}
		return out.String()
	}
	for want, chained := range map[string]func(a, b corpus.SiteID) bool{
		"(a b put)*2*n":       nobody,
		"(a b put b a put)*n": func(a, b corpus.SiteID) bool { return a < b },
	} {
		if got := show(found(t, log, chained)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestExpand: what a node calls at a scale that was not seen.
func TestExpand(t *testing.T) {
	s, st := found(t, func(n int) string {
		return minetest.Times(3*n, "w-#: join()") + minetest.Times(3*n, "w-#: put()\nw-#: put()") + minetest.Times(n, "w-#: report()")
	}, nobody)
	for share, want := range map[float64]string{0.1: "join put put report", 0.5: "join put put"} {
		var got []string
		for _, id := range st.Expand(20, share) {
			got = append(got, method(s, s.All[id]))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the node at %g calls %v, want %s", share, got, want)
		}
	}
}

// TestCommon: the longest common subsequence, against one that tries everything.
func TestCommon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.IntRange(0, 2), 0, 8)
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		pairs := Common(a, b)
		for k, p := range pairs {
			if a[p[0]] != b[p[1]] || k > 0 && (p[0] <= pairs[k-1][0] || p[1] <= pairs[k-1][1]) {
				t.Fatalf("%v and %v have %v in common", a, b, pairs)
			}
		}
		if want := longestCommon(a, b); len(pairs) != want {
			t.Fatalf("%v and %v have %d in common, want %d", a, b, len(pairs), want)
		}
	})
}

func longestCommon(a, b []int) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	if a[0] == b[0] {
		return 1 + longestCommon(a[1:], b[1:])
	}
	return max(longestCommon(a[1:], b), longestCommon(a, b[1:]))
}

// nobody takes anything from the last call of another site.
func nobody(a, b corpus.SiteID) bool { return false }

func found(t *testing.T, log func(n int) string, chained func(a, b corpus.SiteID) bool) (*count.Sites, *Structure) {
	c := minetest.Learned(t, scales, log)
	for _, r := range c.Recordings {
		r.Sort()
	}
	nodes := []count.Count{count.Nodes(0, c.Recordings)}
	s := count.Learn(site.Find(c, c.Recordings), nodes, c.Recordings)
	return s, Find(s, nodes, c.Recordings, chained)[0]
}

func method(s *count.Sites, st *count.Site) string { return s.Sites.Corpus.OpOf[st.Op].Method }

func show(s *count.Sites, st *Structure) string {
	names := func(sites []*count.Site) (out []string) {
		for _, site := range sites {
			out = append(out, method(s, site))
		}
		return out
	}
	var steps func(list []*Step) string
	steps = func(list []*Step) string {
		var out []string
		for _, step := range list {
			said := ""
			if step.Site != nil {
				said = method(s, step.Site)
			} else {
				said = fmt.Sprintf("(%s)*%s", steps(step.Body), step.Repeat.Formula)
			}
			if step.Made < step.Of {
				said += fmt.Sprintf("?%.2f", float64(step.Made)/float64(step.Of))
			}
			out = append(out, said)
		}
		return strings.Join(out, " ")
	}
	parts := []string{steps(st.Steps)}
	if st.Firm != nil {
		parts = append(parts, "firm "+steps(st.Firm))
	}
	for _, part := range []struct {
		name  string
		sites []*count.Site
	}{{"loose", st.Loose}, {"beats", st.Beats}, {"aside", st.Aside}} {
		if len(part.sites) > 0 {
			parts = append(parts, part.name+" "+strings.Join(names(part.sites), " "))
		}
	}
	return strings.TrimPrefix(strings.Join(parts, "; "), "; ")
}
