package mine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gleaner/trace/mine/intern"
	"gleaner/trace/program"
)

// write puts what was learned into a program.
func (m *Model) write() *program.Program {
	p := &program.Program{Version: 1}
	for _, r := range m.runs {
		if !slices.Contains(p.Scales, r.Scale) {
			p.Scales = append(p.Scales, r.Scale)
		}
	}
	slices.Sort(p.Scales)
	for k := range m.types {
		p.Types = append(p.Types, m.writeType(k))
	}
	return p
}

func (m *Model) writeType(k int) program.NodeType {
	t := program.NodeType{Name: m.types[k].name, Nodes: m.nodes[k].formula, Also: m.others(m.nodes[k])}
	t.Sender, t.Address = m.identity(k, func(s *sender) symbol { return s.name }), m.identity(k, func(s *sender) symbol { return s.address })
	if rule := m.timing.starts[k]; rule != nil {
		t.Start = &program.Start{After: rule.site.label, Of: m.types[rule.site.kind].name, Share: rule.share, Wait: program.Interval{Formula: rule.wait}}
	}
	for _, site := range m.sites.all {
		if site.kind == k {
			t.Calls = append(t.Calls, m.writeCall(site))
		}
	}
	st := m.shapes[k]
	loose := st.loose
	if st.certain() {
		t.Steps = m.writeSteps(st.steps)
	} else { // counts are better known than their order
		for _, site := range m.sites.all {
			if site.kind == k && site.nature != realtime && !slices.Contains(loose, site) {
				loose = append(loose, site)
			}
		}
	}
	for _, site := range st.beats {
		t.Beats = append(t.Beats, program.Step{Call: site.label, Every: program.Interval{Formula: program.MustFormula("%d", site.period/1e6)}})
	}
	t.Leaves = m.timing.leaves[k] && len(t.Steps) > 0
	slices.SortStableFunc(loose, func(a, b *site) int { return cmp.Compare(a.id, b.id) })
	for _, site := range loose {
		each := m.each(site)
		t.Aside = append(t.Aside, program.Step{Call: site.label, Repeat: &each})
	}
	return t
}

// others are the formulas that fit a count as well as the one taken, one for
// each answer they give at a larger scale.
func (m *Model) others(c count) []program.Formula {
	seen := map[int]bool{}
	var out []program.Formula
	for i, f := range c.forms {
		v := f.At(16 * m.largest())
		if i > 0 && !seen[v] {
			out = append(out, f)
		}
		seen[v] = true
	}
	return out
}

// each is how often one node calls a site.
func (m *Model) each(st *site) program.Formula {
	c := st.count
	if st.nature == until && st.groups.exact {
		c = st.groups
	}
	nodes := m.nodes[st.kind].formula
	if one := nodes.String(); one == "1" {
		return c.formula
	}
	return program.MustFormula("(%s)/max(1, %s)", c.formula, nodes)
}

func (m *Model) writeSteps(steps []*step) []program.Step {
	var out []program.Step
	for _, s := range steps {
		var w program.Step
		if s.site != nil {
			w.Call = s.site.label
		} else {
			repeat := s.repeat.formula
			w = program.Step{Repeat: &repeat, Also: m.others(s.repeat), Steps: m.writeSteps(s.body)}
		}
		if s.made < s.of {
			w.Share = float64(s.made*1000/s.of) / 1000
		}
		out = append(out, w)
	}
	return out
}

func (m *Model) writeCall(st *site) program.Call {
	op := m.c.opOf[st.op]
	w := program.Call{Name: st.label, Target: op.target, Method: op.method}
	if ms, ok := m.timing.gaps[gap{site: st.id}]; ok {
		w.Wait = program.Interval{Formula: ms}
	}
	if st.nature == until {
		w.Until = &program.Until{Path: m.c.paths.Text[st.until.path], Value: m.c.syms.Text[st.until.value], Tries: float64(int(st.tries*1000)) / 1000}
		if ms, ok := m.timing.gaps[gap{st.id, true}]; ok {
			w.Until.Every = program.Interval{Formula: ms}
		}
	}
	for _, reach := range st.reach {
		w.Reach = append(w.Reach, program.Reach{From: reach.from.label, Nodes: reach.nodes.formula})
	}
	w.Lists = m.writeLists(st, m.lists[st.id])
	for _, a := range st.args {
		w.Args = append(w.Args, program.Arg{Path: a.name, Value: m.template(a)})
	}
	return w
}

