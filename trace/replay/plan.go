package replay

import (
	"net/netip"
	"slices"
	"strings"

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
	sources map[*program.Alt]*source
	indexes []*index // of calls of all nodes; a node's own calls are in its kind's indexes
}

// A kind is a type of node.
type kind struct {
	*program.NodeType
	at     int // in plan.kinds
	count  int
	sites  []*site
	steps  []step
	aside  []step
	beats  []beat
	reach  []*site  // sites that are called for calls of others
	roles  []string // the roles that it calls
	sent   bool     // one of them has a target
	own    []*index // of its nodes' own calls
	pools  int      // unordered sources in its nodes' own calls
	starts []*kind  // kinds whose start waits for one of its calls
}

// A step is a program.Step with its call resolved. Calls made for calls of others are
// left out.
type step struct {
	program.Step
	site  *site
	steps []step
}

type beat struct {
	site  *site
	every program.Formula
}

// A site is a place that makes a call.
type site struct {
	*program.Call
	id     int // in plan.sites
	local  int // in its kind's sites
	kind   *kind
	role   int  // in its kind's roles
	sent   bool // its role has a target
	push   bool // it is no call: the node waits for a push of the target
	inMain bool // it is in the steps
	place  int  // where it is first in the steps
	nature nature
	args   []arg
	byPath map[string]int
	lists  []list
	global bool // some argument comes from calls of others
	enters []*index
	tells  [2]bool               // by part: others take arguments from its calls
	keep   [2]map[string]*wanted // by part: the leaves to keep, by class
	starts []*kind               // kinds whose start waits for this call
	feeds  []*site               // sites that are called for this call
	gate   *gate                 // it waits at
	after  *index                // of the calls that it waits for, one with the same argument
	opens  []*gate               // that wait for it
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
	quad  bool        // it has the form of an IPv4 address
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

const (
	inRequest = 0
	inReply   = 1
)

// A source is where an alternative finds its value: calls that were entered
// into an index.
type source struct {
	*program.Alt
	index *index
	class string
	part  int
	pool  int  // of an unordered source: which of the index's, or the node's
	comes bool // a value that is missing may still come
	gone  bool // a value that is missing will not come: its call is earlier in the same steps
}

// An index finds earlier calls by a key: their sender, its address, a value
// they hold, or nothing.
type index struct {
	by      string // me, anyone, address, where
	scope   scope
	late    bool // calls are entered with their reply, not with their request
	bare    bool // that there was a reply matters, and not what it had
	keyPart int
	keyWhat string      // class of the key's path
	reads   [2][]string // by part: classes of the leaves that sources take
	all     bool        // some source asks for more than the first and the last
	at      int         // in plan.indexes, or kind.own
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
	pl := &plan{scale: s.Scale, byName: map[string]*site{}, sources: map[*program.Alt]*source{}}
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
		st.arguments()
		if st.Join != nil && st.Join.Same == "" {
			after := pl.byName[st.Join.After]
			st.gate = newGate(after, st.Join.Share)
			after.opens = append(after.opens, st.gate)
		}
	}
	for _, st := range pl.sites {
		pl.findSources(st)
		if st.Join != nil && st.Join.Same != "" {
			pl.follow(st, pl.byName[st.Join.After])
		}
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
			s := step{Step: steps[i], site: pl.byName[steps[i].Call], steps: convert(steps[i].Steps, main)}
			s.Steps = nil
			for k := range s.steps {
				s.Steps = append(s.Steps, s.steps[k].Step)
			}
			if s.site != nil && main && !s.site.inMain {
				s.site.inMain, s.site.nature, s.site.place = true, inSteps, places
				places++
			}
			if s.site == nil || main || len(s.site.Reach) == 0 {
				out = append(out, s)
				continue
			}
			if s.site.nature = byReach; slices.Contains(k.reach, s.site) {
				continue
			}
			k.reach = append(k.reach, s.site)
			for _, r := range s.site.Reach {
				from := pl.byName[r.From]
				from.feeds = append(from.feeds, s.site)
			}
		}
		return out
	}
	k.steps, k.aside = convert(k.Steps, true), convert(k.Aside, false)
	for i := range k.Beats {
		st := pl.byName[k.Beats[i].Call]
		st.nature = inBeats
		k.beats = append(k.beats, beat{st, k.Beats[i].Every.Formula})
	}
}

