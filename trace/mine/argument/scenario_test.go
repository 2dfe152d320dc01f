package argument

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/mine/site"
)

// chance is a number that follows nothing.
func chance(n, i int) int { return (i+n+3)*(i+n+3)*7919%9973 + 20000 }

// TestRules: how the last argument of put is known, at n = 3, 4, 6 and 8: its
// class and the rule. The senders w-0 to w-(n-1) are of one type.
func TestRules(t *testing.T) {
	puts := func(value func(n, i int) string) func(n int) string {
		return func(n int) string {
			var out strings.Builder
			for i := range 6 * n {
				fmt.Fprintf(&out, "c: put(%s)\n", value(n, i))
			}
			return out.String()
		}
	}
	for _, story := range []struct {
		name string
		log  func(n int) string
		want string
	}{
		{"one value", puts(func(int, int) string { return `"a"` }), "constant a"},
		{"the scale", puts(func(n, _ int) string { return fmt.Sprint(2 * n) }), "regular ={2*n}"},
		{"one value first, another later", puts(func(_, i int) string { return fmt.Sprint(i > 0) }), `regular ={first "false" then "true"}`},
		{"a text that counts", puts(func(_, i int) string { return fmt.Sprintf(`"part-%03d"`, i) }), "regular part-{i:03}"},
		{"every other call", puts(func(_, i int) string { return fmt.Sprintf(`"part-%d"`, i/2) }), "regular part-{floor(i/2)}"},
		{"again from the start after n calls", puts(func(n, i int) string { return fmt.Sprintf(`"part-%d"`, i%n) }), "regular part-{i%(n)}"},
		{"every node one further on, around a ring", func(n int) string {
			var out strings.Builder
			for i := range n {
				for k := range n {
					fmt.Fprintf(&out, "w-%d: put(\"disk-%d\")\n", k, (i+k)%n)
				}
			}
			return out.String()
		}, "regular disk-{(i+node)%(n)}"},
		{"the time of the call", func(n int) string {
			var out strings.Builder
			for i := range 6 * n {
				fmt.Fprintf(&out, "%d.%d c: put(%d)\n", i, i%7, 1000000+1000*i+143*(i%5))
			}
			return out.String()
		}, "regular ={now ms}"},
		{"a time that all were told a moment ago", func(n int) string {
			return strings.ReplaceAll(minetest.Times(n, "w-#: T = made()\nw-#: put(T)"), "T", fmt.Sprint(1000000+chance(n, 0)%1000))
		}, `flow ={reply "made#1" "return" | like "1000840"}`},
		{"the own name", func(n int) string { return minetest.Times(n, "w-#: put(\"w-#\")\nw-#: put(\"w-#\")") }, "regular w-{node}"},
		{"the own address", func(n int) string {
			return minetest.Times(n, "w-#@10.0.0.#: put(\"10.0.0.#\")\nw-#@10.0.0.#: put(\"10.0.0.#\")")
		}, "regular {address}"},
		{"a case for each kind of file", puts(func(n, i int) string {
			kind := chance(n, i) % 4
			return fmt.Sprintf("%d, %d", kind, []int{4, 2, 9, 7}[kind])
		}), `regular ={case arg "args0" "0" "4" "1" "2" "2" "9" "3" "7"}`},
		{"what is left of 100", puts(func(n, i int) string {
			a, b := chance(n, i)%40, chance(i, n)%30
			return fmt.Sprintf("%d, %d, %d", a, b, 100-a-b)
		}), `flow ={sum 100 - "args1" - "args0"}`},
		{"seconds, as a duration", puts(func(n, i int) string {
			return fmt.Sprintf("%d, \"%dm%ds\"", 60*(chance(n, i)%7+1)+i%9, chance(n, i)%7+1, i%9)
		}),
			`flow {span "args0"}`},
		{"the reply before", func(n int) string {
			var out strings.Builder
			for i := range 6 * n {
				fmt.Fprintf(&out, "c: %d = make()\nc: put(%d)\n", chance(n, i), chance(n, i))
			}
			return out.String()
		}, `flow ={reply "make#1" "return"}`},
		{"all but one in forty are as the first", puts(func(_, i int) string { return map[bool]string{true: "7", false: "8"}[i%40 == 31] }),
			`flow ={request "put#1" "args0" first | "8"}`},
		{"two in three are as the first: a guess, which explains nothing", puts(func(n, i int) string {
			return map[bool]string{true: "7", false: "8"}[chance(n, i)%3 == 0]
		}), `unknown ={request "put#1" "args0" first | "8"}`},
		{"no rule, but it looks like a port", puts(func(n, i int) string { return fmt.Sprint(chance(n, i) + 20000) }), "unknown ={unknown port}"},
		{"no rule, but there are only three ports", puts(func(n, i int) string { return fmt.Sprint(50000 + chance(n, i)%3) }),
			`unknown ={draw "50000" "50002" "50001"}`},
	} {
		t.Run(story.name, func(t *testing.T) {
			rules, _ := learned(t, story.log)
			if got := lastOf(rules, "put"); got != story.want {
				t.Errorf("%s, want %s", got, story.want)
			}
		})
	}
}

func learned(t *testing.T, log func(n int) string) (*Rules, []*corpus.Recording) {
	c := minetest.Learned(t, []int{3, 4, 6, 8}, log)
	for _, r := range c.Recordings {
		r.Sort()
		for _, s := range r.Senders {
			fmt.Sscanf(c.Syms.Text[s.Name], "w-%d", &s.Rank)
		}
	}
	return Learn(site.Find(c, c.Recordings), c.Recordings), c.Recordings
}

