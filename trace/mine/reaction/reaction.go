// Package reaction finds what nodes do because a reply asked them to: calls that a node
// makes once, and again only after replies that have something in common, and calls that
// are made again after a refusal. They are taken out of the log, so that all other
// rooms learn what nodes do when nothing happens to their target.
package reaction

import (
	"cmp"
	"slices"
	"strings"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
)

// A Reaction is what nodes of a kind do after some replies to one type of call.
type Reaction struct {
	Kind  int
	To    corpus.OpID
	Mark  Mark
	Wait  int64 // before the first of the calls, or before the call is made again, in nanoseconds
	Calls []Redo
	Again bool // the call itself is made again
	Seen  int  // how often
}

// A Mark is what such replies have in common: the status of a refusal, or a value of a leaf,
// whose path has [*] for every index; without a value the leaf is missing.
type Mark struct{ Status, Path, Value string }

// A Redo is a call that is made again.
type Redo struct {
	Op   corpus.OpID
	Wait int64       // from the end of the call before
	Like corpus.Call // one of them
}

// fewest is how often a reaction must be seen. Once may be chance.
const fewest = 2

// near is how many calls after a reply may come before the reaction to it begins.
const near = 3

// longest is the length of a value above which it is a message for people: it may have
// names and times in it.
const longest = 64

// Find finds the reactions of all kinds, and takes the calls that they explain out of the runs.
func Find(c *corpus.Corpus, runs []*corpus.Recording, kinds int) (out []Reaction) {
	paths := map[intern.PathID]string{}
	for k := range kinds {
		f := &finder{c: c, runs: runs, kind: k, paths: paths}
		for f.gather(); ; f.gather() {
			r := f.renewed()
			if r == nil {
				r = f.again()
			}
			if r == nil {
				break
			}
			out = append(out, *r)
		}
	}
	return slices.DeleteFunc(out, func(r Reaction) bool { return r.Mark.Status == unanswered })
}

// unanswered is the status of a call that got no reply. That it is made again is no
// reaction to a reply: players do so by their policy.
const unanswered = "no reply"

// A finder finds the reactions of one kind.
type finder struct {
	c     *corpus.Corpus
	runs  []*corpus.Recording
	kind  int
	logs  []log
	usual map[corpus.OpID][]string // paths that most replies to a call have
	paths map[intern.PathID]string // with [*] for every index
}

// A log is the calls of one sender.
type log struct {
	run   *corpus.Recording
	calls []int32
}

func (l *log) at(i int) *corpus.Call { return &l.run.Calls[l.calls[i]] }

// gather collects the logs of the kind's senders.
func (f *finder) gather() {
	f.logs, f.usual = nil, nil
	for _, r := range f.runs {
		for _, s := range r.Senders {
			if s.Kind == f.kind && len(s.Calls) > 0 {
				f.logs = append(f.logs, log{r, s.Calls})
			}
		}
	}
}

// status is that of a refusal; empty for success.
func (f *finder) status(c *corpus.Call) string {
	if !c.Refused {
		return ""
	}
	if c.End == 0 {
		return unanswered
	}
	return f.c.Syms.Text[c.Status]
}

// same reports whether two calls ask for the same.
func same(a, b *corpus.Call) bool {
	return a.Op == b.Op && a.Request.Shape == b.Request.Shape && slices.Equal(a.Request.Values, b.Request.Values)
}

// A refusal is calls that were refused in one way.
type refusal struct {
	op     corpus.OpID
	status string
}

