package plan

import (
	"slices"

	"gleaner/trace"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// wanted are the leaves of one class that arguments come from.
type wanted struct {
	all   bool
	exact []string
}

// A Source is where an alternative finds its value: calls that were entered
// into an index.
type Source struct {
	*program.Past
	In    *Index
	Class string
	Pool  int  // of an unordered source: which of the index's, or the node's
	Comes bool // a value that is missing may still come
	Gone  bool // a value that is missing will not come: its call is earlier in the same steps
}

// An Index finds earlier calls by a key: their sender, its address, a value
// they hold, or nothing.
type Index struct {
	By      program.By
	Scope   Scope
	Late    bool         // calls are entered with their reply, not with their request
	Bare    bool         // that there was a reply matters, and not what it had
	KeyPart program.Part // if by is ByWhere
	KeyWhat string       // class of the key's path
	Reads   [2][]string  // by part: classes of the leaves that sources take
	All     bool         // some source asks for more than the first and the last
	At      int          // in Plan.Indexes, or Kind.Own
	Each    []*Source
}

// A Scope is the calls that are entered into an index.
type Scope struct {
	kind   *Kind // nil: of any
	Site   *Site // nil: any
	Method string
}

// Holds reports whether calls of a site are among them.
func (s Scope) Holds(st *Site) bool {
	return (s.kind == nil || s.kind == st.Kind) && (s.Site == nil || s.Site == st) && (s.Method == "" || s.Method == st.Method)
}

func (pl *Plan) findSources(st *Site) {
	for i := range st.Request.Args {
		for a := range st.Request.Args[i].Value.Alts() {
			if past, ok := a.(*program.Past); ok {
				pl.addSource(st, past)
			}
		}
	}
}

// Source is where an alternative finds its value; nil if it is not from an earlier call.
func (pl *Plan) Source(a program.Alt) *Source {
	past, _ := a.(*program.Past)
	return pl.sources[past]
}

func (pl *Plan) addSource(st *Site, a *program.Past) {
	s := &Source{Past: a, Class: value.Class(a.Path)}
	s.In = pl.indexFor(st, s)
	s.In.Reads[s.Part] = append(s.In.Reads[s.Part], s.Class)
	if a.Pick == program.PickEach {
		s.Pool = len(s.In.Each)
		s.In.Each = append(s.In.Each, s)
		if a.By == program.ByMe {
			s.Pool = st.Kind.Pools
			st.Kind.Pools++
		}
	} else if a.Pick == program.PickNth || a.Pick == program.PickNode {
		s.In.All = true
	}
	st.Global = st.Global || a.By != program.ByMe
	for _, from := range pl.Sites {
		if !s.In.Scope.Holds(from) {
			continue
		}
		from.want(s.Part, s.Class, a)
		if s.In.By == program.ByWhere {
			from.want(s.In.KeyPart, s.In.KeyWhat, nil)
		}
		if !slices.Contains(from.Enters, s.In) {
			from.Enters = append(from.Enters, s.In)
			from.Tells[lateness(s.In.Late)] = from.Tells[lateness(s.In.Late)] || a.By != program.ByMe
		}
		// In a node's own steps a call is either over or comes too late to wait for;
		// any other call may still come.
		inOrder := from.inMain && st.inMain && a.By == program.ByMe
		if from != st && from.Kind.Count > 0 && (from.Sent || !s.In.Late) {
			s.Comes, s.Gone = s.Comes || !inOrder, s.Gone || inOrder && from.place < st.place
		}
	}
	pl.sources[a] = s
}

func (pl *Plan) indexFor(st *Site, s *Source) *Index {
	ix := &Index{By: s.By, Late: s.Part == program.Reply}
	ix.Scope.Site, ix.Scope.Method = pl.byName[s.Of.Call], s.Of.Method
	if s.By == program.ByWhere {
		ix.KeyPart, ix.KeyWhat = s.Where.In, s.Where.Path
		ix.Late = ix.Late || ix.KeyPart == program.Reply
	}
	of := &pl.Indexes
	if s.By == program.ByMe {
		ix.Scope.kind = st.Kind
		of = &st.Kind.Own
	}
	return find(of, ix)
}

// follow lets a call wait for the answer to another call with the same argument.
func (pl *Plan) follow(st, from *Site, same string) {
	if from.Kind.Count == 0 || !from.Sent {
		return // it never comes
	}
	ix := find(&pl.Indexes, &Index{By: program.ByWhere, Scope: Scope{Site: from}, Late: true, Bare: true, KeyPart: program.Request, KeyWhat: value.Class(same)})
	st.After, st.Global = append(st.After, After{ix, same}), true
	from.want(program.Request, ix.KeyWhat, nil)
	if !slices.Contains(from.Enters, ix) {
		from.Enters = append(from.Enters, ix)
	}
	from.Tells[program.Reply] = true
}

// find gives the index like ix, which it adds if there is none.
func find(of *[]*Index, ix *Index) *Index {
	for _, have := range *of {
		if have.By == ix.By && have.Scope == ix.Scope && have.Late == ix.Late && have.Bare == ix.Bare && have.KeyPart == ix.KeyPart && have.KeyWhat == ix.KeyWhat {
			return have
		}
	}
	ix.At = len(*of)
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
func (st *Site) want(part program.Part, class string, a *program.Past) {
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

// Kept are the leaves of a message that arguments come from.
func (st *Site) Kept(part program.Part, leaves []trace.Leaf) []trace.Leaf {
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
