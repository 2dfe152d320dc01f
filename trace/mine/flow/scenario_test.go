package flow

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
)

// TestAnswer: where the values of an argument come from. Every story ends with
// what is asked about, the first argument of put, and is told at n = 3 and 4.
func TestAnswer(t *testing.T) {
	id := func(n, i int) int { return 1000*n + 37*i*i + 11*i } // what a server hands out
	each := func(n int, call func(i int) string) string {
		var out strings.Builder
		for i := range 2 * n {
			out.WriteString(call(i) + "\n")
		}
		return out.String()
	}
	for _, story := range []struct {
		name string
		log  func(n int) string
		want string
	}{
		{"the reply before", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("c: %d = make()\nc: put(%d)", id(n, i), id(n, i)) })
		}, `{reply "make#1" "return"}`},
		{"one word of a text", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("c: \"/tmp/%d\" = make()\nc: put(%d)", id(n, i), id(n, i)) })
		}, `{reply "make#1" "return" word 1}`},
		{"a reply that is still under way says nothing", func(n int) string {
			return each(n, func(i int) string {
				return fmt.Sprintf("%d.000 c: %d = make()\n%d.001 c: put(%d)", i, id(n, i), i, id(n, i))
			})
		}, "nothing"},
		{"the first reply, not the last", func(n int) string {
			return fmt.Sprintf("c: %d = join()\n", id(n, 9)) + each(n, func(i int) string {
				return fmt.Sprintf("c: %d = join()\nc: put(%d)", id(n, i), id(n, 9))
			})
		}, `{reply "join#1" "return" first}`},
		{"the replies of all calls, one after the other", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("c: %d = make()", id(n, i)) }) +
				each(n, func(i int) string { return fmt.Sprintf("c: put(%d)", id(n, i)) })
		}, `{reply "make#1" "return" i}`},
		{"the elements of one reply, one after the other", func(n int) string {
			var list []string
			each(n, func(i int) string { list = append(list, fmt.Sprint(id(n, i))); return "" })
			return fmt.Sprintf("c: [%s] = list()\n", strings.Join(list, ",")) + each(n, func(i int) string { return fmt.Sprintf("c: put(%d)", id(n, i)) })
		}, `{reply "list#1" "return[0]" index i 0}`},
		{"what another sender was told about the same file", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("m: %d = make(%d)", id(n, i), i) }) +
				each(n, func(i int) string { return fmt.Sprintf("c: put(%d, %d)", id(n, 2*n-1-i), 2*n-1-i) })
		}, `{reply "make#1" "return" where request "args0" is "args1"}`},
		{"of two that are as good, what the sender itself was told", func(n int) string {
			return each(n, func(i int) string {
				return fmt.Sprintf("c: %d = make()\nm: %d = peek()\nc: put(%d)", id(n, i), id(n, i), id(n, i))
			})
		}, `{reply "make#1" "return"}`},
		{"of two of others, the reply and not the request", func(n int) string {
			return each(n, func(i int) string {
				return fmt.Sprintf("m: %d = make()\nm: tell(%d)\nc: put(%d)", id(n, i), id(n, i), id(n, i))
			})
		}, `{reply "make#1" "return" by anyone}`},
		{"the own name", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("worker-%d: put(\"worker-%d\")", i, i) })
		}, "{sender}"},
		{"the own address", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("worker-%d@10.0.0.%d: put(\"10.0.0.%d\")", i, i, i) })
		}, "{address}"},
		{"what another sender at the same address was told", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("agent-%d@10.0.0.%d: %d = make()", i, i, id(n, i)) }) +
				each(n, func(i int) string { return fmt.Sprintf("worker-%d@10.0.0.%d: put(%d)", i, i, id(n, i)) })
		}, `{reply "make#1" "return" by address}`},
		{"any of those there are, once each", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("m: %d = make()", id(n, i)) }) +
				each(n, func(i int) string { return fmt.Sprintf("c: put(%d)", id(n, (i*5+3)%(2*n))) })
		}, `{reply "make#1" "return" each by anyone}`},
		{"what others put too, somebody put first: where that one knew it from comes first", func(n int) string {
			return each(n, func(i int) string {
				if i%3 == 0 {
					return fmt.Sprintf("m: %d = make()\nw-0: put(%d)", id(n, i), id(n, i))
				}
				return fmt.Sprintf("w-0: %d = grow()\nw-0: put(%d)", id(n, i), id(n, i))
			}) + each(n, func(i int) string {
				return fmt.Sprintf("w-1: put(%d)\nw-2: put(%d)", id(n, (i*5+3)%(2*n)), id(n, (i*5+1)%(2*n)))
			})
		}, `{reply "grow#1" "return" each | request "put#1" "args0" each by anyone | reply "make#1" "return" by anyone}`},
		{"the reply before, and 0 where there is none", func(n int) string {
			return each(n, func(i int) string {
				return fmt.Sprintf("w-%d: put(0)\nw-%d: %d = make()\nw-%d: put(%d)", i, i, id(n, i), i, id(n, i))
			})
		}, `{reply "make#1" "return" | "0"}`},
		{"no earlier call has it", func(n int) string {
			return each(n, func(i int) string { return fmt.Sprintf("c: %d = make()\nc: put(%d)", i, id(n, i)) })
		}, "nothing"},
	} {
		t.Run(story.name, func(t *testing.T) {
			if got := answer(t, story.log); got != story.want {
				t.Errorf("%s, want %s", got, story.want)
			}
		})
	}
}

// answer is what explains the first argument of every put, in any order if in no
// other, as a program says it; nothing where a value is not explained.
func answer(t *testing.T, log func(n int) string) string {
	c := minetest.Learned(t, []int{3, 4}, log)
	for _, r := range c.Recordings {
		r.Sort()
	}
	sites := site.Find(c, c.Recordings)
	q := &Question{Key: func(arg int32, _ bool) bool { return arg > 0 }}
	q.Value = func(o Occ) (intern.Symbol, bool) { return c.Syms.Canonical(o.Raw()), true }
	var put *site.Site
	for _, r := range c.Recordings {
		for i := range r.Calls {
			if st := sites.All[r.Calls[i].Site]; c.OpOf[st.Op].Method == "put" {
				put = st
				q.Occs = append(q.Occs, Occ{In: r, Call: int32(i)})
			}
		}
	}
	q.Samples = q.Occs
	searches := Find(sites, []*Question{q}, c.Recordings)
	a := searches[0].Answer()
	if a.Hits < len(q.Occs) && searches[0].SeldomTwice() {
		AnyOrder(sites, searches, c.Recordings)
		a = searches[0].Answer()
	}
	if a.Hits < len(q.Occs) {
		return "nothing"
	}
	return written(c, sites, put, a)
}

func written(c *corpus.Corpus, sites *site.Sites, put *site.Site, a Answer) string {
	var out program.Hole
	for _, src := range a.Sources {
		out.Alts = append(out.Alts, src.Alt(sites, put.Args))
	}
	if a.Closed {
		out.Alts = append(out.Alts, program.Const(c.Syms.Text[a.Rest]))
	}
	return out.String()
}
