package neighbour

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/trace/mine/argument"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/mine/site"
)

// TestSplit: which calls of stat are told apart by the calls around them.
func TestSplit(t *testing.T) {
	for _, story := range []struct {
		name   string
		scales []int
		log    func(n int) string
		want   string // the sites of one run's calls of stat
	}{
		{"before a write it is every file, before a read every third from 20 on", []int{3, 4, 6}, func(n int) string {
			return minetest.Times(n, "c: stat(\"f-#\")\nc: write()") + everyThird(n, "c: stat(\"f-#\")\nc: read()")
		}, "stat#1 stat#1 stat#1 stat#2 stat#2 stat#2"},
		{"one order explains all calls: they stay one site", []int{3, 4, 6}, func(n int) string {
			return minetest.Times(n, "c: stat(\"f-#\")\nc: write()") + "c: read()\n"
		}, "stat#1 stat#1 stat#1"},
		{"before a write it is every file, but of how many follows nothing", []int{3, 4, 6}, func(n int) string {
			written := map[int]int{3: 7, 4: 5, 6: 16}[n]
			return minetest.Times(written, "c: stat(\"f-#\")\nc: write()") + everyThird(6*n-written, "c: stat(\"f-#\")\nc: read()") +
				minetest.Times(6*n-written, "c: write()") + minetest.Times(written, "c: read()")
		}, strings.TrimSpace(strings.Repeat("stat#1 ", 18))},
		{"two runs prove nothing", []int{3, 4}, func(int) string {
			return minetest.Times(3, "c: stat(\"f-#\")\nc: write()") + everyThird(3, "c: stat(\"f-#\")\nc: read()")
		}, "stat#1 stat#1 stat#1 stat#1 stat#1 stat#1"},
		{"around the second file of each pair nothing differs, and its names follow nothing", []int{3, 4, 6}, func(n int) string {
			var out strings.Builder
			for i := range n {
				fmt.Fprintf(&out, "c: stat(\"f-%d\")\nc: write()\nc: stat(\"f-%d\")\nc: read()\n", i, (i+n)*(i+n)*7919%9973)
			}
			return out.String()
		}, "stat#1 stat#1 stat#1 stat#1 stat#1 stat#1"},
		{"a call that comes by chance is no neighbour", []int{3, 4, 6}, func(n int) string {
			first := minetest.Times(n, "c: stat(\"f-#\")\nc: write()")
			for _, i := range map[int][]int{3: {1}, 4: {0, 1, 2}, 6: {4}}[n] {
				line := fmt.Sprintf("c: stat(\"f-%d\")\n", i)
				first = strings.Replace(first, line, line+"c: gc()\n", 1)
			}
			return first + everyThird(n, "c: stat(\"f-#\")\nc: read()")
		}, "stat#1 stat#1 stat#1 stat#2 stat#2 stat#2"},
		{"more contexts than a place in a program has", []int{3, 4, 6}, func(n int) string {
			var out strings.Builder
			for i := range maxContexts + 1 {
				for k := range n {
					fmt.Fprintf(&out, "c: stat(\"f-%d\")\nc: call%d()\n", k*(1+i%2), i)
				}
			}
			return out.String()
		}, strings.TrimSpace(strings.Repeat("stat#1 ", 3*(maxContexts+1)))},
	} {
		t.Run(story.name, func(t *testing.T) {
			if got := sitesOfStat(t, story.scales, story.log); got != story.want {
				t.Errorf("%s, want %s", got, story.want)
			}
		})
	}
}

// everyThird is a log of one line n times, with 20, 23, 26 and so on for every # in it.
func everyThird(n int, line string) string {
	var out strings.Builder
	for i := range n {
		out.WriteString(strings.ReplaceAll(line, "#", fmt.Sprint(20+3*i)) + "\n")
	}
	return out.String()
}

// sitesOfStat are the sites that the calls of stat have in the first run.
func sitesOfStat(t *testing.T, scales []int, log func(n int) string) string {
	c := minetest.Learned(t, scales, log)
	for _, r := range c.Recordings {
		r.Sort()
	}
	s := count.Learn(site.Find(c, c.Recordings), []count.Count{count.Nodes(0, c.Recordings)}, c.Recordings)
	Split(s, argument.Learn(s.Sites, c.Recordings), c.Recordings)
	var out []string
	for i := range c.Recordings[0].Calls {
		if st := s.Sites.All[c.Recordings[0].Calls[i].Site]; c.OpOf[st.Op].Method == "stat" {
			out = append(out, st.Label)
		}
	}
	return strings.Join(out, " ")
}