// arguments finds the lists among a site's arguments, and the arguments without holes.
func (st *site) arguments() {
	st.byPath = map[string]int{}
	for i := range st.Args {
		a := arg{Arg: st.Args[i], list: -1}
		st.byPath[a.Path] = i
		if at := strings.LastIndex(a.Path, "[*]"); at >= 0 {
			a.list = slices.IndexFunc(st.lists, func(l list) bool { return l.prefix == a.Path[:at] })
			if a.list < 0 {
				a.list = len(st.lists)
				st.lists = append(st.lists, list{prefix: a.Path[:at]})
			}
			st.lists[a.list].args = append(st.lists[a.list].args, i)
		}
		if len(a.Value.Holes()) == 0 {
			l := leaf(&a, a.Path, a.Value.Fill(nil))
			a.fixed = &l
		}
		form, err := netip.ParseAddr(a.Value.Fill(func(*program.Hole) string { return "0" }))
		a.quad = err == nil && form.Is4()
		st.args = append(st.args, a)
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
	for i := range st.args {
		for _, h := range st.args[i].Value.Holes() {
			for k := range h.Alts {
				if a := &h.Alts[k]; a.Kind == program.Reply || a.Kind == program.Request {
					pl.addSource(st, a)
				}
			}
		}
	}
}

func (pl *plan) addSource(st *site, a *program.Alt) {
	s := &source{Alt: a, class: value.Class(a.Path), part: inRequest}
	if a.Kind == program.Reply {
		s.part = inReply
	}
	s.index = pl.indexFor(st, s)
	s.index.reads[s.part] = append(s.index.reads[s.part], s.class)
	if a.Pick == "each" {
		s.pool = len(s.index.each)
		s.index.each = append(s.index.each, s)
		if a.By == "me" {
			s.pool = st.kind.pools
			st.kind.pools++
		}
	} else if a.Pick == "i" || a.Pick == "node" {
		s.index.all = true
	}
	st.global = st.global || a.By != "me"
	for _, from := range pl.sites {
		if !s.index.scope.holds(from) {
			continue
		}
		from.want(s.part, s.class, a)
		if s.index.by == "where" {
			from.want(s.index.keyPart, s.index.keyWhat, nil)
		}
		if !slices.Contains(from.enters, s.index) {
			from.enters = append(from.enters, s.index)
			from.tells[lateness(s.index.late)] = from.tells[lateness(s.index.late)] || a.By != "me"
		}
		// In a node's own steps a call is either over or comes too late to wait for;
		// any other call may still come.
		inOrder := from.inMain && st.inMain && a.By == "me"
		if from != st && from.kind.count > 0 && (from.sent || !s.index.late) {
			s.comes, s.gone = s.comes || !inOrder, s.gone || inOrder && from.place < st.place
		}
	}
	pl.sources[a] = s
}

// follow lets a call wait for the answer to another call with the same argument.
func (pl *plan) follow(st, from *site) {
	if from.kind.count == 0 || !from.sent {
		return // it never comes
	}
	st.after = pl.shared(&index{by: "where", scope: scope{site: from}, late: true, bare: true, keyPart: inRequest, keyWhat: value.Class(st.Join.Same)})
	st.global = true
	from.want(inRequest, st.after.keyWhat, nil)
	from.enter(st.after)
}

// enter has the calls of a site entered into an index that others use.
func (st *site) enter(ix *index) {
	if !slices.Contains(st.enters, ix) {
		st.enters = append(st.enters, ix)
	}
	st.tells[lateness(ix.late)] = true
}

// shared gives the index of the calls of all nodes that is like ix.
func (pl *plan) shared(ix *index) *index { return find(&pl.indexes, ix) }

func (pl *plan) indexFor(st *site, s *source) *index {
	ix := &index{by: s.By, late: s.part == inReply}
	switch {
	case !s.Any:
		ix.scope.site = pl.byName[s.From]
	default:
		ix.scope.method = s.From
	}
	if s.By == "where" {
		ix.keyWhat = s.Where
		if s.WhereIn == "reply" {
			ix.keyPart, ix.late = inReply, true
		}
	}
	of := &pl.indexes
	if s.By == "me" {
		ix.scope.kind = st.kind
		of = &st.kind.own
	}
	return find(of, ix)
}

// find gives the index like ix, which it adds if there is none.
func find(of *[]*index, ix *index) *index {
	for _, have := range *of {
		if have.by == ix.by && have.scope == ix.scope && have.late == ix.late && have.bare == ix.bare && have.keyPart == ix.keyPart && have.keyWhat == ix.keyWhat {
			return have
		}
	}
	ix.at = len(*of)
	*of = append(*of, ix)
	return ix
}

func lateness(late bool) int {
	if late {
		return inReply
	}
	return inRequest
}

// want notes that arguments come from leaves of a class; a is nil for a key.
func (st *site) want(part int, class string, a *program.Alt) {
	if st.keep[part] == nil {
		st.keep[part] = map[string]*wanted{}
	}
	w := st.keep[part][class]
	if w == nil {
		w = &wanted{}
		st.keep[part][class] = w
	}
	if a == nil || a.Pick == "each" || a.Index != "" {
		w.all = true
	} else if !slices.Contains(w.exact, a.Path) {
		w.exact = append(w.exact, a.Path)
	}
}

// kept are the leaves of a message that arguments come from.
func (st *site) kept(part int, leaves []trace.Leaf) []trace.Leaf {
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
