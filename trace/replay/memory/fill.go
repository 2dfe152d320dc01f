package memory

import (
	"slices"
	"strconv"
	"strings"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
	"gleaner/trace/value"
)

// A Filling computes the arguments of one call after another.
type Filling struct {
	plan   *plan.Plan
	shared *Shared
	grace  int64
	local  bool

	node   *Node
	st     *plan.Site
	inbox  []Delivery
	scene  value.Scene
	given  []given          // by argument
	listed map[place]given  // arguments in lists
	long   map[string]int   // lengths of lists that contain lists, or are in one
	room   int              // elements that all lists together may still have
	outer  int              // which of the lists with the same name is filled
	taken  []take           // values of unordered sources, used up if the call is made
	looked map[*[]*item]int // how far each unordered source was searched
	wants  []want           // missing values that may still come
	lost   *plan.Source     // a missing value that will not come
	spare  bool             // values that others have used may be taken
	soon   bool             // such a value is there, but spare is not set yet
	madeUp []string         // arguments without a source
	before []trace.Leaf     // in a reaction: what the node sent before in such a call
}

// A Delivery is a call that another one is made for.
type Delivery struct {
	From *plan.Site
	Rec  *Record
}

// A place is an argument in an element of a list.
type place struct {
	arg, outer, item int
}

type given struct {
	text  string
	ok    bool
	asked bool // computed, or being computed: an argument cannot be taken from itself
}

// A want is a key of an index under which no call is entered yet.
type want struct {
	index *plan.Index
	key   string
}

type take struct {
	from *[]*item
	it   *item
}

// NewFilling returns a filling. Grace is how long a node waits for an unused value before
// it takes one that another has used, in nanoseconds. If local is set, nodes share
// connections, and their calls come from the loopback address.
func NewFilling(pl *plan.Plan, shared *Shared, grace int64, local bool) *Filling {
	f := &Filling{plan: pl, shared: shared, grace: grace, local: local, listed: map[place]given{}, long: map[string]int{}, looked: map[*[]*item]int{}}
	f.scene.Scale = pl.Scale
	f.scene.Past, f.scene.Arg = f.past, f.argument
	return f
}

// Fill gives the leaves of a node's request at a time, or false if a value is missing. The
// call is made for those in the inbox, and has waited since a time; 0 if it has not. The
// node is locked, and the shared memory too if values come from others.
func (f *Filling) Fill(n *Node, st *plan.Site, inbox []Delivery, since, at int64) ([]trace.Leaf, bool) {
	return f.fill(n, st, int(n.Made[st.Local]), inbox, nil, since, at)
}

// Refill is Fill for a call of a reaction. Its calls count from the first, like those of a
// node that starts. What no rule explains is as it was before: a node that registers again
// is still the same.
func (f *Filling) Refill(n *Node, redo plan.Redo, before []trace.Leaf, since, at int64) ([]trace.Leaf, bool) {
	return f.fill(n, redo.Site, redo.Nth, nil, before, since, at)
}

func (f *Filling) fill(n *Node, st *plan.Site, nth int, inbox []Delivery, before []trace.Leaf, since, at int64) ([]trace.Leaf, bool) {
	f.node, f.st, f.inbox, f.before = n, st, inbox, before
	f.given = slices.Grow(f.given[:0], len(st.Request.Args))[:len(st.Request.Args)]
	clear(f.given)
	clear(f.listed)
	clear(f.long)
	clear(f.looked)
	f.room = value.MaxElements
	f.taken, f.wants, f.madeUp, f.lost = f.taken[:0], f.wants[:0], f.madeUp[:0], nil
	f.soon, f.spare = false, since != 0 && at-since >= f.grace
	f.scene.Node, f.scene.Nth, f.scene.At = n.Rank, nth, at
	f.scene.Sender, f.scene.Address, f.scene.Chance = n.Sender, n.Address, &n.Chance
	if f.local && n.Address != "" {
		f.scene.Address = "127.0.0.1"
	}
	out := make([]trace.Leaf, 0, len(st.Request.Args))
	for i := range st.Request.Args {
		a := &st.Request.Args[i]
		if a.List >= 0 {
			if st.Request.Lists[a.List].Args[0] == i {
				out = f.list(out, &st.Request.Lists[a.List])
			}
			continue
		}
		out = f.leaf(out, i, 0, a.Path)
	}
	f.follow()
	if len(f.wants) > 0 || f.lost != nil {
		return nil, false
	}
	f.commit()
	n.filled(st)
	return out, true
}