// again finds refusals for now after each of which the sender's next call of that type is the same
// call, which is at last not refused so, and takes the refused ones out.
func (f *finder) again() *Reaction {
	type found struct {
		times int
		tries []int64 // waits
		drop  map[*corpus.Recording]map[int32]bool
	}
	all, bad := map[refusal]*found{}, map[refusal]bool{}
	var keys []refusal
	for _, l := range f.logs {
		next := map[corpus.OpID]int{} // position of the next call of a type
		for i := len(l.calls) - 1; i >= 0; i-- {
			call := l.at(i)
			after, ok := next[call.Op]
			next[call.Op] = i
			status := f.status(call)
			if status != unanswered && !trace.NotNow(status) {
				continue
			}
			key := refusal{call.Op, status}
			if all[key] == nil {
				all[key] = &found{drop: map[*corpus.Recording]map[int32]bool{}}
				keys = append(keys, key)
			}
			if !ok || !same(call, l.at(after)) {
				bad[key] = true
				continue
			}
			one := all[key]
			if f.status(l.at(after)) != status {
				one.times++ // it ends here
			}
			one.tries = append(one.tries, l.at(after).Start-max(call.End, call.Start))
			if one.drop[l.run] == nil {
				one.drop[l.run] = map[int32]bool{}
			}
			one.drop[l.run][l.calls[i]] = true
		}
	}
	slices.SortFunc(keys, func(a, b refusal) int { return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.status, b.status)) })
	for _, key := range keys {
		one := all[key]
		if bad[key] || one.times < fewest || !f.spared(func(c *corpus.Call) bool { return c.Op == key.op }, func(c *corpus.Call) bool { return f.status(c) == key.status }) {
			continue
		}
		for _, r := range f.runs {
			r.Drop(one.drop[r])
		}
		return &Reaction{Kind: f.kind, To: key.op, Mark: Mark{Status: key.status}, Wait: median(one.tries), Again: true, Seen: len(one.tries)}
	}
	return nil
}

// spared reports whether there is a run in which nodes make some calls and none of them is
// hit. What happens in every run is part of the program.
func (f *finder) spared(some, hit func(*corpus.Call) bool) bool {
	made, struck := map[*corpus.Recording]bool{}, map[*corpus.Recording]bool{}
	for _, l := range f.logs {
		for i := range l.calls {
			if c := l.at(i); some(c) {
				made[l.run] = true
				struck[l.run] = struck[l.run] || hit(c)
			}
		}
	}
	for r := range made {
		if !struck[r] {
			return true
		}
	}
	return false
}

// renewed finds calls that nodes make once, and again only after marked replies.
func (f *finder) renewed() *Reaction {
	once := f.once()
	if len(once) == 0 {
		return nil
	}
	var best *renewal
	for _, m := range f.marks(once) {
		if r := f.explain(m, once); r != nil && (best == nil || r.better(best)) {
			best = r
		}
	}
	if best == nil {
		return nil
	}
	return f.take(best)
}

// once are the types of calls that some nodes make once, and others more often.
func (f *finder) once() map[corpus.OpID]bool {
	single, several := map[corpus.OpID]bool{}, map[corpus.OpID]bool{}
	for _, l := range f.logs {
		n := map[corpus.OpID]int{}
		for i := range l.calls {
			n[l.at(i).Op]++
		}
		for op, n := range n {
			single[op] = single[op] || n == 1
			several[op] = several[op] || n > 1
		}
	}
	out := map[corpus.OpID]bool{}
	for op := range single {
		if several[op] {
			out[op] = true
		}
	}
	return out
}

// A marked is replies to one type of call that have a mark.
type marked struct {
	op   corpus.OpID
	mark Mark
}

// marks are those of the replies before calls that were made before: of the last few, because
// others may come in between.
func (f *finder) marks(once map[corpus.OpID]bool) (out []marked) {
	seen := map[marked]bool{}
	for _, l := range f.logs {
		made := map[corpus.OpID]bool{}
		for i := range l.calls {
			call := l.at(i)
			if !once[call.Op] {
				continue
			}
			if made[call.Op] {
				for k := max(0, i-near); k < i; k++ {
					if before := l.at(k); before.Op != call.Op {
						for _, m := range f.marksOf(before) {
							seen[marked{before.Op, m}] = true
						}
					}
				}
			}
			made[call.Op] = true
		}
	}
	for m := range seen {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b marked) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.mark.Status, b.mark.Status), cmp.Compare(a.mark.Path, b.mark.Path), cmp.Compare(a.mark.Value, b.mark.Value))
	})
	return out
}