// template says what an argument is.
func (m *Model) template(a *arg) program.Template {
	bare := isNumber(a.kind)
	if a.constant || a.whole == nil {
		return program.Text(m.c.syms.Text[a.value], bare)
	}
	if a.whole.solved == unknown && len(a.words) > 0 && (a.whole.guess == nil || a.class() != unknown) && !m.oneWord(a) {
		return m.wordTemplate(a)
	}
	t := program.Template{Bare: bare}
	t.Append("", m.hole(a.whole))
	return t
}

// oneWord reports whether an argument's texts are made up in one piece.
func (m *Model) oneWord(a *arg) bool {
	for _, o := range a.occs {
		if !isUUID(m.c.syms.Text[o.raw()]) {
			return false
		}
	}
	return a.class() == unknown
}

// wordTemplate is a text with a hole for each word that varies.
func (m *Model) wordTemplate(a *arg) program.Template {
	var t program.Template
	text := a.pattern
	for _, s := range a.words {
		before, rest, _ := strings.Cut(text, "\x00")
		text = rest
		if v, ok := s.fixed(); ok {
			t.Append(before+s.prefix+m.pad(v, s.width), nil)
		} else {
			t.Append(before+s.prefix, m.hole(s))
		}
	}
	t.Append(text, nil)
	return t
}

func (m *Model) pad(v symbol, width int) string {
	text := m.c.syms.Text[v]
	return strings.Repeat("0", max(0, width-len(text))) + text
}

// fixed is the one value of a slot.
func (s *slot) fixed() (symbol, bool) {
	if len(s.rules) == 1 {
		if r, ok := s.rules[0].(always); ok {
			return r.v, true
		}
	}
	return 0, false
}

func (m *Model) hole(s *slot) *program.Hole {
	h := &program.Hole{Width: s.width}
	for _, r := range s.best() {
		h.Alts = append(h.Alts, m.alt(s.arg, r))
	}
	if len(h.Alts) == 0 {
		return m.slotGenerator(s)
	}
	return h
}

func (m *Model) alt(a *arg, r rule) program.Alt {
	out := program.Alt{Word: -1, Pick: "last", By: "me"}
	switch r := r.(type) {
	case always:
		out.Kind, out.Texts = program.Const, []string{m.c.syms.Text[r.v]}
	case firstThen:
		out.Kind, out.Texts = program.First, []string{m.c.syms.Text[r.first], m.c.syms.Text[r.then]}
	case shuffled:
		out.Kind, out.Texts = program.Const, []string{m.c.syms.Text[r.v]}
	case usual:
		out.Kind, out.Texts = program.Const, []string{m.c.syms.Text[r.v]}
	case table:
		out = m.tableAlt(a, r)
	case cycle:
		out.Kind, out.Formula = program.Number, r.formula()
	case sum:
		out.Kind, out.Is = program.Sum, fmt.Sprint(r.total)
		out.Texts = []string{sign(r.a), a.site.args[r.x].name, sign(r.b), a.site.args[r.y].name}
	case duration:
		out.Kind, out.Path = program.Span, a.site.args[r.arg].name
	case scaled:
		out.Kind, out.Formula = program.Number, r.f
	case affine:
		out.Kind, out.Formula = program.Number, r.formula()
	case now:
		out.Kind, out.Unit = program.Now, map[int64]string{0: "rfc3339", 1: "ns", 1e3: "us", 1e6: "ms", 1e9: "s", -1: "hexns"}[r.unit]
	case source:
		m.flowAlt(a, r, &out)
	default:
		panic(fmt.Sprintf("mine: no way to write the rule %T", r))
	}
	return out
}

