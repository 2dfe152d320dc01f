package mine

import (
	"fmt"
	"slices"
	"strings"

	"gleaner/trace"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

type siteID int32

const noSite siteID = -1

// A site is a place in the program that makes a call: a node type, what it
// calls, and the form of the request. Telling calls apart by form and not by
// position alone keeps the contexts of PatternMiner §III-B3 whole when threads
// interleave or a call comes late.
type site struct {
	id     siteID
	kind   int
	op     opID
	key    siteKey
	label  string
	calls  int
	shapes map[shapeID]int // how many of its requests have which shape
	star   map[string]bool // lists whose length varies, by their path up to the bracket
	args   []*arg
	byName map[string]*arg
	plans  map[shapeID][]place

	count     count
	explained bool // the count is that of the loops the site is in
	nature    nature
	period    int64     // nanoseconds between its calls, where they keep time
	follows   follow    // the site whose count decides this one's
	until     condition // what a repeated call waits for
	groups    count     // then: how often it is waited for
	tries     float64   // and how many calls that takes
	reach     []reach   // the calls it is made for
	perReach  float64   // and how many calls one of them takes
}

// A siteKey tells the requests of one type and op apart: the paths outside
// lists, and the texts there with everything that varies masked.
type siteKey struct {
	kind int
	op   opID
	hash uint64
}

// A place is where one leaf of a request belongs: its argument, and the index
// in the list whose length varies.
type place struct {
	arg  int32
	star int32
}

// maxText is the length above which a text is data and not a name.
const maxText = 120

// sites knows all call sites and how to find a call's.
type sites struct {
	c     *Corpus
	byKey map[siteKey]*site
	all   []*site
	vocab map[symbol]bool // words that every run knows
	masks map[symbol]symbol
	known map[form]bool    // what a masked text may look like
	split map[siteKey]bool // sites whose lists have so few lengths that they tell calls apart
}

// A form is how a text at one path of a call looks once masked.
type form struct {
	kind int
	op   opID
	path pathID
	mask symbol
}

// findSites sorts the calls of all runs into sites.
func (c *Corpus) findSites(runs []*Run) *sites {
	s := &sites{c: c, byKey: map[siteKey]*site{}, vocab: c.vocabulary(runs), masks: map[symbol]symbol{}}
	s.known = s.forms(runs)
	s.split = s.tellingShapes(runs)
	for _, r := range runs {
		for i := range r.calls {
			call := &r.calls[i]
			key := s.key(call)
			st := s.byKey[key]
			if st == nil {
				st = &site{id: siteID(len(s.all)), kind: call.sender.kind, op: call.op, key: key, shapes: map[shapeID]int{}}
				s.byKey[key] = st
				s.all = append(s.all, st)
			}
			call.site = st.id
			st.calls++
			st.shapes[call.req.shape]++
		}
		s.number(r)
	}
	for _, st := range s.all {
		st.layOut(c)
	}
	s.label()
	return s
}

// place finds the sites of a run that was not learned from; a call of a form
// never seen goes to the site of its type and op that most calls came from.
func (s *sites) place(r *Run) {
	fallback := map[siteKey]*site{}
	for _, st := range s.all {
		key := siteKey{kind: st.kind, op: st.op}
		if fallback[key] == nil || fallback[key].calls < st.calls {
			fallback[key] = st
		}
	}
	for i := range r.calls {
		call := &r.calls[i]
		call.site = noSite
		st := s.byKey[s.key(call)]
		if st == nil {
			st = fallback[siteKey{kind: call.sender.kind, op: call.op}]
		}
		if st != nil {
			call.site = st.id
		}
	}
	s.number(r)
}

// number counts each sender's calls of each site. Where a call is repeated
// until its reply is the one waited for, all tries are one call.
func (s *sites) number(r *Run) {
	type key struct {
		s    *sender
		site siteID
	}
	seen := map[key]int32{}
	for i := range r.calls {
		call := &r.calls[i]
		k := key{call.sender, call.site}
		call.nth = seen[k]
		if call.site == noSite || s.all[call.site].nature != until || s.met(s.all[call.site].until, call) {
			seen[k]++
		}
	}
}

// vocabulary is the words without digits that occur in the requests of every
// run: names the program knows, as against names somebody made up.
func (c *Corpus) vocabulary(runs []*Run) map[symbol]bool {
	seen := map[symbol]int{}
	for i, r := range runs {
		for k := range r.calls {
			m := &r.calls[k].req
			for pos, p := range c.shapes.Paths[m.shape] {
				if c.paths.Kind[p] != trace.String || len(c.paths.Lists[p]) > 0 || len(c.syms.Text[m.values[pos]]) > maxText {
					continue
				}
				for _, w := range c.syms.Words(m.values[pos]) {
					if seen[w] == i && intern.AllLetters(c.syms.Text[w]) {
						seen[w] = i + 1
					}
				}
			}
		}
	}
	out := map[symbol]bool{}
	for w, n := range seen {
		if n == len(runs) {
			out[w] = true
		}
	}
	return out
}

// forms are those that more than one run has; a form of a single run is data,
// not a name.
func (s *sites) forms(runs []*Run) map[form]bool {
	first, out := map[form]int{}, map[form]bool{}
	for i, r := range runs {
		for k := range r.calls {
			call := &r.calls[k]
			for pos, p := range s.c.shapes.Paths[call.req.shape] {
				if s.c.paths.Kind[p] != trace.String || len(s.c.paths.Lists[p]) > 0 {
					continue
				}
				f := form{call.sender.kind, call.op, p, s.mask(call.req.values[pos])}
				if at, seen := first[f]; !seen {
					first[f] = i
				} else if at != i {
					out[f] = true
				}
			}
		}
	}
	if len(runs) == 1 {
		for f := range first {
			out[f] = true
		}
	}
	return out
}

func (s *sites) key(call *call) siteKey {
	h := uint64(14695981039346656037)
	mix := func(v uint64) { h = (h ^ v) * 1099511628211 }
	m := &call.req
	for pos, p := range s.c.shapes.Paths[m.shape] {
		if len(s.c.paths.Lists[p]) > 0 {
			continue
		}
		mix(uint64(p) + 1)
		if s.c.paths.Kind[p] == trace.String {
			mask := s.mask(m.values[pos])
			if s.known[form{call.sender.kind, call.op, p, mask}] {
				mix(uint64(mask+1) << 20)
			}
		}
	}
	key := siteKey{call.sender.kind, call.op, h}
	if s.split[key] {
		mix(uint64(m.shape) << 40)
		key.hash = h
	}
	return key
}

// tellingShapes finds the sites whose requests have a few shapes that every
// run knows, and as often as the scale says: their lists are written out in the
// program. Where chance decides what goes into one message, the list is one
// whose length varies.
func (s *sites) tellingShapes(runs []*Run) map[siteKey]bool {
	seen := map[siteKey]map[shapeID][]int{}
	for i, r := range runs {
		for k := range r.calls {
			call := &r.calls[k]
			key := s.key(call)
			if seen[key] == nil {
				seen[key] = map[shapeID][]int{}
			}
			if seen[key][call.req.shape] == nil {
				seen[key][call.req.shape] = make([]int, len(runs))
			}
			seen[key][call.req.shape][i]++
		}
	}
	out := map[siteKey]bool{}
	for key, shapes := range seen {
		out[key] = len(runs) > 1 && len(shapes) > 1 && len(shapes) <= 6
		for _, calls := range shapes {
			out[key] = out[key] && !slices.Contains(calls, 0) && len(ladder.Exact(pointsOf(runs, func(i int) int { return calls[i] }))) > 0
		}
	}
	return out
}

// mask replaces all words of a text that are not known to every run. A text
// that is data and not a name is masked as a whole.
func (s *sites) mask(v symbol) symbol {
	if m, ok := s.masks[v]; ok {
		return m
	}
	text := s.c.syms.Text[v]
	var b strings.Builder
	last, data := 0, len(text) > maxText
	program.EachWord(text, func(start, end int) {
		b.WriteString(text[last:start])
		if word := text[start:end]; s.vocab[s.c.syms.ID(word)] {
			b.WriteString(word)
		} else {
			b.WriteByte('*')
			data = data || encoded(word)
		}
		last = end
	})
	b.WriteString(text[last:])
	out := b.String()
	if data {
		out = "**"
	}
	m := s.c.syms.ID(out)
	s.masks[v] = m
	return m
}

// encoded reports whether a word nobody knows looks like bytes in disguise.
func encoded(word string) bool {
	return len(word) >= 20 || strings.ToLower(word) != word && strings.ToUpper(word) != word
}

// label names the sites: the method, and a number where one method has several.
func (s *sites) label() {
	used := map[string]int{}
	for _, st := range s.all {
		method := s.c.opOf[st.op].method
		used[method]++
		st.label = fmt.Sprintf("%s#%d", method, used[method])
	}
}

// layOut finds the arguments of a site: one for each leaf, where the elements
// of a list whose length varies share theirs.
func (st *site) layOut(c *Corpus) {
	st.star = map[string]bool{}
	shapes := make([]shapeID, 0, len(st.shapes))
	depth := 0
	for id := range st.shapes {
		shapes = append(shapes, id)
		for _, p := range c.shapes.Paths[id] {
			depth = max(depth, len(c.paths.Lists[p]))
		}
	}
	slices.Sort(shapes)
	for d := range depth {
		st.findStars(c, shapes, d)
	}
	st.byName, st.plans = map[string]*arg{}, map[shapeID][]place{}
	for _, id := range shapes {
		st.plan(c, id)
	}
}

// findStars finds the lists at one depth whose length varies between calls.
func (st *site) findStars(c *Corpus, shapes []shapeID, depth int) {
	length := map[string]int{}   // of a list, by its general path
	present := map[string]bool{} // in this shape
	calls := map[string]int{}    // how many calls have it
	for _, id := range shapes {
		longest := map[string]int{} // of each single list in this shape
		general := map[string]string{}
		for _, p := range c.shapes.Paths[id] {
			steps := c.paths.Lists[p]
			if len(steps) <= depth {
				continue
			}
			prefix := steps[depth].Prefix
			longest[prefix] = max(longest[prefix], steps[depth].Index+1)
			general[prefix] = st.general(prefix, steps[:depth])
		}
		clear(present)
		for prefix, n := range longest {
			g := general[prefix]
			if before, ok := length[g]; ok && before != n {
				st.star[g] = true
			}
			length[g] = n
			present[g] = true
		}
		for g := range present {
			calls[g] += st.shapes[id]
		}
	}
	for g, n := range calls {
		if n != st.calls && !strings.Contains(g, "[*]") {
			st.star[g] = true
		}
	}
}

// general is a path with the indices of lists whose length varies taken out.
func (st *site) general(path string, steps []listStep) string {
	var out strings.Builder
	last := 0
	for _, step := range steps {
		if st.star[out.String()+path[last:step.Start-1]] {
			out.WriteString(path[last:step.Start])
			out.WriteByte('*')
			last = step.End
		}
	}
	out.WriteString(path[last:])
	return out.String()
}

// plan says where each leaf of a shape belongs, making arguments as needed.
func (st *site) plan(c *Corpus, id shapeID) []place {
	if p, ok := st.plans[id]; ok {
		return p
	}
	out := make([]place, len(c.shapes.Paths[id]))
	for i, p := range c.shapes.Paths[id] {
		name := st.general(c.paths.Text[p], c.paths.Lists[p])
		a := st.byName[name]
		if a == nil {
			a = &arg{site: st, index: len(st.args), name: name, kind: c.paths.Kind[p]}
			st.byName[name] = a
			st.args = append(st.args, a)
		}
		out[i] = place{arg: int32(a.index), star: starIndex(name, c.paths.Lists[p])}
	}
	st.plans[id] = out
	return out
}

// starIndex is the index of the innermost list whose length varies.
func starIndex(name string, steps []listStep) int32 {
	at := strings.LastIndex(name, "[*]")
	if at < 0 {
		return 0
	}
	depth := strings.Count(name[:at], "[") - strings.Count(name[:at], `\[`)
	if depth < len(steps) {
		return int32(steps[depth].Index)
	}
	return 0
}