// lastOf is how the last argument of a method's first site is known.
func lastOf(m *Rules, method string) string {
	for _, st := range m.sites.All {
		if m.c.OpOf[st.Op].Method == method {
			a := m.of[st.ID][len(st.Args)-1]
			return fmt.Sprintf("%s %s", [...]string{"unknown", "constant", "regular", "flow"}[a.class()], m.template(a))
		}
	}
	return ""
}

// TestListLengths: a list is as long as the scale says, or as those seen.
func TestListLengths(t *testing.T) {
	odd := map[int]int{3: 7, 4: 5, 6: 16, 8: 9} // of the calls: no formula of the scale
	for _, story := range []struct {
		name string
		list func(n, i int) int
		want string
	}{
		{"as long as the scale says", func(n, _ int) int { return 2 * n }, "args1 [2*n]"},
		{"now one, now two", func(n, i int) int { return map[bool]int{true: 2, false: 1}[i < odd[n]] }, "args1 [1 1 1 1 1 1 1 2 2 2]"},
		{"some have none", func(n, i int) int { return map[bool]int{true: 3}[i < odd[n]] }, "args1 [0 0 0 0 0 0 0 3 3 3]"},
	} {
		t.Run(story.name, func(t *testing.T) {
			rules, runs := learned(t, func(n int) string {
				var out strings.Builder
				for i := range 6 * n {
					fmt.Fprintf(&out, "c: put(%d, [%s])\n", chance(n, i), strings.TrimSpace(strings.Repeat("5 ", story.list(n, i))))
				}
				return out.String()
			})
			got := ""
			for _, l := range ListLengths(rules.sites, runs).Write(rules.sites.All[0], runs) {
				got += fmt.Sprint(l.Path, " ", l.Lengths)
			}
			if got != story.want {
				t.Errorf("%s, want %s", got, story.want)
			}
		})
	}
}

// TestListed: up to nine names, a list in a reply gives what counting gives; a
// tenth would tell.
func TestListed(t *testing.T) {
	rules, _ := learned(t, func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"part-%d"`, i))
		}
		return fmt.Sprintf("c: [%s] = list()\n", strings.Join(names, ",")) + minetest.Times(n, `c: put("part-#")`)
	})
	got := rules.Listed(rules.sites.All[1])
	want := Listed{"args0", [2]string{"part-{i}", `part-{reply "list#1" "return[0]" index i 0 word 1}`}, 11}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestChained: what takes the last reply of a method depends on the calls that ever gave it,
// and not on all calls of the method.
func TestChained(t *testing.T) {
	rules, _ := learned(t, func(n int) string {
		out := minetest.Times(n, fmt.Sprintf("c: %d# = add(true)", 1+n%9)) // of other threads
		for i := range 2 * n {
			block := chance(n, 3*i)
			out += fmt.Sprintf("c: %d = add(\"data\")\nc: %d = add(\"data\", %d)\nc: %d = add(\"data\", %d)\n", block, block+1, block, block+2, block+1)
		}
		return out
	})
	const others, first, next = 0, 1, 2
	if !rules.Chained(next, first) || rules.Chained(next, others) {
		t.Errorf("the next block follows the first: %v, those of others: %v", rules.Chained(next, first), rules.Chained(next, others))
	}
}

// TestLastingIsNotChained: a value that seldom changes is that of the last call, and no sign of
// an order.
func TestLastingIsNotChained(t *testing.T) {
	for _, every := range []int{1, 40} { // calls until it changes
		rules, _ := learned(t, func(n int) string {
			var out strings.Builder
			for i := range 80 * n {
				fmt.Fprintf(&out, "c: %d = put(%d)\n", chance(n, (i+1)/every), chance(n, i/every))
			}
			return out.String()
		})
		if got, want := rules.Chained(0, 0), every == 1; got != want {
			t.Errorf("a value that changes every %d calls is chained: %v", every, got)
		}
	}
}

// TestCompare: the rules learned are held against another run, call by call.
func TestCompare(t *testing.T) {
	rules, _ := learned(t, func(n int) string { return minetest.Times(n, `c: put("part-#", 420)`) })
	other := minetest.Recording(t, rules.c, 10, "c: put(\"part-0\", 420)\nc: put(\"part-9\", 420)\nc: put(\"part-2\", 421)\nc: get(1)")
	other.Sort()
	rules.sites.Place(other)
	var got []int
	rules.Compare(other, func(_ *corpus.Call, matched int) { got = append(got, matched) })
	if fmt.Sprint(got) != "[2 1 1 0]" {
		t.Errorf("%v arguments are as predicted, want [2 1 1 0]", got)
	}
}

// TestByPlace: the places of some calls explain an argument, or do not.
func TestByPlace(t *testing.T) {
	rules, runs := learned(t, func(n int) string {
		var out strings.Builder
		for i := range 6 * n {
			fmt.Fprintf(&out, "c: put(\"part-%d\", %d)\n", i, chance(n, i))
		}
		return out.String()
	})
	args := rules.sites.All[0].Args
	for k, want := range []bool{true, false} {
		var occs []flow.Occ
		for _, r := range runs {
			for i := range r.Calls {
				occs = append(occs, flow.Occ{In: r, Call: int32(i), Pos: int32(k)})
			}
		}
		if got := ByPlace(rules.c, args[k], occs); got != want {
			t.Errorf("%s by its place: %v", args[k].Name, got)
		}
	}
}