// marksOf are the marks that a reply has.
func (f *finder) marksOf(c *corpus.Call) (out []Mark) {
	if c.Refused {
		if c.End > 0 {
			out = append(out, Mark{Status: f.status(c)})
		}
		return out
	}
	for pos, p := range f.c.Shapes.Paths[c.Response.Shape] {
		text := f.c.Syms.Text[c.Response.Values[pos]]
		if kind := f.c.Paths.Kind[p]; (kind == trace.String || kind == trace.Bool) && text != "" && len(text) <= longest && !intern.AllDigits(text) {
			out = append(out, Mark{Path: f.path(p), Value: text})
		}
	}
	has := f.pathsOf(c)
	for _, path := range f.usually(c.Op) {
		if !has[path] {
			out = append(out, Mark{Path: path})
		}
	}
	return out
}

// path is a path with [*] for every index.
func (f *finder) path(p intern.PathID) string {
	if text, ok := f.paths[p]; ok {
		return text
	}
	text := f.c.Paths.Text[p]
	steps := f.c.Paths.Lists[p]
	for i := len(steps) - 1; i >= 0; i-- {
		text = text[:steps[i].Start] + "*" + text[steps[i].End:]
	}
	f.paths[p] = text
	return text
}

func (f *finder) pathsOf(c *corpus.Call) map[string]bool {
	out := map[string]bool{}
	for _, p := range f.c.Shapes.Paths[c.Response.Shape] {
		out[f.path(p)] = true
	}
	return out
}