// follow waits for the calls that this one comes after, if they were not answered yet.
func (f *Filling) follow() {
	for _, after := range f.st.After {
		key, ok := f.argument(after.Same)
		if !ok {
			return // the call waits for that value already
		}
		key = program.Plain(key)
		if post := f.shared.found[after.In.At][key]; post == nil || !post.some() {
			f.wants = append(f.wants, want{after.In, key})
		}
	}
}

// Lost is the source of a value that is missing and will not come; nil if it may come.
func (f *Filling) Lost() *plan.Source { return f.lost }

// Scope is the calls that one of the missing values may still come from.
func (f *Filling) Scope() plan.Scope { return f.wants[0].index.Scope }

// Grace reports whether a value that another node has used will do after the grace.
func (f *Filling) Grace() bool { return f.soon && !f.spare }

// MadeUp are the arguments that have no source.
func (f *Filling) MadeUp() []string { return f.madeUp }

// Park notes who waits for the missing values. The locks are those of Fill.
func (f *Filling) Park(w Waiter) {
	f.node.parked = append(f.node.parked, w)
	for _, want := range f.wants {
		if want.index.By != program.ByMe {
			post := f.shared.at(want.index, want.key)
			post.waiting = append(post.waiting, w)
		}
	}
}

// list fills the elements of a list, or of each list of the same name if it is in a
// list itself.
func (f *Filling) list(out []trace.Leaf, l *plan.List) []trace.Leaf {
	for outer, path := range f.lists(l.Prefix) {
		f.outer = outer
		for item := range f.length(l, path) {
			at := path + "[" + strconv.Itoa(item) + "]"
			for _, i := range l.Args {
				out = f.leaf(out, i, item, at+f.st.Request.Args[i].Path[len(l.Prefix)+len("[*]"):])
			}
		}
	}
	f.outer = 0
	return out
}

// lists are the paths of the lists that a prefix stands for: a[0].b and a[1].b
// for a[*].b.
func (f *Filling) lists(prefix string) []string {
	at := strings.LastIndex(prefix, "[*]")
	if at < 0 {
		return []string{prefix}
	}
	holder := &plan.List{Prefix: prefix[:at]}
	if i := slices.IndexFunc(f.st.Request.Lists, func(l plan.List) bool { return l.Prefix == holder.Prefix }); i >= 0 {
		holder = &f.st.Request.Lists[i]
	}
	var out []string
	for _, path := range f.lists(holder.Prefix) {
		for item := range f.length(holder, path) {
			out = append(out, path+"["+strconv.Itoa(item)+"]"+prefix[at+len("[*]"):])
		}
	}
	return out
}

// length is the length of a list in this call. It is decided once.
func (f *Filling) length(l *plan.List, path string) int {
	n, ok := f.long[path]
	if !ok {
		n = min(f.elements(l), f.room)
		f.long[path], f.room = n, f.room-n
	}
	return n
}

func (f *Filling) leaf(out []trace.Leaf, i, item int, path string) []trace.Leaf {
	a := &f.st.Request.Args[i]
	if a.Fixed != nil {
		l := *a.Fixed
		l.Path = path
		return append(out, l)
	}
	g := f.get(i, item)
	if !g.ok {
		return out
	}
	return append(out, a.Leaf(path, g.text))
}

