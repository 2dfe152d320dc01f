package mine

import (
	"slices"
	"strings"

	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// lengths are how long the lists of a site were, by run: how many lists had
// which length.
type lengths map[string]map[*Run]map[int]int

// listLengths measures the lists whose length varies, of all sites.
func (s *sites) listLengths(runs []*Run) map[siteID]lengths {
	type form struct {
		site  siteID
		shape shapeID
	}
	out := map[siteID]lengths{}
	for _, r := range runs {
		calls := map[form]int{}
		for i := range r.calls {
			if c := &r.calls[i]; c.site != noSite && len(s.all[c.site].star) > 0 {
				calls[form{c.site, c.req.shape}]++
			}
		}
		for f, n := range calls {
			if out[f.site] == nil {
				out[f.site] = lengths{}
			}
			s.all[f.site].measure(s.c, f.shape, func(list string, length int) {
				out[f.site].note(list, r, length, n)
			})
		}
	}
	return out
}

func (l lengths) note(list string, r *Run, length, times int) {
	if l[list] == nil {
		l[list] = map[*Run]map[int]int{}
	}
	if l[list][r] == nil {
		l[list][r] = map[int]int{}
	}
	l[list][r][length] += times
}

// measure visits the lists of a shape whose length varies, those that are not
// there included where they stand in no other list.
func (st *site) measure(c *Corpus, id shapeID, visit func(list string, length int)) {
	longest, general := map[string]int{}, map[string]string{}
	for _, p := range c.shapes.Paths[id] {
		steps := c.paths.Lists[p]
		for depth, step := range steps {
			if g := st.general(step.Prefix, steps[:depth]); st.star[g] {
				longest[step.Prefix] = max(longest[step.Prefix], step.Index+1)
				general[step.Prefix] = g
			}
		}
	}
	seen := map[string]bool{}
	for list, n := range longest {
		visit(general[list], n)
		seen[general[list]] = true
	}
	for g := range st.star {
		if !seen[g] && !strings.Contains(g, "[*]") {
			visit(g, 0)
		}
	}
}

// writeLists says how long the lists of a site are: by a formula where all of a
// run are as long and the scale decides, else by what was seen.
func (m *Model) writeLists(st *site, found lengths) program.Lists {
	var out program.Lists
	for _, a := range st.args {
		for at := strings.Index(a.name, "[*]"); at >= 0; at = nextStar(a.name, at) {
			list := a.name[:at]
			if !slices.ContainsFunc(out, func(l program.List) bool { return l.Path == list }) && found[list] != nil {
				out = append(out, program.List{Path: list, Lengths: m.lengthsOf(found[list])})
			}
		}
	}
	return out
}

func nextStar(name string, at int) int {
	next := strings.Index(name[at+1:], "[*]")
	if next < 0 {
		return -1
	}
	return at + 1 + next
}

func (m *Model) lengthsOf(byRun map[*Run]map[int]int) []program.Formula {
	var points []ladder.Point
	same := true
	all := map[int]int{}
	for _, r := range m.runs {
		for n, times := range byRun[r] {
			all[n] += times
			points = append(points, ladder.Point{N: r.Scale, V: n})
		}
		same = same && len(byRun[r]) <= 1
	}
	if forms := ladder.Exact(points); same && len(forms) > 0 {
		return forms[:1]
	}
	return spreadLengths(all)
}

// spreadLengths picks ten lengths that stand for as many parts of what was
// seen, or one where they are the same.
func spreadLengths(all map[int]int) []program.Formula {
	var sorted []int
	total := 0
	for n, times := range all {
		sorted = append(sorted, n)
		total += times
	}
	slices.Sort(sorted)
	const parts = 10
	var picked []int
	seen := 0
	for _, n := range sorted {
		seen += all[n]
		for len(picked) < parts && (2*len(picked)+1)*total <= 2*parts*seen {
			picked = append(picked, n)
		}
	}
	if picked[0] == picked[parts-1] {
		picked = picked[:1]
	}
	out := make([]program.Formula, len(picked))
	for i, n := range picked {
		out[i] = program.MustFormula("%d", n)
	}
	return out
}
