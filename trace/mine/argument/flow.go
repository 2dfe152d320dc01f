package argument

import (
	"cmp"
	"slices"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
)

// A search is a slot whose source is looked for: candidates come from a few
// occurrences (the sources that could have given the value), and are then held
// against all of them, in all runs. Values that mean little (0, true, 3) have
// many candidates and lose them all on the way.
type search struct {
	slot  *slot
	votes map[source]vote
	cands []*candidate
	occs  []occ
}

// A vote is how many samples a source explains, and from how far back.
type vote struct{ count, distance int }

type candidate struct {
	source
	distance int // to the source, for one sample
	results  []outcome
	hits     int
	misses   int
}

type outcome uint8

const (
	silent outcome = iota
	hit
	miss
)

const (
	samplesPerRun = 5
	entriesSeen   = 400
	entriesUsed   = 16
)

// places is how many candidates of each kind are held against all occurrences:
// votes tell how often a source could have been meant, which favours those
// that hold much.
var places = [...]int{ownCall: 6, ownName: 4, ownAddress: 4, sameSender: 10, sameArg: 14, anyCall: 6, sameAddress: 4}

// findFlows looks for the sources of the slots that are not known by place.
func (s *Rules) findFlows(slots []*slot, runs []*corpus.Run) {
	searches := make([]*search, len(slots))
	for i, sl := range slots {
		searches[i] = &search{slot: sl, votes: map[source]vote{}, occs: sl.arg.occs}
	}
	s.propose(searches, runs)
	s.verify(searches, runs)
	var open, left []*search
	for _, se := range searches {
		if !se.decide(s) {
			open = append(open, se)
		}
	}
	for _, sl := range slots {
		sl.arg.preferWords()
	}
	for _, se := range open {
		// A text whose every word is known is known better than one of many.
		if se.slot.arg.class() == unknown && se.seldomTwice() {
			se.unordered()
			left = append(left, se)
		}
	}
	s.verify(left, runs)
	for _, se := range left {
		se.decide(s)
	}
}

// preferWords gives up a text that now this and now that could have given, when
// one rule for each of its words says as much.
func (a *arg) preferWords() {
	if len(a.words) == 0 || len(a.whole.rules) < 2 || slices.ContainsFunc(a.words, func(w *slot) bool { return len(w.rules) != 1 }) {
		return
	}
	a.whole.rules, a.whole.solved = nil, unknown
}

// An entry says where a value occurs.
type entry struct {
	call int32
	pos  int32
	part corpus.Part
	word int16
}

// propose gathers candidates.
func (s *Rules) propose(searches []*search, runs []*corpus.Run) {
	samples := map[*corpus.Run][]*sample{}
	for _, se := range searches {
		for _, o := range se.slot.arg.spread(samplesPerRun) {
			if v, ok := se.slot.value(s.c, o); ok {
				samples[o.run] = append(samples[o.run], &sample{se, o, v})
			}
		}
	}
	for _, r := range runs {
		if len(samples[r]) == 0 {
			continue
		}
		needed := map[intern.Symbol][]entry{}
		for _, sm := range samples[r] {
			needed[sm.value] = nil
		}
		s.index(r, needed)
		for _, sm := range samples[r] {
			s.candidates(sm, needed[sm.value])
		}
	}
	for _, se := range searches {
		se.shortlist()
	}
}

type sample struct {
	search *search
	occ    occ
	value  intern.Symbol
}

// index lists where the needed values occur in a run.
func (s *Rules) index(r *corpus.Run, needed map[intern.Symbol][]entry) {
	add := func(v intern.Symbol, e entry) {
		v = s.c.Syms.Canonical(v)
		if list, ok := needed[v]; ok {
			needed[v] = append(list, e)
		}
	}
	for i := range r.Calls {
		for _, part := range []corpus.Part{corpus.Request, corpus.Response} {
			m := r.Calls[i].Message(part)
			for pos, v := range m.Values {
				add(v, entry{int32(i), int32(pos), part, -1})
				if s.c.Paths.Kind[s.c.Shapes.Paths[m.Shape][pos]] != trace.String || len(s.c.Syms.Text[v]) > 4*site.MaxText {
					continue
				}
				if words := s.c.Syms.Words(v); len(words) > 1 && len(words) <= 24 {
					for w, word := range words {
						add(word, entry{int32(i), int32(pos), part, int16(w)})
					}
				}
			}
		}
	}
}

