package replay

import (
	"slices"
	"strings"
	"time"

	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// A plan is a program prepared for one scale: names are resolved, and it is known which
// leaves of which calls arguments come from.
type plan struct {
	scale   int
	kinds   []*kind
	sites   []*site
	byName  map[string]*site
	sources map[*program.Past]*source
	indexes []*index // of calls of all nodes; a node's own calls are in its kind's indexes
}

// A kind is a type of node.
type kind struct {
	*program.NodeType
	at     int // in plan.kinds
	count  int
	sites  []*site
	lanes  lanes
	roles  []string // the roles that it calls
	sent   bool     // one of them has a target
	own    []*index // of its nodes' own calls
	pools  int      // unordered sources in its nodes' own calls
	starts []*kind  // kinds whose start waits for one of its calls
}

// lanes are the sequences of calls that a node makes beside each other.
type lanes struct {
	steps []step
	aside []step
	beats []beat
	reach []*site // called for calls of others
}

// A step is a program.Step with its call resolved. Calls made for calls of others are
// left out.
type step struct {
	program.Step
	site *site
	body []step // of a loop
}

type beat struct {
	site  *site
	every program.Formula
}

// period is the time between two beats of a node, in nanoseconds.
func (b *beat) period(scale, node int) int64 { return max(value.Millis(b.every, scale, node), 1e6) }

// A site is a place that makes a call.
type site struct {
	*program.Call
	id      int // in plan.sites
	local   int // in its kind's sites
	kind    *kind
	role    int  // in its kind's roles
	sent    bool // its role has a target
	push    bool // it is no call: the node waits for a push of the target
	inMain  bool // it is in the steps
	place   int  // where it is first in the steps
	nature  nature
	request request
	global  bool // some argument comes from calls of others
	enters  []*index
	tells   [2]bool               // by part: others take arguments from its calls
	keep    [2]map[string]*wanted // by part: the leaves to keep, by class
	starts  []*kind               // kinds whose start waits for this call
	feeds   []*site               // sites that are called for this call
	opens   []*site               // sites that wait for it: see program.Join
}

// A request is the arguments of a site.
type request struct {
	args   []arg
	byPath map[string]int
	lists  []list
}

// nature is why a call is made.
type nature uint8

const (
	inSteps nature = iota
	inAside
	inBeats
	byReach
)

func (n nature) String() string { return [...]string{"step", "aside", "beat", "reach"}[n] }

// An arg is one argument of a site.
type arg struct {
	program.Arg
	list  int         // the list that it is in; -1 for none
	fixed *trace.Leaf // set if it has no holes
}

// A list is one whose length varies: "blocks[0].blocks".
type list struct {
	prefix string
	args   []int
}

// wanted are the leaves of one class that arguments come from.
type wanted struct {
	all   bool
	exact []string
}

// A source is where an alternative finds its value: calls that were entered
// into an index.
type source struct {
	*program.Past
	in    *index
	class string
	pool  int  // of an unordered source: which of the index's, or the node's
	comes bool // a value that is missing may still come
	gone  bool // a value that is missing will not come: its call is earlier in the same steps
}

// An index finds earlier calls by a key: their sender, its address, a value
// they hold, or nothing.
type index struct {
	by      program.By
	scope   scope
	late    bool         // calls are entered with their reply, not with their request
	keyPart program.Part // if by is ByWhere
	keyWhat string       // class of the key's path
	all     bool         // some source asks for more than the first and the last
	at      int          // in plan.indexes, or kind.own
	each    []*source
}

type scope struct {
	kind   *kind // nil: of any
	site   *site // nil: any
	method string
}

func (s scope) holds(st *site) bool {
	return (s.kind == nil || s.kind == st.kind) && (s.site == nil || s.site == st) && (s.method == "" || s.method == st.Method)
}

// newPlan prepares a program. sent tells which roles have a target.
func newPlan(p *program.Program, s grow.Setting, sent func(role string) bool) *plan {
	pl := &plan{scale: s.Scale, byName: map[string]*site{}, sources: map[*program.Past]*source{}}
	byType := map[string]*kind{}
	for i := range p.Types {
		k := &kind{NodeType: &p.Types[i], at: i}
		k.count = s.Count(k.NodeType)
		byType[k.Name] = k
		pl.kinds = append(pl.kinds, k)
		for c := range k.Calls {
			pl.addSite(k, &k.Calls[c], sent)
		}
	}
	for _, k := range pl.kinds {
		k.layOut(pl)
		if k.Start != nil {
			after := pl.byName[k.Start.After]
			after.starts = append(after.starts, k)
			after.kind.starts = append(after.kind.starts, k)
		}
	}
	for _, st := range pl.sites {
		st.request.layOut(st.Args)
		if st.Join != nil {
			after := pl.byName[st.Join.After]
			after.opens = append(after.opens, st)
		}
	}
	for _, st := range pl.sites {
		pl.findSources(st)
	}
	return pl
}

func (pl *plan) addSite(k *kind, c *program.Call, sent func(string) bool) {
	st := &site{Call: c, id: len(pl.sites), local: len(k.sites), kind: k, role: slices.Index(k.roles, c.Target), sent: sent(c.Target), nature: inAside,
		push: strings.HasSuffix(c.Method, trace.Push)}
	if st.role < 0 {
		st.role = len(k.roles)
		k.roles = append(k.roles, c.Target)
	}
	k.sent = k.sent || st.sent
	pl.sites = append(pl.sites, st)
	pl.byName[c.Name] = st
	k.sites = append(k.sites, st)
}

// layOut sorts a type's calls into steps, calls aside, beats, and calls made for calls
// of others.
func (k *kind) layOut(pl *plan) {
	places := 0
	var convert func(steps []program.Step, main bool) []step
	convert = func(steps []program.Step, main bool) []step {
		out := make([]step, 0, len(steps))
		for i := range steps {
			s := step{Step: steps[i], site: pl.byName[steps[i].Call], body: convert(steps[i].Steps, main)}
			s.Steps = nil
			for k := range s.body {
				s.Steps = append(s.Steps, s.body[k].Step)
			}
			if s.site != nil && main && !s.site.inMain {
				s.site.inMain, s.site.nature, s.site.place = true, inSteps, places
				places++
			}
			if s.site == nil || main || len(s.site.Reach) == 0 {
				out = append(out, s)
				continue
			}
			if s.site.nature = byReach; slices.Contains(k.lanes.reach, s.site) {
				continue
			}
			k.lanes.reach = append(k.lanes.reach, s.site)
			for _, r := range s.site.Reach {
				from := pl.byName[r.From]
				from.feeds = append(from.feeds, s.site)
			}
		}
		return out
	}
	k.lanes.steps, k.lanes.aside = convert(k.Steps, true), convert(k.Aside, false)
	for i := range k.Beats {
		st := pl.byName[k.Beats[i].Call]
		st.nature = inBeats
		k.lanes.beats = append(k.lanes.beats, beat{st, k.Beats[i].Every.Formula})
	}
}

// layOut finds the lists among the arguments, and the arguments without holes.
func (r *request) layOut(args program.Args) {
	r.byPath = map[string]int{}
	for i := range args {
		a := arg{Arg: args[i], list: -1}
		r.byPath[a.Path] = i
		if at := strings.LastIndex(a.Path, "[*]"); at >= 0 {
			a.list = slices.IndexFunc(r.lists, func(l list) bool { return l.prefix == a.Path[:at] })
			if a.list < 0 {
				a.list = len(r.lists)
				r.lists = append(r.lists, list{prefix: a.Path[:at]})
			}
			r.lists[a.list].args = append(r.lists[a.list].args, i)
		}
		if len(a.Value.Holes()) == 0 {
			l := leaf(&a, a.Path, a.Value.Fill(nil))
			a.fixed = &l
		}
		r.args = append(r.args, a)
	}
}

func leaf(a *arg, path, text string) trace.Leaf {
	l := trace.Leaf{Path: path, Kind: trace.String, Value: text}
	if a.Value.Bare {
		l.Kind = value.Bare(text)
	}
	return l
}

func (pl *plan) findSources(st *site) {
	for i := range st.request.args {
		for a := range st.request.args[i].Value.Alts() {
			if past, ok := a.(*program.Past); ok {
				pl.addSource(st, past)
			}
		}
	}
}

// source is where an alternative finds its value; nil if it is not from an earlier call.
func (pl *plan) source(a program.Alt) *source {
	past, _ := a.(*program.Past)
	return pl.sources[past]
}

func (pl *plan) addSource(st *site, a *program.Past) {
	s := &source{Past: a, class: value.Class(a.Path)}
	s.in = pl.indexFor(st, s)
	if a.Pick == program.PickEach {
		s.pool = len(s.in.each)
		s.in.each = append(s.in.each, s)
		if a.By == program.ByMe {
			s.pool = st.kind.pools
			st.kind.pools++
		}
	} else if a.Pick == program.PickNth || a.Pick == program.PickNode {
		s.in.all = true
	}
	st.global = st.global || a.By != program.ByMe
	for _, from := range pl.sites {
		if !s.in.scope.holds(from) {
			continue
		}
		from.want(s.Part, s.class, a)
		if s.in.by == program.ByWhere {
			from.want(s.in.keyPart, s.in.keyWhat, nil)
		}
		if !slices.Contains(from.enters, s.in) {
			from.enters = append(from.enters, s.in)
			from.tells[lateness(s.in.late)] = from.tells[lateness(s.in.late)] || a.By != program.ByMe
		}
		// In a node's own steps a call is either over or comes too late to wait for;
		// any other call may still come.
		inOrder := from.inMain && st.inMain && a.By == program.ByMe
		if from != st && from.kind.count > 0 && (from.sent || !s.in.late) {
			s.comes, s.gone = s.comes || !inOrder, s.gone || inOrder && from.place < st.place
		}
	}
	pl.sources[a] = s
}

func (pl *plan) indexFor(st *site, s *source) *index {
	ix := &index{by: s.By, late: s.Part == program.Reply}
	ix.scope.site, ix.scope.method = pl.byName[s.Of.Call], s.Of.Method
	if s.By == program.ByWhere {
		ix.keyPart, ix.keyWhat = s.Where.In, s.Where.Path
		ix.late = ix.late || ix.keyPart == program.Reply
	}
	of := &pl.indexes
	if s.By == program.ByMe {
		ix.scope.kind = st.kind
		of = &st.kind.own
	}
	for _, have := range *of {
		if have.by == ix.by && have.scope == ix.scope && have.late == ix.late && have.keyPart == ix.keyPart && have.keyWhat == ix.keyWhat {
			return have
		}
	}
	ix.at = len(*of)
	*of = append(*of, ix)
	return ix
}

func lateness(late bool) program.Part {
	if late {
		return program.Reply
	}
	return program.Request
}

// want notes that arguments come from leaves of a class; a is nil for a key.
func (st *site) want(part program.Part, class string, a *program.Past) {
	if st.keep[part] == nil {
		st.keep[part] = map[string]*wanted{}
	}
	w := st.keep[part][class]
	if w == nil {
		w = &wanted{}
		st.keep[part][class] = w
	}
	if a == nil || a.Pick == program.PickEach || a.Index.By != program.IndexFixed {
		w.all = true
	} else if !slices.Contains(w.exact, a.Path) {
		w.exact = append(w.exact, a.Path)
	}
}

// kept are the leaves of a message that arguments come from.
func (st *site) kept(part program.Part, leaves []trace.Leaf) []trace.Leaf {
	if st.keep[part] == nil {
		return nil
	}
	var out []trace.Leaf
	for _, l := range leaves {
		if w := st.keep[part][value.Class(l.Path)]; w != nil && (w.all || slices.Contains(w.exact, l.Path)) {
			out = append(out, l)
		}
	}
	return out
}

// beatsOnly is how long a program without steps is played: three of its longest beats.
func (pl *plan) beatsOnly() time.Duration {
	longest := int64(0)
	for _, k := range pl.kinds {
		if k.count > 0 && len(k.lanes.steps)+len(k.lanes.aside) > 0 {
			return 0
		}
		for _, b := range k.lanes.beats {
			longest = max(longest, value.Millis(b.every, pl.scale, 0))
		}
	}
	return max(3*time.Duration(longest), time.Second)
}
