package argument

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// template is an argument as a program writes it.
func (m *Rules) template(a *arg) program.Template {
	bare := isNumber(a.Kind)
	if a.constant || a.whole == nil {
		return program.Text(m.c.Syms.Text[a.value], bare)
	}
	if a.whole.solved == unknown && len(a.words) > 0 && (a.whole.guess == nil || a.class() != unknown) && !m.oneWord(a) {
		return m.wordTemplate(a)
	}
	t := program.Template{Bare: bare}
	t.Append("", m.hole(a.whole))
	return t
}

// oneWord reports whether an argument's texts are UUIDs, which a generator makes
// whole.
func (m *Rules) oneWord(a *arg) bool {
	for _, o := range a.occs {
		if !isUUID(m.c.Syms.Text[o.Raw()]) {
			return false
		}
	}
	return a.class() == unknown
}

// wordTemplate is a text with a hole for each word that varies.
func (m *Rules) wordTemplate(a *arg) program.Template {
	var t program.Template
	text := a.pattern
	for _, s := range a.words {
		before, rest, _ := strings.Cut(text, intern.Blank)
		text = rest
		if v, ok := s.fixed(); ok {
			t.Append(before+s.prefix+value.Pad(m.c.Syms.Text[v], s.width), nil)
		} else {
			t.Append(before+s.prefix, m.hole(s))
		}
	}
	t.Append(text, nil)
	return t
}

// fixed is the one value of a slot.
func (s *slot) fixed() (intern.Symbol, bool) {
	if len(s.rules) == 1 {
		if r, ok := s.rules[0].(always); ok {
			return r.v, true
		}
	}
	return 0, false
}

func (m *Rules) hole(s *slot) *program.Hole {
	h := &program.Hole{Width: s.width}
	for _, r := range slices.Concat(s.best(), s.also) {
		h.Alts = append(h.Alts, r.alt(m, s.arg))
	}
	if len(h.Alts) == 0 {
		return m.slotGenerator(s)
	}
	if like, ok := s.example(m.c); ok && s.missing() {
		h.Alts = append(h.Alts, like)
	}
	return h
}

// missing reports whether a value may be missing in a replay: all that the sender has not
// sent itself before.
func (s *slot) missing() bool {
	missing := false
	for _, r := range s.best() {
		if _, ok := r.(always); ok {
			return false
		}
		src, ok := r.(taken)
		missing = missing || ok && !src.Own() && (s.unbegun || !src.Sent())
	}
	return missing
}

// example is a value to use where no source has one: that of the first run, if each run
// has one value. Of numbers that differ within a run it is the most frequent one, unless
// each node has its own or the target hands them out.
func (s *slot) example(c *corpus.Corpus) (program.Like, bool) {
	first, byRun, bySender := map[intern.Symbol]int{}, map[*corpus.Recording]map[intern.Symbol]bool{}, map[*corpus.Sender]map[intern.Symbol]bool{}
	senders := map[intern.Symbol]map[*corpus.Sender]bool{}
	var usual intern.Symbol
	for _, o := range s.arg.occs {
		v, ok := s.value(c, o)
		if !ok || len(c.Syms.Text[v]) > site.MaxText {
			return "", false
		}
		note(byRun, o.In, v)
		note(bySender, o.CallOf().Sender, v)
		note(senders, v, o.CallOf().Sender)
		if o.In != s.arg.occs[0].In {
			continue
		}
		if first[v]++; usual == intern.Empty || first[v] > first[usual] {
			usual = v
		}
	}
	steady, identity := true, true
	for _, values := range byRun {
		steady = steady && len(values) == 1
	}
	for _, values := range bySender {
		identity = identity && len(values) == 1
	}
	for _, by := range senders {
		identity = identity && len(by) == 1
	}
	measured := isNumber(s.arg.Kind) && !identity && !slices.ContainsFunc(s.best(), func(r rule) bool { src, ok := r.(taken); return ok && src.Reply() })
	return program.Like(c.Syms.Text[usual]), steady || measured
}

func note[K, V comparable](of map[K]map[V]bool, k K, v V) {
	if of[k] == nil {
		of[k] = map[V]bool{}
	}
	of[k][v] = true
}

func (r cycle) formula() program.Formula {
	f := fmt.Sprintf("%s%%(%s)", features[r.x], r.length)
	if r.b != 0 {
		f += fmt.Sprintf("%+d", r.b)
	}
	return program.MustFormula("%s", f)
}

func (r affine) formula() program.Formula {
	x := string(features[r.x])
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

// What an unknown value is drawn from. Neither number changes the recorded systems'
// figures: they decide only what a program offers for values that are unknown.
const (
	drawnFrom = 12 // different values at most, each seen more than twice on average, to be a set of choices
	drawnMax  = 20 // choices written to a program, the most frequent first
)

// slotGenerator chooses a generator by what the values look like.
func (m *Rules) slotGenerator(s *slot) *program.Hole {
	seen := map[string]int{}
	var values []string
	for _, o := range s.arg.occs {
		v := o.Raw()
		if s.word >= 0 {
			v = m.c.Syms.Words(v)[s.word]
		}
		text := m.c.Syms.Text[v]
		if seen[text]++; seen[text] == 1 {
			values = append(values, text)
		}
	}
	by, alike := looks(values)
	if len(values) <= drawnFrom && len(s.arg.occs) > 2*len(values) || !alike {
		slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a, b)) })
		return &program.Hole{Alts: []program.Alt{program.Draw(values[:min(len(values), drawnMax)])}}
	}
	return &program.Hole{Alts: []program.Alt{program.Unknown{By: by}}}
}

// looks is the generator whose values look like these: a port has five digits, a
// time in milliseconds 13 and begins with 1 (from 2001 to 2033), an identifier eight
// or more, hexadecimal text six or more. Not ok for other numbers, which are drawn
// from those seen.
func looks(values []string) (by program.Generator, ok bool) {
	all := func(is func(string) bool) bool {
		return len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !is(v) })
	}
	switch {
	case all(isUUID):
		return program.MakeUUID, true
	case all(func(s string) bool { return intern.AllDigits(s) && len(s) == 5 && s >= "10000" && s <= "65535" }):
		return program.MakePort, true
	case all(func(s string) bool { return intern.AllDigits(s) && len(s) == 13 && s[0] == '1' }):
		return program.MakeTime, true
	case all(func(s string) bool { return intern.AllDigits(strings.TrimPrefix(s, "-")) && len(s) >= 8 }):
		return program.MakeInt, true
	case all(func(s string) bool { return len(s) >= 6 && strings.Trim(s, "0123456789abcdef") == "" }):
		return program.MakeHex, true
	case all(func(s string) bool { return strings.HasPrefix(s, "base64:") }):
		return program.MakeBytes, true
	case all(func(s string) bool {
		return intern.AllLetters(s) || len(s) == 5 && strings.Trim(s, "0123456789.") != ""
	}):
		return program.MakeWord, true
	}
	return 0, false
}

func isUUID(s string) bool {
	return len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-'
}

// isNumber reports whether leaves of a kind are written without quotes.
func isNumber(k trace.Kind) bool { return k != trace.String }

// Write gives the arguments of a site as a program writes them.
func (m *Rules) Write(st *site.Site) []program.Arg {
	var out []program.Arg
	for _, a := range m.of[st.ID] {
		out = append(out, program.Arg{Path: a.Name, Value: m.template(a)})
	}
	return out
}
