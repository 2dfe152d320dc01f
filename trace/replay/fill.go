package replay

import (
	"slices"
	"strconv"
	"strings"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// A filling computes the arguments of one call. Every worker has one and reuses it.
type filling struct {
	r      *controller
	p      *player
	l      *lane
	st     *site
	scene  value.Scene
	given  []given          // by argument
	listed map[place]given  // arguments in lists
	long   map[string]int   // lengths of lists that contain lists, or are in one
	room   int              // elements that all lists together may still have
	outer  int              // which of the lists with the same name is filled
	taken  []take           // values of unordered sources, used up if the call is made
	looked map[*[]*item]int // how far each unordered source was searched
	wants  []want           // missing values that may still come
	lost   *source          // a missing value that will not come
	spare  bool             // values that others have used may be taken
	soon   bool             // such a value is there, but spare is not set yet
	madeUp []string         // arguments without a source
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
	index *index
	key   string
}

type take struct {
	from *[]*item
	it   *item
}

func newFilling(r *controller) *filling {
	f := &filling{r: r, listed: map[place]given{}, long: map[string]int{}, looked: map[*[]*item]int{}}
	f.scene.Scale = r.plan.scale
	f.scene.Past, f.scene.Arg = f.past, f.argument
	return f
}

// fill gives the request's leaves, or false if a value is missing: wants has those that
// may still come, lost one that will not. The player is locked, and the memory too if
// values come from others.
func (f *filling) fill(l *lane, at int64) ([]trace.Leaf, bool) {
	p, st := l.player, l.site
	f.p, f.l, f.st = p, l, st
	f.given = slices.Grow(f.given[:0], len(st.args))[:len(st.args)]
	clear(f.given)
	clear(f.listed)
	clear(f.long)
	clear(f.looked)
	f.room = value.MaxElements
	f.taken, f.wants, f.madeUp, f.lost = f.taken[:0], f.wants[:0], f.madeUp[:0], nil
	f.soon, f.spare = false, l.since != 0 && at-l.since >= f.r.grace()
	f.scene.Node, f.scene.Nth, f.scene.At = p.rank, int(p.made[st.local]), at
	f.scene.Sender, f.scene.Address, f.scene.Chance = p.sender, f.r.from(p), p.chance()
	out := make([]trace.Leaf, 0, len(st.args))
	for i := range st.args {
		a := &st.args[i]
		if a.list >= 0 {
			if st.lists[a.list].args[0] == i {
				out = f.list(out, &st.lists[a.list])
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
	return out, true
}

// follow waits for the call that this one comes after, if that was not answered yet.
func (f *filling) follow() {
	if f.st.after == nil {
		return
	}
	key, ok := f.argument(f.st.Join.Same)
	if !ok {
		return // the call waits for that value already
	}
	key = plainNumber(key)
	if post := f.r.memory.found[f.st.after.at][key]; post == nil || post.last == nil {
		f.wants = append(f.wants, want{f.st.after, key})
	}
}

// list fills the elements of a list, or of each list of the same name if it is in a
// list itself.
func (f *filling) list(out []trace.Leaf, l *list) []trace.Leaf {
	for outer, path := range f.lists(l.prefix) {
		f.outer = outer
		for item := range f.length(l, path) {
			at := path + "[" + strconv.Itoa(item) + "]"
			for _, i := range l.args {
				out = f.leaf(out, i, item, at+f.st.args[i].Path[len(l.prefix)+len("[*]"):])
			}
		}
	}
	f.outer = 0
	return out
}

// lists are the paths of the lists that a prefix stands for: a[0].b and a[1].b
// for a[*].b.
func (f *filling) lists(prefix string) []string {
	at := strings.LastIndex(prefix, "[*]")
	if at < 0 {
		return []string{prefix}
	}
	holder := &list{prefix: prefix[:at]}
	if i := slices.IndexFunc(f.st.lists, func(l list) bool { return l.prefix == holder.prefix }); i >= 0 {
		holder = &f.st.lists[i]
	}
	var out []string
	for _, path := range f.lists(holder.prefix) {
		for item := range f.length(holder, path) {
			out = append(out, path+"["+strconv.Itoa(item)+"]"+prefix[at+len("[*]"):])
		}
	}
	return out
}

// length is the length of a list in this call. It is decided once.
func (f *filling) length(l *list, path string) int {
	n, ok := f.long[path]
	if !ok {
		n = min(f.elements(l), f.room)
		f.long[path], f.room = n, f.room-n
	}
	return n
}

func (f *filling) leaf(out []trace.Leaf, i, item int, path string) []trace.Leaf {
	a := &f.st.args[i]
	if a.fixed != nil {
		l := *a.fixed
		l.Path = path
		return append(out, l)
	}
	g := f.get(i, item)
	if !g.ok {
		return out
	}
	return append(out, leaf(a, path, g.text))
}

// elements is the length of a list: that of the list its values come from, or the
// number of values to be used, or what the program says; otherwise one.
func (f *filling) elements(l *list) int {
	if f.l.inbox != nil && len(l.args) > 0 {
		return len(f.l.inbox)
	}
	n := 1
	if i := slices.IndexFunc(f.st.Lists, func(told program.List) bool { return told.Path == l.prefix }); i >= 0 {
		n = value.Length(f.st.Lists[i], f.scene.Scale, f.scene.Chance)
	}
	for _, i := range l.args {
		for _, h := range f.st.args[i].Value.Holes() {
			for k := range h.Alts {
				s := f.r.plan.sources[&h.Alts[k]]
				switch {
				case s == nil:
				case s.Alt.Index == "item":
					return f.lengthOf(s)
				case s.Pick == "each" && s.By == "me":
					n = len(f.p.pools[s.pool])
				}
			}
		}
	}
	return n
}

func (f *filling) lengthOf(s *source) int {
	key, ok := f.key(s)
	if !ok {
		return 0
	}
	rec, ok := f.choose(s, f.posting(s, key))
	if !ok {
		return 0
	}
	return s.length(rec)
}

// get computes an argument, once.
func (f *filling) get(i, item int) given {
	a := &f.st.args[i]
	if a.fixed != nil {
		return given{text: a.fixed.Value, ok: true}
	}
	if g := f.known(i, item); g.asked {
		return g
	}
	g := given{asked: true}
	f.know(i, item, g)
	before := f.scene.Item
	f.scene.Item = item
	g.ok = true
	g.text = a.Value.Fill(func(h *program.Hole) string {
		text, ok := f.hole(a, h)
		g.ok = g.ok && ok
		return text
	})
	if a.quad {
		g.text = value.Address(g.text)
	}
	f.scene.Item = before
	f.know(i, item, g)
	return g
}

func (f *filling) known(i, item int) given {
	if f.st.args[i].list < 0 {
		return f.given[i]
	}
	return f.listed[place{i, f.outer, item}]
}

func (f *filling) know(i, item int, g given) {
	if f.st.args[i].list < 0 {
		f.given[i] = g
		return
	}
	f.listed[place{i, f.outer, item}] = g
}

// hole fills one hole. A value without a source is made up. A missing value is noted
// in wants if it may still come, and in lost if it will not.
func (f *filling) hole(a *arg, h *program.Hole) (string, bool) {
	wants := len(f.wants)
	for i := range h.Alts {
		text, ok := f.scene.Alt(&h.Alts[i])
		if !ok {
			continue
		}
		f.wants = f.wants[:wants] // do not wait for an earlier alternative
		if h.Width > 0 {
			text = value.Pad(plainNumber(text), h.Width)
		}
		return text, true
	}
	if len(f.wants) > wants {
		return "", false
	}
	for i := range h.Alts {
		if s := f.r.plan.sources[&h.Alts[i]]; s != nil && s.gone {
			f.lost = s
			return "", false
		}
	}
	f.madeUp = append(f.madeUp, a.Path)
	kind := "uuid"
	if a.Value.Bare {
		kind = "int"
	}
	return f.scene.MakeUp(kind), true
}

// argument is another argument of the call, by its path in the program.
func (f *filling) argument(path string) (string, bool) {
	i, ok := f.st.byPath[path]
	item := f.scene.Item
	if !ok {
		if i, item = f.inList(path); i < 0 {
			return "", false
		}
	}
	if f.st.args[i].list < 0 {
		item = 0
	}
	g := f.get(i, item)
	return g.text, g.ok
}

// inList finds the argument of a path with an index, and the index: ask[2].id is
// element 2 of ask[*].id.
func (f *filling) inList(path string) (int, int) {
	for level := 0; ; level++ {
		index := value.Index(path, level)
		if index < 0 {
			return -1, 0
		}
		if i, ok := f.st.byPath[strings.Replace(value.At(path, level, -1), "[-1]", "[*]", 1)]; ok {
			return i, index
		}
	}
}

// past is a value from an earlier call.
func (f *filling) past(a *program.Alt) (string, bool) {
	s := f.r.plan.sources[a]
	key, ok := f.key(s)
	if !ok {
		return "", false
	}
	if text, ok := f.delivered(s); ok {
		return text, true
	}
	post := f.posting(s, key)
	if s.Pick == "each" {
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
		text, ok = s.read(rec, &f.scene, key)
	}
	if !ok {
		f.want(s, key)
	}
	return text, ok
}

// delivered is a value of the call that this one is made for.
func (f *filling) delivered(s *source) (string, bool) {
	if s.Pick != "each" || f.scene.Item >= len(f.l.inbox) {
		return "", false
	}
	d := f.l.inbox[f.scene.Item]
	if !s.index.scope.holds(d.from) {
		return "", false
	}
	items := s.items(d.rec)
	if len(items) == 0 {
		return "", false
	}
	return items[0].text, true
}

// want notes a missing value that may still come. A call that is not sent waits only
// for values from replies: without them players would run ahead of the target.
func (f *filling) want(s *source, key string) {
	if s.comes && (f.st.sent || s.index.late) {
		f.wants = append(f.wants, want{s.index, key})
	}
}

func (f *filling) key(s *source) (string, bool) {
	switch s.By {
	case "address":
		return f.p.address, f.p.address != ""
	case "where":
		text, ok := f.argument(s.Is)
		return plainNumber(text), ok
	}
	return "", true
}

func (f *filling) posting(s *source, key string) *posting {
	if s.By == "me" {
		return &f.p.own[s.index.at]
	}
	return f.r.memory.found[s.index.at][key]
}

func (f *filling) choose(s *source, post *posting) (*record, bool) {
	if post == nil {
		return nil, false
	}
	at := f.scene.Node
	switch s.Pick {
	case "last":
		return post.last, post.last != nil
	case "first":
		return post.first, post.first != nil
	case "i":
		at = f.scene.Nth
	}
	if at >= len(post.all) {
		return nil, false
	}
	return post.all[at], true
}

func (f *filling) pool(s *source, post *posting) *[]*item {
	if s.By == "me" {
		return &f.p.pools[s.pool]
	}
	if post == nil {
		return nil
	}
	return &post.pools[s.pool]
}

// grace is how long a node waits for an unused value before it takes one that another
// has used.
func (r *controller) grace() int64 { return int64(r.Patience) / 10 }

// take finds a value in a pool that no node has used or, if spare is set, that this
// node has not used. Values that were used longest ago come first.
func (f *filling) take(pool *[]*item) (string, bool) {
	for f.looked[pool] < len(*pool) {
		it := (*pool)[f.looked[pool]]
		f.looked[pool]++
		if f.p.used[it] {
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
func (f *filling) commit() {
	for _, t := range f.taken {
		pool := *t.from
		at := slices.Index(pool, t.it)
		if at == 0 {
			pool = pool[1:]
		} else {
			pool = slices.Delete(pool, at, at+1)
		}
		if !f.p.owns(t.from) {
			pool = append(pool, t.it)
			if f.p.used == nil {
				f.p.used = map[*item]bool{}
			}
			f.p.used[t.it], t.it.used = true, true
		}
		*t.from = pool
	}
}
