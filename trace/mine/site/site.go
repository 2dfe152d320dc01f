// Package site finds the places in a program that make calls: calls of one type
// of node that have one form. They are the contexts (PatternMiner §III-B3) in
// which counts and arguments are learned.
package site

import (
	"fmt"
	"slices"
	"strings"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// A Site is a place in the program that makes a call: a node type, what it
// calls, and the form of the request. The contexts of PatternMiner §III-B3 are
// positions in a log; a form does not change when threads interleave or a call
// comes late.
type Site struct {
	ID     corpus.SiteID
	Kind   int
	Op     corpus.OpID
	key    siteKey
	Label  string
	Calls  int
	shapes map[intern.ShapeID]int // how many of its requests have which shape
	Star   map[string]bool        // lists whose length varies, by their path up to the bracket
	Args   []*Arg
	byName map[string]*Arg
	plans  map[intern.ShapeID][]Leaf
	Until  *Condition // nil unless its calls are repeated until the reply meets it
}

// An Arg is one argument of a site: a leaf of its requests, or the leaves at
// one place of all elements of a list whose length varies.
type Arg struct {
	Site   *Site
	Index  int
	Name   string
	Kind   trace.Kind
	InList bool // in one whose length varies
}

// Named is the argument of a name; nil if the site has none.
func (st *Site) Named(name string) *Arg { return st.byName[name] }

// A siteKey is the form of a request of one type and op: the paths outside lists,
// and the texts there with every word masked that not all runs have.
type siteKey struct {
	kind int
	op   corpus.OpID
	hash uint64
}

// A Leaf is where one leaf of a request belongs: its argument, and the index
// in the list whose length varies.
type Leaf struct {
	Arg  int32
	Star int32
}

// MaxText is the length above which a text is data and not a name. Names of files
// in the recorded systems have up to about a hundred letters: with 60, a third of
// Hadoop's sites are merged and five more arguments are unknown; with 240 nothing
// changes.
const MaxText = 120

// Sites knows all call sites and how to find a call's.
type Sites struct {
	Corpus *corpus.Corpus
	byKey  map[siteKey]*Site
	All    []*Site
	vocab  map[intern.Symbol]bool // words that every run has
	masks  map[intern.Symbol]intern.Symbol
	known  map[form]bool    // what a masked text may look like
	split  map[siteKey]bool // forms whose lists have a few fixed lengths, each a site of its own

	standing map[siteKey]Standing
	parts    map[partKey]*Site // sites of one form, told apart by the calls around them
}

// A form is how a text at one path of a call looks once masked.
type form struct {
	kind int
	op   corpus.OpID
	path intern.PathID
	mask intern.Symbol
}

// Find sorts the calls of all runs into sites.
func Find(c *corpus.Corpus, runs []*corpus.Recording) *Sites {
	s := &Sites{Corpus: c, byKey: map[siteKey]*Site{}, vocab: vocabulary(c, runs), masks: map[intern.Symbol]intern.Symbol{}}
	s.known = s.forms(runs)
	s.split = s.tellingShapes(runs)
	for _, r := range runs {
		for i := range r.Calls {
			call := &r.Calls[i]
			key := s.key(call)
			st := s.byKey[key]
			if st == nil {
				st = &Site{ID: corpus.SiteID(len(s.All)), Kind: call.Sender.Kind, Op: call.Op, key: key, shapes: map[intern.ShapeID]int{}}
				s.byKey[key] = st
				s.All = append(s.All, st)
			}
			call.Site = st.ID
			st.Calls++
			st.shapes[call.Request.Shape]++
		}
		s.Number(r)
	}
	for _, st := range s.All {
		st.layOut(c)
	}
	s.label()
	return s
}

// Place finds the sites of the calls of another run. A call of a new form goes to
// the site of its type and op that has most calls.
func (s *Sites) Place(r *corpus.Recording) {
	fallback := s.fallback()
	for i := range r.Calls {
		call := &r.Calls[i]
		call.Site = corpus.NoSite
		if st := s.of(call, fallback); st != nil {
			call.Site = st.ID
		}
	}
	s.tellApart(r)
	s.Number(r)
}

// Of is the site of a call that sites were not learned from; nil if its type makes no such
// calls.
func (s *Sites) Of(call *corpus.Call) *Site { return s.of(call, s.fallback()) }

func (s *Sites) of(call *corpus.Call, fallback map[siteKey]*Site) *Site {
	if st := s.byKey[s.key(call)]; st != nil {
		return st
	}
	return fallback[siteKey{kind: call.Sender.Kind, op: call.Op}]
}

// fallback is the site of each type and op that has most calls.
func (s *Sites) fallback() map[siteKey]*Site {
	out := map[siteKey]*Site{}
	for _, st := range s.All {
		key := siteKey{kind: st.Kind, op: st.Op}
		if out[key] == nil || out[key].Calls < st.Calls {
			out[key] = st
		}
	}
	return out
}

// Number numbers each sender's calls of each site. All tries of a call that is
// repeated until its reply meets a condition have one number.
func (s *Sites) Number(r *corpus.Recording) {
	type key struct {
		s    *corpus.Sender
		site corpus.SiteID
	}
	seen := map[key]int32{}
	for i := range r.Calls {
		call := &r.Calls[i]
		k := key{call.Sender, call.Site}
		call.Nth = seen[k]
		if call.Site == corpus.NoSite || s.All[call.Site].Until == nil || s.Met(*s.All[call.Site].Until, call) {
			seen[k]++
		}
	}
}

// vocabulary is the words without digits that occur in the requests of every run.
// They belong to the program; a word that only some runs have is a generated name.
func vocabulary(c *corpus.Corpus, runs []*corpus.Recording) map[intern.Symbol]bool {
	seen := map[intern.Symbol]int{}
	for i, r := range runs {
		for k := range r.Calls {
			m := &r.Calls[k].Request
			for pos, p := range c.Shapes.Paths[m.Shape] {
				if c.Paths.Kind[p] != trace.String || len(c.Paths.Lists[p]) > 0 || len(c.Syms.Text[m.Values[pos]]) > MaxText {
					continue
				}
				for _, w := range c.Syms.Words(m.Values[pos]) {
					if seen[w] == i && intern.AllLetters(c.Syms.Text[w]) {
						seen[w] = i + 1
					}
				}
			}
		}
	}
	out := map[intern.Symbol]bool{}
	for w, n := range seen {
		if n == len(runs) {
			out[w] = true
		}
	}
	return out
}

// forms are the masked texts that more than one run has. A form that only one run
// has is data.
func (s *Sites) forms(runs []*corpus.Recording) map[form]bool {
	first, out := map[form]int{}, map[form]bool{}
	for i, r := range runs {
		for k := range r.Calls {
			call := &r.Calls[k]
			for pos, p := range s.Corpus.Shapes.Paths[call.Request.Shape] {
				if s.Corpus.Paths.Kind[p] != trace.String || len(s.Corpus.Paths.Lists[p]) > 0 {
					continue
				}
				f := form{call.Sender.Kind, call.Op, p, s.mask(call.Request.Values[pos])}
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

func (s *Sites) key(call *corpus.Call) siteKey {
	h := uint64(14695981039346656037) // FNV-1a; the shifts keep masks and shapes apart from paths
	mix := func(v uint64) { h = (h ^ v) * 1099511628211 }
	m := &call.Request
	for pos, p := range s.Corpus.Shapes.Paths[m.Shape] {
		if len(s.Corpus.Paths.Lists[p]) > 0 {
			continue
		}
		mix(uint64(p) + 1)
		if s.Corpus.Paths.Kind[p] == trace.String {
			mask := s.mask(m.Values[pos])
			if s.known[form{call.Sender.Kind, call.Op, p, mask}] {
				mix(uint64(mask+1) << 20)
			}
		}
	}
	key := siteKey{call.Sender.Kind, call.Op, h}
	if s.split[key] {
		mix(uint64(m.Shape) << 40)
		key.hash = h
	}
	return key
}

// maxShapes is how many fixed lengths the lists of one form may have. Half or twice
// changes nothing in the recorded systems; with many more, lengths that vary by
// chance would be taken for sites.
const maxShapes = 6

// tellingShapes finds the forms whose requests have a few shapes, each in every run
// and in a number that follows the scale: then the program has a site for each.
// Otherwise the length of the list varies.
func (s *Sites) tellingShapes(runs []*corpus.Recording) map[siteKey]bool {
	seen := map[siteKey]map[intern.ShapeID][]int{}
	for i, r := range runs {
		for k := range r.Calls {
			call := &r.Calls[k]
			key := s.key(call)
			if seen[key] == nil {
				seen[key] = map[intern.ShapeID][]int{}
			}
			if seen[key][call.Request.Shape] == nil {
				seen[key][call.Request.Shape] = make([]int, len(runs))
			}
			seen[key][call.Request.Shape][i]++
		}
	}
	out := map[siteKey]bool{}
	for key, shapes := range seen {
		out[key] = len(runs) > 1 && len(shapes) > 1 && len(shapes) <= maxShapes
		for _, calls := range shapes {
			out[key] = out[key] && !slices.Contains(calls, 0) && len(ladder.Exact(Points(runs, func(i int) int { return calls[i] }))) > 0
		}
	}
	return out
}

// mask replaces all words of a text that not every run has. A text that is data is
// masked as a whole.
func (s *Sites) mask(v intern.Symbol) intern.Symbol {
	if m, ok := s.masks[v]; ok {
		return m
	}
	text := s.Corpus.Syms.Text[v]
	var b strings.Builder
	last, data := 0, len(text) > MaxText
	program.EachWord(text, func(start, end int) {
		b.WriteString(text[last:start])
		if word := text[start:end]; s.vocab[s.Corpus.Syms.ID(word)] {
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
	m := s.Corpus.Syms.ID(out)
	s.masks[v] = m
	return m
}

// encodedLength is the length from which a word is encoded bytes: words of names are
// shorter. With half, a third of Hadoop's sites are merged and five more arguments
// are unknown; twice changes nothing.
const encodedLength = 20

// encoded reports whether a word that not every run has looks like encoded bytes: it
// is long, or has letters of both cases.
func encoded(word string) bool {
	return len(word) >= encodedLength || strings.ToLower(word) != word && strings.ToUpper(word) != word
}

// label names the sites: the method, and a number where one method has several.
func (s *Sites) label() {
	used := map[string]int{}
	for _, st := range s.All {
		method := s.Corpus.OpOf[st.Op].Method
		used[method]++
		st.Label = fmt.Sprintf("%s#%d", method, used[method])
	}
}

// layOut finds the arguments of a site: one for each leaf. The elements of a list
// whose length varies share an argument.
func (st *Site) layOut(c *corpus.Corpus) {
	st.Star = map[string]bool{}
	shapes := make([]intern.ShapeID, 0, len(st.shapes))
	depth := 0
	for id := range st.shapes {
		shapes = append(shapes, id)
		for _, p := range c.Shapes.Paths[id] {
			depth = max(depth, len(c.Paths.Lists[p]))
		}
	}
	slices.Sort(shapes)
	for d := range depth {
		st.findStars(c, shapes, d)
	}
	st.byName, st.plans = map[string]*Arg{}, map[intern.ShapeID][]Leaf{}
	for _, id := range shapes {
		st.Plan(c, id)
	}
}

// findStars finds the lists at one depth whose length varies between calls.
func (st *Site) findStars(c *corpus.Corpus, shapes []intern.ShapeID, depth int) {
	length := map[string]int{}   // of a list, by its general path
	present := map[string]bool{} // in this shape
	calls := map[string]int{}    // how many calls have it
	for _, id := range shapes {
		longest := map[string]int{} // of each single list in this shape
		general := map[string]string{}
		for _, p := range c.Shapes.Paths[id] {
			steps := c.Paths.Lists[p]
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
				st.Star[g] = true
			}
			length[g] = n
			present[g] = true
		}
		for g := range present {
			calls[g] += st.shapes[id]
		}
	}
	for g, n := range calls {
		if n != st.Calls && !strings.Contains(g, "[*]") {
			st.Star[g] = true
		}
	}
}

// general is a path with the indices of lists whose length varies taken out.
func (st *Site) general(path string, steps []intern.ListStep) string {
	var out strings.Builder
	last := 0
	for _, step := range steps {
		if st.Star[out.String()+path[last:step.Start-1]] {
			out.WriteString(path[last:step.Start])
			out.WriteByte('*')
			last = step.End
		}
	}
	out.WriteString(path[last:])
	return out.String()
}

// Plan gives the argument of each leaf of a shape, and adds arguments as needed.
func (st *Site) Plan(c *corpus.Corpus, id intern.ShapeID) []Leaf {
	if p, ok := st.plans[id]; ok {
		return p
	}
	out := make([]Leaf, len(c.Shapes.Paths[id]))
	for i, p := range c.Shapes.Paths[id] {
		name := st.general(c.Paths.Text[p], c.Paths.Lists[p])
		a := st.byName[name]
		if a == nil {
			a = &Arg{Site: st, Index: len(st.Args), Name: name, Kind: c.Paths.Kind[p], InList: strings.Contains(name, "[*]")}
			st.byName[name] = a
			st.Args = append(st.Args, a)
		}
		out[i] = Leaf{Arg: int32(a.Index), Star: starIndex(name, c.Paths.Lists[p])}
	}
	st.plans[id] = out
	return out
}

// starIndex is the index of the innermost list whose length varies.
func starIndex(name string, steps []intern.ListStep) int32 {
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

// A Condition is a leaf of a reply with a value: a repeated call ends with it.
type Condition struct {
	Path  intern.PathID
	Value intern.Symbol
}

// Met reports whether the reply to a call meets the condition.
func (s *Sites) Met(cond Condition, c *corpus.Call) bool {
	pos := s.Corpus.Shapes.Find(c.Response.Shape, cond.Path)
	return pos >= 0 && c.Response.Values[pos] == cond.Value
}

// Points is a number of every run against its scale.
func Points(runs []*corpus.Recording, count func(i int) int) []ladder.Point {
	points := make([]ladder.Point, len(runs))
	for i, r := range runs {
		points[i] = ladder.Point{N: r.Scale, V: count(i)}
	}
	return points
}

// Measure visits the lists of a shape whose length varies, with their lengths. A
// list that is missing has the length 0, unless it stands in another list.
func (st *Site) Measure(c *corpus.Corpus, id intern.ShapeID, visit func(list string, length int)) {
	longest, general := map[string]int{}, map[string]string{}
	for _, p := range c.Shapes.Paths[id] {
		steps := c.Paths.Lists[p]
		for depth, step := range steps {
			if g := st.general(step.Prefix, steps[:depth]); st.Star[g] {
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
	for g := range st.Star {
		if !seen[g] && !strings.Contains(g, "[*]") {
			visit(g, 0)
		}
	}
}