// candidates votes for all sources that would have given one sample its value.
func (s *Rules) candidates(sm *sample, entries []entry) {
	call := sm.occ.callOf()
	seen := map[source]bool{}
	distance := 0
	vote := func(src source) {
		if !seen[src] {
			seen[src] = true
			v := sm.search.votes[src]
			sm.search.votes[src] = vote{v.count + 1, v.distance + distance}
		}
	}
	s.ownCandidates(sm, vote)
	keys := s.keys(sm)
	end, _ := slices.BinarySearchFunc(entries, sm.occ.call, func(e entry, at int32) int { return cmp.Compare(e.call, at) })
	for _, own := range []bool{true, false} {
		used := map[entry]int{} // of one place in one kind of call
		taken := 0
		for i := end - 1; i >= max(0, end-entriesSeen) && taken < entriesUsed; i-- {
			en := entries[i]
			from := &sm.occ.run.Calls[en.call]
			place := entry{int32(from.Site), en.pos, en.part, en.word}
			late := en.part == corpus.Response && (from.End == 0 || from.End > call.Start)
			if late || (from.Sender == call.Sender) != own || used[place] >= 2 {
				continue
			}
			used[place]++
			taken++
			distance = int(sm.occ.call - en.call)
			s.earlier(sm, en, from, keys, vote)
		}
	}
}

// ownCandidates are other arguments of the same call, and the sender's name.
func (s *Rules) ownCandidates(sm *sample, vote func(source)) {
	call := sm.occ.callOf()
	for pos, v := range call.Request.Values[:sm.occ.pos] {
		path := s.c.Shapes.Paths[call.Request.Shape][pos]
		if s.c.Syms.Canonical(v) == sm.value {
			for _, src := range s.indexed(source{key: ownCall, path: path, word: -1}, sm.occ, nil) {
				if src.index == fixed || src.index == byItem {
					vote(src)
				}
			}
		}
	}
	for _, own := range []struct {
		key keyKind
		v   intern.Symbol
	}{{ownName, call.Sender.Name}, {ownAddress, call.Sender.Address}} {
		if own.v != intern.Empty && s.c.Syms.Canonical(own.v) == sm.value {
			vote(source{key: own.key, word: -1})
		}
		for w, word := range s.c.Syms.Words(own.v) {
			if s.c.Syms.Canonical(word) == sm.value {
				vote(source{key: own.key, word: int16(w)})
			}
		}
	}
}

// keys are the own arguments that vary, by value: a source may be found by them.
func (s *Rules) keys(sm *sample) map[intern.Symbol][]int32 {
	call := sm.occ.callOf()
	out := map[intern.Symbol][]int32{}
	for pos, p := range s.sites.All[call.Site].Plan(s.c, call.Request.Shape) {
		a := s.of[call.Site][p.Arg]
		if a.constant || a.steady() || a == sm.search.slot.arg || int32(pos) > sm.occ.pos && !a.early() || len(out) >= 12 {
			continue
		}
		if a.whole != nil && p.Star == sm.occ.star || p.Star == 0 {
			v := s.c.Syms.Canonical(call.Request.Values[pos])
			out[v] = append(out[v], p.Arg)
		}
	}
	return out
}

// earlier votes for what leads to one place in an earlier call.
func (s *Rules) earlier(sm *sample, en entry, from *corpus.Call, keys map[intern.Symbol][]int32, vote func(source)) {
	call := sm.occ.callOf()
	base := source{part: en.part, path: s.c.Shapes.Paths[from.Message(en.part).Shape][en.pos], word: en.word}
	each := func(src source) {
		for _, sc := range []scope{{siteScope, int32(from.Site)}, {opScope, int32(from.Op)}, {anyScope, 0}} {
			if sc.kind == anyScope && src.key != sameArg {
				continue
			}
			src.from = sc
			vote(src)
		}
	}
	for _, src := range s.indexed(base, sm.occ, nil) {
		src.key = anyCall
		each(src)
		if from.Sender == call.Sender {
			src.key = sameSender
			each(src)
		} else if from.Sender.Address == call.Sender.Address && call.Sender.Address != intern.Empty {
			src.key = sameAddress
			each(src)
		}
	}
	for _, qPart := range []corpus.Part{corpus.Request, corpus.Response} {
		m := from.Message(qPart)
		for pos, v := range m.Values {
			args := keys[s.c.Syms.Canonical(v)]
			if len(args) == 0 || qPart == en.part && int32(pos) == en.pos {
				continue
			}
			q := s.c.Shapes.Paths[m.Shape][pos]
			src := base
			src.key, src.qPart, src.q = sameArg, qPart, s.c.Paths.Class[q]
			for _, indexed := range s.indexed(src, sm.occ, s.c.Paths.Lists[q]) {
				for _, a := range args {
					indexed.arg = a
					each(indexed)
				}
			}
		}
	}
}