// tableAlt writes a table as a case for each row.
func (m *Model) tableAlt(a *arg, t table) program.Alt {
	out := program.Alt{Kind: program.Case, Word: -1, Pick: "last", By: "me"}
	if t.by < 0 {
		out.Path = featureNames[-1-t.by]
	} else {
		out.Path = a.site.args[t.by].name
		out.Is = "arg"
	}
	keys := make([]symbol, 0, len(t.rows))
	for k := range t.rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b symbol) int { return natural(m.c.syms.Text[a], m.c.syms.Text[b]) })
	for _, k := range keys {
		out.Texts = append(out.Texts, m.c.syms.Text[k], m.c.syms.Text[t.rows[k]])
	}
	if t.open {
		out.Where, out.Any = m.c.syms.Text[t.rest], true
	}
	return out
}

func sign(v int64) string {
	if v < 0 {
		return "-"
	}
	return "+"
}

func (r cycle) formula() program.Formula {
	f := fmt.Sprintf("%s%%(%s)", featureNames[r.x], r.length)
	if r.b != 0 {
		f += fmt.Sprintf("%+d", r.b)
	}
	return program.MustFormula("%s", f)
}

func (r affine) formula() program.Formula {
	x := featureNames[r.x]
	if r.div > 1 {
		x = fmt.Sprintf("floor(%s/%d)", x, r.div)
	}
	switch {
	case r.a == -1:
		x = "-" + x
	case r.a != 1:
		x = fmt.Sprintf("%d*%s", r.a, x)
	}
	if r.b != 0 {
		x += fmt.Sprintf("%+d", r.b)
	}
	return program.MustFormula("%s", x)
}

func (m *Model) flowAlt(a *arg, r source, out *program.Alt) {
	out.Word = int(r.word)
	switch r.key {
	case ownName:
		out.Kind = program.Sender
		return
	case ownAddress:
		out.Kind = program.Address
		return
	case ownCall:
		out.Kind, out.Path = program.Own, m.c.paths.Text[r.path]
	default:
		out.Kind = program.Request
		if r.part == response {
			out.Kind = program.Reply
		}
		out.Path = m.c.paths.Text[r.path]
	}
	switch r.index {
	case byItem:
		out.Index = "item"
	case byRow:
		out.Index = "row"
	case byNode:
		out.Index = "node"
	case byNth:
		out.Index = "i"
	}
	out.Level = int(r.level)
	switch r.from.kind {
	case siteScope:
		if r.key != ownCall {
			out.From = m.sites.all[r.from.id].label
		}
	case opScope:
		out.Any, out.From = true, m.c.opOf[r.from.id].method
	default:
		out.Any = true
	}
	out.Pick = [...]string{last: "last", nthOne: "i", nodeOne: "node", firstOne: "first", each: "each"}[r.sel]
	switch r.key {
	case anyCall:
		out.By = "anyone"
	case sameAddress:
		out.By = "address"
	case sameArg:
		out.By, out.WhereIn, out.Where, out.Is = "where", "request", m.className(r.q), a.site.args[r.arg].name
		if r.qPart == response {
			out.WhereIn = "reply"
		}
	}
}

func (m *Model) className(q classID) string {
	for text, id := range m.c.paths.Classes {
		if id == q {
			return text
		}
	}
	return ""
}

// slotGenerator proposes a stand-in by what the values look like.
func (m *Model) slotGenerator(s *slot) *program.Hole {
	seen := map[string]int{}
	var values []string
	for _, o := range s.arg.occs {
		v := o.raw()
		if s.word >= 0 {
			v = m.c.syms.Words(v)[s.word]
		}
		text := m.c.syms.Text[v]
		if seen[text]++; seen[text] == 1 {
			values = append(values, text)
		}
	}
	alt := program.Alt{Kind: program.Unknown, Word: -1, Pick: "last", By: "me", Unit: looks(values)}
	if len(values) <= 12 && len(s.arg.occs) > 2*len(values) || alt.Unit == "" {
		slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a, b)) })
		alt.Kind, alt.Texts = program.Draw, values[:min(len(values), 20)]
	}
	return &program.Hole{Alts: []program.Alt{alt}}
}