// elements is the length of a list: that of the list its values come from, or the
// number of values to be used, or what the program says; otherwise one.
func (f *Filling) elements(l *plan.List) int {
	if f.inbox != nil && len(l.Args) > 0 {
		return len(f.inbox)
	}
	n := 1
	if i := slices.IndexFunc(f.st.Lists, func(told program.List) bool { return told.Path == l.Prefix }); i >= 0 {
		n = value.Length(f.st.Lists[i], f.scene.Scale, f.scene.Chance)
	}
	for _, i := range l.Args {
		for a := range f.st.Request.Args[i].Value.Alts() {
			s := f.plan.Source(a)
			switch {
			case s == nil:
			case s.Index.By == program.IndexItem:
				return f.lengthOf(s)
			case s.Pick == program.PickEach && s.By == program.ByMe:
				n = len(f.node.pools[s.Pool])
			}
		}
	}
	return n
}

func (f *Filling) lengthOf(s *plan.Source) int {
	key, ok := f.key(s)
	if !ok {
		return 0
	}
	rec, ok := f.choose(s, f.posting(s, key))
	if !ok {
		return 0
	}
	return rec.length(s)
}

// get computes an argument, once.
func (f *Filling) get(i, item int) given {
	a := &f.st.Request.Args[i]
	if a.Fixed != nil {
		return given{text: a.Fixed.Value, ok: true}
	}
	if g := f.known(i, item); g.asked {
		return g
	}
	g := given{asked: true}
	f.know(i, item, g)
	before, madeUp := f.scene.Item, len(f.madeUp)
	f.scene.Item = item
	g.ok = true
	g.text = a.Value.Fill(func(h *program.Hole) string {
		text, ok := f.hole(a, h)
		g.ok = g.ok && ok
		return text
	})
	if a.Quad {
		g.text = value.Address(g.text)
	}
	if f.before != nil && (a.Value.Asks() || len(f.madeUp) > madeUp) {
		if text, ok := trace.Get(f.before, a.Path); ok {
			g.text, g.ok = text, true
		}
	}
	f.scene.Item = before
	f.know(i, item, g)
	return g
}

func (f *Filling) known(i, item int) given {
	if f.st.Request.Args[i].List < 0 {
		return f.given[i]
	}
	return f.listed[place{i, f.outer, item}]
}

func (f *Filling) know(i, item int, g given) {
	if f.st.Request.Args[i].List < 0 {
		f.given[i] = g
		return
	}
	f.listed[place{i, f.outer, item}] = g
}

// hole fills one hole. A value without a source is that of a recorded run, or made up. A
// missing value is noted in wants if it may still come, and in lost if it will not.
func (f *Filling) hole(a *plan.Arg, h *program.Hole) (string, bool) {
	wants := len(f.wants)
	by := program.Alt(program.Unknown{By: program.MakeUUID})
	if a.Value.Bare {
		by = program.Unknown{By: program.MakeInt}
	}
	for i, alt := range h.Alts {
		if f.stale(h.Alts[i:]) {
			continue
		}
		if like, ok := alt.(program.Like); ok {
			by = like
			continue
		}
		if text, ok := f.scene.Alt(alt); ok {
			f.wants = f.wants[:wants] // do not wait for an earlier alternative
			return padded(text, h.Width), true
		}
	}
	if len(f.wants) > wants {
		return "", false
	}
	for _, alt := range h.Alts {
		if s := f.plan.Source(alt); s != nil && s.Gone {
			f.lost = s
			return "", false
		}
	}
	f.madeUp = append(f.madeUp, a.Path)
	text, _ := f.scene.Alt(by)
	return padded(text, h.Width), true
}

// padded is a number filled up with zeros to the width of a hole.
func padded(text string, width int) string {
	if width == 0 {
		return text
	}
	return value.Pad(program.Plain(text), width)
}

// argument is another argument of the call, by its path in the program.
func (f *Filling) argument(path string) (string, bool) {
	i, ok := f.st.Request.ByPath[path]
	item := f.scene.Item
	if !ok {
		if i, item = f.inList(path); i < 0 {
			return "", false
		}
	}
	if f.st.Request.Args[i].List < 0 {
		item = 0
	}
	g := f.get(i, item)
	return g.text, g.ok
}