// indexed gives the ways to say which element of a list a source means.
func (s *Rules) indexed(src source, o occ, row []intern.ListStep) []source {
	out := []source{src}
	steps := s.c.Paths.Lists[src.path]
	for level, step := range steps {
		add := func(by indexBy) {
			moved := src
			moved.level, moved.index = int8(level), by
			moved.path = s.c.Paths.At(src.path, level, 0)
			out = append(out, moved)
		}
		if step.Index == int(o.star) {
			add(byItem)
		}
		if step.Index == o.callOf().Sender.Rank {
			add(byNode)
		}
		if step.Index == int(o.callOf().Nth) {
			add(byNth)
		}
		if level < len(row) && row[level].Prefix == step.Prefix && row[level].Index == step.Index {
			add(byRow)
		}
	}
	return out
}

// shortlist keeps the candidates with the most votes, and tries for each all
// ways to choose among several calls.
func (se *search) shortlist() {
	type voted struct {
		source
		vote
	}
	all := make([]voted, 0, len(se.votes))
	for src, v := range se.votes {
		all = append(all, voted{src, v})
	}
	slices.SortFunc(all, func(a, b voted) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.cost(), b.cost()), compareSources(a.source, b.source))
	})
	taken := [...]int{sameAddress: 0}
	for _, v := range all {
		if v.count*4 < all[0].count {
			break
		}
		if taken[v.key]++; taken[v.key] > places[v.key] {
			continue
		}
		selectors := []selector{last}
		switch {
		case v.key == sameSender || v.key == anyCall:
			selectors = []selector{last, firstOne, nthOne, nodeOne}
		case v.key == sameArg:
			selectors = []selector{last, firstOne}
		}
		for _, sel := range selectors {
			src := v.source
			src.sel = sel
			se.cands = append(se.cands, &candidate{source: src, distance: v.distance / v.count, results: make([]outcome, len(se.occs))})
		}
	}
	se.votes = nil
}

// unordered adds, for every source that was tried, that any of its calls may
// be meant: in which order they are taken is nobody's choice.
func (se *search) unordered() {
	for _, c := range se.cands {
		if c.sel == last && c.key >= sameSender {
			src := c.source
			src.sel = each
			se.cands = append(se.cands, &candidate{source: src, distance: c.distance, results: make([]outcome, len(se.occs))})
		}
	}
	for _, c := range se.cands {
		clear(c.results)
		c.hits, c.misses = 0, 0
	}
}

func compareSources(a, b source) int {
	return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.from.id, b.from.id), cmp.Compare(a.from.kind, b.from.kind), cmp.Compare(a.word, b.word),
		cmp.Compare(a.q, b.q), cmp.Compare(a.arg, b.arg), cmp.Compare(a.key, b.key), cmp.Compare(a.index, b.index), cmp.Compare(a.level, b.level),
		cmp.Compare(a.part, b.part), cmp.Compare(a.qPart, b.qPart), cmp.Compare(a.sel, b.sel))
}

type probeOcc struct {
	search *search
	call   int32
	at     int
}

// verify holds every candidate against every occurrence.
func (s *Rules) verify(searches []*search, runs []*corpus.Run) {
	e := newEvaluator(s.sites)
	for _, se := range searches {
		for _, c := range se.cands {
			e.need(c.source)
		}
	}
	for _, r := range runs {
		var todo []probeOcc
		for _, se := range searches {
			for i, o := range se.occs {
				if o.run == r {
					todo = append(todo, probeOcc{se, o.call, i})
				}
			}
		}
		sortOccs(todo)
		e.walk(r, func(i int32) {
			for len(todo) > 0 && todo[0].call == i {
				todo[0].search.try(e, todo[0].at)
				todo = todo[1:]
			}
		})
	}
}