// looks names what values look like: uuid, int, port, time, hex, bytes or word;
// nothing for numbers with a point and other measures, which are drawn from
// what was seen.
func looks(values []string) string {
	all := func(is func(string) bool) bool {
		return len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !is(v) })
	}
	switch {
	case all(isUUID):
		return "uuid"
	case all(func(s string) bool { return intern.AllDigits(s) && len(s) == 5 && s >= "10000" && s <= "65535" }):
		return "port"
	case all(func(s string) bool { return intern.AllDigits(s) && len(s) == 13 && s[0] == '1' }):
		return "time"
	case all(func(s string) bool { return intern.AllDigits(strings.TrimPrefix(s, "-")) && len(s) >= 8 }):
		return "int"
	case all(func(s string) bool { return len(s) >= 6 && strings.Trim(s, "0123456789abcdef") == "" }):
		return "hex"
	case all(func(s string) bool { return strings.HasPrefix(s, "base64:") }):
		return "bytes"
	case all(func(s string) bool {
		return intern.AllLetters(s) || len(s) == 5 && strings.Trim(s, "0123456789.") != ""
	}):
		return "word"
	}
	return ""
}

func isUUID(s string) bool {
	return len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-'
}

// identity is the pattern of the names or addresses of a type's nodes.
func (m *Model) identity(k int, of func(*sender) symbol) program.Template {
	var members []*sender
	for _, r := range m.runs {
		for _, s := range r.senders {
			if s.kind == k {
				members = append(members, s)
			}
		}
	}
	first := m.c.syms.Text[of(members[0])]
	if first == "" {
		return program.Template{}
	}
	pattern := intern.Separators(first)
	for _, s := range members {
		if intern.Separators(m.c.syms.Text[of(s)]) != pattern {
			var t program.Template
			t.Append(m.types[k].name+"-", &program.Hole{Alts: []program.Alt{m.alt(nil, affine{x: node, div: 1, a: 1})}})
			return t
		}
	}
	var t program.Template
	text := pattern
	for w := range m.c.syms.Words(of(members[0])) {
		before, rest, _ := strings.Cut(text, "\x00")
		text = rest
		hole, fixed := m.identityWord(members, of, w)
		t.Append(before+fixed, hole)
	}
	t.Append(text, nil)
	return t
}

// identityWord is one word of the names: fixed, counted by rank, or drawn.
func (m *Model) identityWord(members []*sender, of func(*sender) symbol, w int) (*program.Hole, string) {
	var values []string
	var offset int64
	counted := true
	for i, s := range members {
		word := m.c.syms.Words(of(s))[w]
		text := m.c.syms.Text[word]
		if !slices.Contains(values, text) && len(values) < 50 {
			values = append(values, text)
		}
		n, ok := m.c.syms.Number(word)
		if i == 0 {
			offset = n - int64(s.rank)
		}
		counted = counted && ok && n-int64(s.rank) == offset
	}
	switch {
	case len(values) == 1:
		return nil, values[0]
	case counted:
		return &program.Hole{Alts: []program.Alt{m.alt(nil, affine{x: node, div: 1, a: 1, b: offset})}, Width: padding(values)}, ""
	}
	return &program.Hole{Alts: []program.Alt{{Kind: program.Draw, Texts: values[:min(len(values), 20)], Word: -1, Pick: "last", By: "me"}}}, ""
}

// padding is the width that numbers are filled up to with zeros; 0 when they
// are not.
func padding(values []string) int {
	width := len(values[0])
	for _, v := range values {
		if len(v) != width {
			return 0
		}
	}
	if width > 1 && slices.ContainsFunc(values, func(v string) bool { return v[0] == '0' }) {
		return width
	}
	return 0
}