// inList finds the argument of a path with an index, and the index: ask[2].id is
// element 2 of ask[*].id.
func (f *Filling) inList(path string) (int, int) {
	for level := 0; ; level++ {
		index := value.Index(path, level)
		if index < 0 {
			return -1, 0
		}
		if i, ok := f.st.Request.ByPath[strings.Replace(value.At(path, level, -1), "[-1]", "[*]", 1)]; ok {
			return i, index
		}
	}
}

// past is a value from an earlier call.
func (f *Filling) past(a *program.Past) (string, bool) {
	s := f.plan.Source(a)
	key, ok := f.key(s)
	if !ok {
		return "", false
	}
	if text, ok := f.delivered(s); ok {
		return text, true
	}
	post := f.posting(s, key)
	if s.Pick == program.PickEach {
		ok = false
		var text string
		if pool := f.pool(s, post); pool != nil {
			text, ok = f.take(pool)
		}
		if !ok {
			f.want(s, key)
		}
		return text, ok
	}
	rec, ok := f.choose(s, post)
	var text string
	if ok {
		text, ok = rec.read(s, f.scene.Place, key)
	}
	if !ok {
		f.want(s, key)
	}
	return text, ok
}

// delivered is a value of the call that this one is made for.
func (f *Filling) delivered(s *plan.Source) (string, bool) {
	if s.Pick != program.PickEach || f.scene.Item >= len(f.inbox) {
		return "", false
	}
	d := f.inbox[f.scene.Item]
	if !s.In.Scope.Holds(d.From) {
		return "", false
	}
	items := d.Rec.items(s)
	if len(items) == 0 {
		return "", false
	}
	return items[0].text, true
}

// want notes a missing value that may still come. A call that is not sent waits only
// for values from replies: without them players would run ahead of the target.
func (f *Filling) want(s *plan.Source, key string) {
	if s.Comes && (f.st.Sent || s.In.Late) {
		f.wants = append(f.wants, want{s.In, key})
	}
}

func (f *Filling) key(s *plan.Source) (string, bool) {
	switch s.By {
	case program.ByAddress:
		return f.node.Address, f.node.Address != ""
	case program.ByWhere:
		text, ok := f.argument(s.Where.Is)
		return program.Plain(text), ok
	}
	return "", true
}

func (f *Filling) posting(s *plan.Source, key string) *posting {
	if s.By == program.ByMe {
		return &f.node.own[s.In.At]
	}
	return f.shared.found[s.In.At][key]
}

func (f *Filling) choose(s *plan.Source, post *posting) (*Record, bool) {
	if post == nil {
		return nil, false
	}
	return post.Choose(s.Pick, f.scene.Place)
}

func (f *Filling) pool(s *plan.Source, post *posting) *[]*item {
	if s.By == program.ByMe {
		return &f.node.pools[s.Pool]
	}
	if post == nil {
		return nil
	}
	return &post.pools[s.Pool]
}

// take finds a value in a pool that no node has used or, if spare is set, that this
// node has not used. Values that were used longest ago come first.
func (f *Filling) take(pool *[]*item) (string, bool) {
	for f.looked[pool] < len(*pool) {
		it := (*pool)[f.looked[pool]]
		f.looked[pool]++
		if f.node.used[it] {
			continue
		}
		if it.used && !f.spare {
			f.soon = true
			continue
		}
		f.taken = append(f.taken, take{pool, it})
		return it.text, true
	}
	return "", false
}

// commit marks the values that were taken as used. A value of the node's own calls is
// removed; one of others' calls goes to the end of the pool, for other nodes.
func (f *Filling) commit() {
	for _, t := range f.taken {
		pool := *t.from
		at := slices.Index(pool, t.it)
		if at == 0 {
			pool = pool[1:]
		} else {
			pool = slices.Delete(pool, at, at+1)
		}
		if !f.node.owns(t.from) {
			pool = append(pool, t.it)
			if f.node.used == nil {
				f.node.used = map[*item]bool{}
			}
			f.node.used[t.it], t.it.used = true, true
		}
		*t.from = pool
	}
}