func (se *search) try(e *evaluator, at int) {
	o := se.occs[at]
	want, ok := se.slot.value(e.c, o)
	if !ok {
		return
	}
	for _, c := range se.cands {
		if c.misses > 40 && c.hits < c.misses {
			continue // it will not recover
		}
		var got outcome
		if c.sel == each {
			if c.among(e, o, want) {
				got = hit // and where it is not, another source may have it
			}
		} else if v, known := c.value(e, o); known {
			got = miss
			if v == want {
				got = hit
			}
		}
		c.results[at] = got
		switch got {
		case hit:
			c.hits++
		case miss:
			c.misses++
		}
	}
}

// decide takes the best candidate, then the best for where that one is silent;
// it reports whether that explains the slot.
func (se *search) decide(s *Rules) bool {
	open := make([]bool, len(se.occs))
	for i := range open {
		open[i] = true
	}
	left, hits, misses := len(se.occs), 0, 0
	var rules []rule
	for len(rules) < 3 && left > 0 {
		if v, n := se.usual(s.c, open); n == left && len(rules) > 0 {
			rules, hits, left = append(rules, always{v}), hits+n, 0
			break
		}
		best, bestHits, bestMisses := se.best(open, 4)
		if best == nil && len(rules) == 0 {
			best, bestHits, bestMisses = se.best(open, 1) // worth a guess
		}
		if best == nil {
			break
		}
		rules = append(rules, best.source)
		hits, misses = hits+bestHits, misses+bestMisses
		for i, r := range best.results {
			if open[i] && r != silent {
				open[i] = false
				left--
			}
		}
	}
	total := len(se.occs)
	firsts := map[*corpus.Sender]bool{}
	for _, o := range se.occs {
		firsts[o.callOf().Sender] = true
	}
	if hits*2 < total {
		return false
	}
	se.slot.guess = rules
	if !se.slot.arg.rarely(misses, hits+misses) || hits*10 < total*9 && (left > len(firsts) || total < 3*len(firsts)) {
		return false
	}
	if se.slot.placed && !counter(se.slot.rules[0]) && !chained(rules[0], misses) {
		return true // it is known better by its place
	}
	se.slot.rules, se.slot.solved = rules, rules[0].class()
	return true
}

// chained: every call repeats what the reply to the one before said.
func chained(r rule, misses int) bool {
	src, ok := r.(source)
	return ok && src.part == corpus.Response && src.key == sameSender && src.sel == last && misses == 0
}

// best is the candidate that is right most often where the others are silent.
func (se *search) best(open []bool, penalty int) (best *candidate, bestHits, bestMisses int) {
	score := 0
	for _, c := range se.cands {
		hits, misses := 0, 0
		for i, r := range c.results {
			if open[i] {
				switch r {
				case hit:
					hits++
				case miss:
					misses++
				}
			}
		}
		worth := hits - penalty*misses
		if hits < 2 {
			continue
		}
		if worth > score || worth == score && best != nil && c.before(best) {
			best, bestHits, bestMisses, score = c, hits, misses, worth
		}
	}
	return best, bestHits, bestMisses
}

// before: of two sources that are as good, the plainer one is taken, then the nearer.
func (c *candidate) before(other *candidate) bool {
	return cmp.Or(cmp.Compare(c.cost(), other.cost()), cmp.Compare(c.distance, other.distance), cmp.Compare(other.part, c.part)) < 0
}

// seldomTwice: "any of them" explains a value only when a sender hardly ever
// uses one twice.
func (se *search) seldomTwice() bool {
	type used struct {
		by *corpus.Sender
		v  intern.Symbol
	}
	seen := map[used]bool{}
	for _, o := range se.occs {
		seen[used{o.callOf().Sender, o.raw()}] = true
	}
	return len(seen)*4 >= len(se.occs)
}

// usual is the most frequent value where nothing else speaks.
func (se *search) usual(c *corpus.Corpus, open []bool) (intern.Symbol, int) {
	counts := map[intern.Symbol]int{}
	var best intern.Symbol
	for i, o := range se.occs {
		if !open[i] {
			continue
		}
		if v, ok := se.slot.value(c, o); ok {
			counts[v]++
			if counts[v] > counts[best] || counts[v] == counts[best] && v < best {
				best = v
			}
		}
	}
	return best, counts[best]
}
