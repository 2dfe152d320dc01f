package replay

import (
	"slices"
	"strconv"
	"strings"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
	"gleaner/trace/value"
)

// A filling computes the arguments of one call. Every worker has one and reuses it.
type filling struct {
	r      *controller
	p      *player
	l      *lane
	st     *plan.Site
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

func newFilling(r *controller) *filling {
	f := &filling{r: r, listed: map[place]given{}, long: map[string]int{}, looked: map[*[]*item]int{}}
	f.scene.Scale = r.plan.Scale
	f.scene.Past, f.scene.Arg = f.past, f.argument
	return f
}

// fill gives the request's leaves, or false if a value is missing: wants has those that
// may still come, lost one that will not. The player is locked, and the memory too if
// values come from others.
func (f *filling) fill(l *lane, at int64) ([]trace.Leaf, bool) {
	p, st := l.player, l.site
	f.p, f.l, f.st = p, l, st
	f.given = slices.Grow(f.given[:0], len(st.Request.Args))[:len(st.Request.Args)]
	clear(f.given)
	clear(f.listed)
	clear(f.long)
	clear(f.looked)
	f.room = value.MaxElements
	f.taken, f.wants, f.madeUp, f.lost = f.taken[:0], f.wants[:0], f.madeUp[:0], nil
	f.soon, f.spare = false, l.since != 0 && at-l.since >= f.r.grace()
	f.scene.Node, f.scene.Nth, f.scene.At = p.rank, int(p.made[st.Local]), at
	f.scene.Sender, f.scene.Address, f.scene.Chance = p.sender, f.r.from(p), p.chance()
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
	if len(f.wants) > 0 || f.lost != nil {
		return nil, false
	}
	f.commit()
	return out, true
}

// list fills the elements of a list, or of each list of the same name if it is in a
// list itself.
func (f *filling) list(out []trace.Leaf, l *plan.List) []trace.Leaf {
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
func (f *filling) lists(prefix string) []string {
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
func (f *filling) length(l *plan.List, path string) int {
	n, ok := f.long[path]
	if !ok {
		n = min(f.elements(l), f.room)
		f.long[path], f.room = n, f.room-n
	}
	return n
}

func (f *filling) leaf(out []trace.Leaf, i, item int, path string) []trace.Leaf {
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
func (f *filling) elements(l *plan.List) int {
	if f.l.inbox != nil && len(l.Args) > 0 {
		return len(f.l.inbox)
	}
	n := 1
	if i := slices.IndexFunc(f.st.Lists, func(told program.List) bool { return told.Path == l.Prefix }); i >= 0 {
		n = value.Length(f.st.Lists[i], f.scene.Scale, f.scene.Chance)
	}
	for _, i := range l.Args {
		for a := range f.st.Request.Args[i].Value.Alts() {
			s := f.r.plan.Source(a)
			switch {
			case s == nil:
			case s.Index.By == program.IndexItem:
				return f.lengthOf(s)
			case s.Pick == program.PickEach && s.By == program.ByMe:
				n = len(f.p.pools[s.Pool])
			}
		}
	}
	return n
}

func (f *filling) lengthOf(s *plan.Source) int {
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
func (f *filling) get(i, item int) given {
	a := &f.st.Request.Args[i]
	if a.Fixed != nil {
		return given{text: a.Fixed.Value, ok: true}
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
	f.scene.Item = before
	f.know(i, item, g)
	return g
}

func (f *filling) known(i, item int) given {
	if f.st.Request.Args[i].List < 0 {
		return f.given[i]
	}
	return f.listed[place{i, f.outer, item}]
}

func (f *filling) know(i, item int, g given) {
	if f.st.Request.Args[i].List < 0 {
		f.given[i] = g
		return
	}
	f.listed[place{i, f.outer, item}] = g
}

// hole fills one hole. A value without a source is made up. A missing value is noted
// in wants if it may still come, and in lost if it will not.
func (f *filling) hole(a *plan.Arg, h *program.Hole) (string, bool) {
	wants := len(f.wants)
	for _, alt := range h.Alts {
		text, ok := f.scene.Alt(alt)
		if !ok {
			continue
		}
		f.wants = f.wants[:wants] // do not wait for an earlier alternative
		if h.Width > 0 {
			text = value.Pad(program.Plain(text), h.Width)
		}
		return text, true
	}
	if len(f.wants) > wants {
		return "", false
	}
	for _, alt := range h.Alts {
		if s := f.r.plan.Source(alt); s != nil && s.Gone {
			f.lost = s
			return "", false
		}
	}
	f.madeUp = append(f.madeUp, a.Path)
	by := program.MakeUUID
	if a.Value.Bare {
		by = program.MakeInt
	}
	return f.scene.MakeUp(by), true
}

// argument is another argument of the call, by its path in the program.
func (f *filling) argument(path string) (string, bool) {
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
func (f *filling) inList(path string) (int, int) {
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
func (f *filling) past(a *program.Past) (string, bool) {
	s := f.r.plan.Source(a)
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
func (f *filling) delivered(s *plan.Source) (string, bool) {
	if s.Pick != program.PickEach || f.scene.Item >= len(f.l.inbox) {
		return "", false
	}
	d := f.l.inbox[f.scene.Item]
	if !s.In.Scope.Holds(d.from) {
		return "", false
	}
	items := d.rec.items(s)
	if len(items) == 0 {
		return "", false
	}
	return items[0].text, true
}

// want notes a missing value that may still come. A call that is not sent waits only
// for values from replies: without them players would run ahead of the target.
func (f *filling) want(s *plan.Source, key string) {
	if s.Comes && (f.st.Sent || s.In.Late) {
		f.wants = append(f.wants, want{s.In, key})
	}
}

func (f *filling) key(s *plan.Source) (string, bool) {
	switch s.By {
	case program.ByAddress:
		return f.p.address, f.p.address != ""
	case program.ByWhere:
		text, ok := f.argument(s.Where.Is)
		return program.Plain(text), ok
	}
	return "", true
}

func (f *filling) posting(s *plan.Source, key string) *posting {
	if s.By == program.ByMe {
		return &f.p.own[s.In.At]
	}
	return f.r.memory.found[s.In.At][key]
}

func (f *filling) choose(s *plan.Source, post *posting) (*record, bool) {
	if post == nil {
		return nil, false
	}
	return post.Choose(s.Pick, f.scene.Place)
}

func (f *filling) pool(s *plan.Source, post *posting) *[]*item {
	if s.By == program.ByMe {
		return &f.p.pools[s.Pool]
	}
	if post == nil {
		return nil
	}
	return &post.pools[s.Pool]
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