// usually are the paths that more than half of the replies to a type of call have.
func (f *finder) usually(op corpus.OpID) []string {
	if out, ok := f.usual[op]; ok {
		return out
	}
	count, all := map[string]int{}, 0
	for _, l := range f.logs {
		for i := range l.calls {
			if c := l.at(i); c.Op == op && !c.Refused {
				all++
				for path := range f.pathsOf(c) {
					count[path]++
				}
			}
		}
	}
	var out []string
	for path, n := range count {
		if 2*n > all {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	if f.usual == nil {
		f.usual = map[corpus.OpID][]string{}
	}
	f.usual[op] = out
	return out
}

// has reports whether a reply has a mark.
func (f *finder) has(c *corpus.Call, m marked) bool {
	if c.Op != m.op || c.Refused != (m.mark.Status != "") {
		return false
	}
	if c.Refused {
		return c.End > 0 && f.status(c) == m.mark.Status
	}
	found := false
	for pos, p := range f.c.Shapes.Paths[c.Response.Shape] {
		if f.path(p) == m.mark.Path && (m.mark.Value == "" || f.c.Syms.Text[c.Response.Values[pos]] == m.mark.Value) {
			found = true
			break
		}
	}
	return found == (m.mark.Value != "")
}

// A renewal is a mark and the calls that it explains.
type renewal struct {
	marked
	once   map[corpus.OpID]bool // the types of calls that are made only after such replies
	groups []group
}

// A group is one time that a node reacted: from the marked reply that came last before its
// calls to the last of these.
type group struct {
	log         *log
	asked       int   // position of the reply
	first, last int   // of the calls
	marks       []int // all replies that asked for it
}

// better reports whether a renewal explains more, or the same by more telling a mark.
func (r *renewal) better(than *renewal) bool {
	rank := func(m Mark) int {
		switch {
		case m.Value != "":
			return 0
		case m.Status != "":
			return 1
		}
		return 2 // a leaf that is missing
	}
	return cmp.Or(cmp.Compare(len(r.groups)*len(r.once), len(than.groups)*len(than.once)), cmp.Compare(rank(than.mark), rank(r.mark))) > 0
}

// explain finds the calls that are made again after marked replies and never else; nil if
// there are none, or if nodes react in several ways.
func (f *finder) explain(m marked, once map[corpus.OpID]bool) *renewal {
	if !f.spared(func(c *corpus.Call) bool { return c.Op == m.op }, func(c *corpus.Call) bool { return f.has(c, m) }) {
		return nil
	}
	out := &renewal{marked: m, once: map[corpus.OpID]bool{}}
	for op := range once {
		if op != m.op && f.follows(m, op) {
			out.once[op] = true
		}
	}
	if len(out.once) == 0 {
		return nil
	}
	for i := range f.logs {
		out.groups = append(out.groups, f.groups(&f.logs[i], out)...)
	}
	if len(out.groups) < fewest {
		return nil
	}
	return out
}

// follows reports whether a type of call is made again after each group of marked replies,
// and never else. Where a log ends soon after a reply, one may be missing. A marked reply is
// news: the node had others before.
func (f *finder) follows(m marked, op corpus.OpID) bool {
	some := false
	for _, l := range f.logs {
		made, asked, other, last := false, false, false, 0
		for i := range l.calls {
			c := l.at(i)
			switch {
			case f.has(c, m):
				if !made || !other {
					return false
				}
				asked, last = true, i
			case c.Op == m.op:
				other = true
			case c.Op == op && made && !asked:
				return false
			case c.Op == op:
				some = some || asked
				made, asked = true, false
			}
		}
		if asked && len(l.calls)-1-last > near {
			return false
		}
	}
	return some
}

// groups are the times that one node reacted.
func (f *finder) groups(l *log, r *renewal) (out []group) {
	made := map[corpus.OpID]bool{}
	var marks []int
	for i := range l.calls {
		c := l.at(i)
		switch {
		case f.has(c, r.marked):
			if len(marks) == 0 || len(out) > 0 && out[len(out)-1].asked == marks[len(marks)-1] {
				marks = nil
			}
			marks = append(marks, i)
		case r.once[c.Op] && made[c.Op] && len(marks) > 0:
			asked := marks[len(marks)-1]
			if n := len(out); n > 0 && out[n-1].asked == asked {
				out[n-1].last = i
			} else {
				out = append(out, group{log: l, asked: asked, first: i, last: i, marks: marks})
			}
		}
		made[c.Op] = true
	}
	return out
}

// take makes a reaction of a renewal, and takes its calls out of the runs.
func (f *finder) take(r *renewal) *Reaction {
	out := &Reaction{Kind: f.kind, To: r.op, Mark: r.mark, Again: r.mark.Status != "", Seen: len(r.groups)}
	// All that is called from the first to the last of the calls belongs to the reaction, if
	// it is always the same; otherwise only those that are not made but for it.
	within := func(g group, all bool) (calls []int) {
		for i := g.first; i <= g.last; i++ {
			if all || r.once[g.log.at(i).Op] {
				calls = append(calls, i)
			}
		}
		return calls
	}
	ops := func(g group, all bool) (out []corpus.OpID) {
		for _, i := range within(g, all) {
			out = append(out, g.log.at(i).Op)
		}
		return out
	}
	alike := func(all bool) bool {
		return !slices.ContainsFunc(r.groups, func(g group) bool { return !slices.Equal(ops(g, all), ops(r.groups[0], all)) })
	}
	all := alike(true)
	if !all && !alike(false) {
		return nil
	}
	length := len(within(r.groups[0], all))
	waits := make([][]int64, length)
	drop := map[*corpus.Recording]map[int32]bool{}
	for _, g := range r.groups {
		if drop[g.log.run] == nil {
			drop[g.log.run] = map[int32]bool{}
		}
		before := g.log.at(g.asked)
		for k, i := range within(g, all) {
			c := g.log.at(i)
			waits[k] = append(waits[k], max(0, c.Start-max(before.End, before.Start)))
			before = c
			if r.once[c.Op] {
				drop[g.log.run][g.log.calls[i]] = true
			}
		}
		next := g.last + 1
		out.Again = out.Again && next < len(g.log.calls) && g.log.at(next).Op == r.op
	}
	for k, i := range within(r.groups[0], all) {
		c := r.groups[0].log.at(i)
		redo := Redo{Op: c.Op, Like: *c}
		if k == 0 {
			out.Wait = median(waits[k])
		} else {
			redo.Wait = median(waits[k])
		}
		out.Calls = append(out.Calls, redo)
	}
	if out.Again { // all tries are one call
		for _, g := range r.groups {
			for _, i := range g.marks {
				drop[g.log.run][g.log.calls[i]] = true
			}
		}
	}
	for _, run := range f.runs {
		run.Drop(drop[run])
	}
	return out
}

func median(all []int64) int64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// String is the mark as a story says it.
func (m Mark) String() string {
	switch {
	case m.Status != "":
		return "refused with " + m.Status
	case m.Value == "":
		return m.Path + " is missing"
	}
	return strings.TrimSpace(m.Path + " is " + m.Value)
}
