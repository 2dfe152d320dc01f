package kind

import (
	"slices"
	"strings"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
	"gleaner/trace/program"
)

// maxNames is how many different words of names are kept to draw from. It bounds
// the size of a program; more names of a type with random ones would explain nothing.
const maxNames = 20

// Identity is the pattern of the names or addresses of a type's nodes.
func Identity(c *corpus.Corpus, runs []*corpus.Recording, k int, name string, of func(*corpus.Sender) intern.Symbol) program.Template {
	var members []*corpus.Sender
	for _, r := range runs {
		for _, s := range r.Senders {
			if s.Kind == k {
				members = append(members, s)
			}
		}
	}
	first := c.Syms.Text[of(members[0])]
	if first == "" {
		return program.Template{}
	}
	pattern := intern.Separators(first)
	for _, s := range members {
		if intern.Separators(c.Syms.Text[of(s)]) != pattern {
			var t program.Template
			t.Append(name+"-", ranked(0))
			return t
		}
	}
	var t program.Template
	text := pattern
	for w := range c.Syms.Words(of(members[0])) {
		before, rest, _ := strings.Cut(text, intern.Blank)
		text = rest
		hole, fixed := identityWord(c, members, of, w)
		t.Append(before+fixed, hole)
	}
	t.Append(text, nil)
	return t
}

// identityWord is one word of the names: fixed, counted by rank, or drawn.
func identityWord(c *corpus.Corpus, members []*corpus.Sender, of func(*corpus.Sender) intern.Symbol, w int) (*program.Hole, string) {
	var values []string
	var offset int64
	counted := true
	for i, s := range members {
		word := c.Syms.Words(of(s))[w]
		text := c.Syms.Text[word]
		if !slices.Contains(values, text) && len(values) < 50 { // padding looks at more than are kept
			values = append(values, text)
		}
		n, ok := c.Syms.Number(word)
		if i == 0 {
			offset = n - int64(s.Rank)
		}
		counted = counted && ok && n-int64(s.Rank) == offset
	}
	switch {
	case len(values) == 1:
		return nil, values[0]
	case counted:
		hole := ranked(offset)
		hole.Width = padding(values)
		return hole, ""
	}
	return &program.Hole{Alts: []program.Alt{program.Draw(values[:min(len(values), maxNames)])}}, ""
}

// padding is the width to which numbers are padded with zeros; 0 if they are not.
func padding(values []string) int {
	width := len(values[0])
	for _, v := range values {
		if len(v) != width {
			return 0
		}
	}
	if width > 1 && width <= program.MaxWidth && slices.ContainsFunc(values, func(v string) bool { return v[0] == '0' }) {
		return width
	}
	return 0
}

// ranked is a node's rank, counted from offset.
func ranked(offset int64) *program.Hole {
	f := program.MustFormula("node")
	if offset != 0 {
		f = program.MustFormula("node%+d", offset)
	}
	return &program.Hole{Alts: []program.Alt{program.Number{Formula: f}}}
}
