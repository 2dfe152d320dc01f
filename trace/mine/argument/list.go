package argument

import (
	"slices"
	"strings"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
)

// lengths are how long the lists of a site were, by run: how many lists had
// which length.
type lengths map[string]map[*corpus.Recording]map[int]int

// Lists are the lengths of the lists of all sites.
type Lists map[corpus.SiteID]lengths

// ListLengths measures the lists whose length varies, of all sites.
func ListLengths(s *site.Sites, runs []*corpus.Recording) Lists {
	type form struct {
		site  corpus.SiteID
		shape intern.ShapeID
	}
	out := Lists{}
	for _, r := range runs {
		calls := map[form]int{}
		for i := range r.Calls {
			if c := &r.Calls[i]; c.Site != corpus.NoSite && len(s.All[c.Site].Star) > 0 {
				calls[form{c.Site, c.Request.Shape}]++
			}
		}
		for f, n := range calls {
			if out[f.site] == nil {
				out[f.site] = lengths{}
			}
			s.All[f.site].Measure(s.Corpus, f.shape, func(list string, length int) {
				out[f.site].note(list, r, length, n)
			})
		}
	}
	return out
}

func (l lengths) note(list string, r *corpus.Recording, length, times int) {
	if l[list] == nil {
		l[list] = map[*corpus.Recording]map[int]int{}
	}
	if l[list][r] == nil {
		l[list][r] = map[int]int{}
	}
	l[list][r][length] += times
}

// Write gives the lengths of a site's lists: a formula if all lists of a run have
// one length that follows the scale, otherwise lengths that were seen.
func (l Lists) Write(st *site.Site, runs []*corpus.Recording) program.Lists {
	found := l[st.ID]
	var out program.Lists
	for _, a := range st.Args {
		for at := strings.Index(a.Name, "[*]"); at >= 0; at = nextStar(a.Name, at) {
			list := a.Name[:at]
			if !slices.ContainsFunc(out, func(l program.List) bool { return l.Path == list }) && found[list] != nil {
				out = append(out, program.List{Path: list, Lengths: lengthsOf(found[list], runs)})
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

func lengthsOf(byRun map[*corpus.Recording]map[int]int, runs []*corpus.Recording) []program.Formula {
	var points []ladder.Point
	same := true
	all := map[int]int{}
	for _, r := range runs {
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

// spreadLengths picks lengths at even steps through those that were seen: the 5th,
// 15th and so on to the 95th percentile. Ten are enough for a median and a tail,
// and few enough to be read in a program. One, if all are the same.
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
