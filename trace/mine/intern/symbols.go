// Package intern keeps every text, every path and every list of paths of
// recorded messages once, and numbers them, so that millions of values fit into
// memory and compare as numbers.
package intern

import (
	"cmp"
	"strconv"
	"strings"

	"gleaner/trace/program"
)

// A Symbol is a text, kept once.
type Symbol uint32

// Empty is the empty text.
const Empty Symbol = 0

// Symbols keeps every text once, with what is often asked about it.
type Symbols struct {
	Text  []string // by symbol
	ids   map[string]Symbol
	parts [][]Symbol // the words of a text; nil until asked for
	plain []Symbol   // a number without leading zeros; 0 until asked for
}

// NewSymbols has only the empty text.
func NewSymbols() Symbols {
	return Symbols{ids: map[string]Symbol{"": Empty}, Text: []string{""}, parts: [][]Symbol{{}}, plain: []Symbol{Empty}}
}

// ID is the symbol of a text.
func (s *Symbols) ID(text string) Symbol {
	if id, ok := s.ids[text]; ok {
		return id
	}
	text = strings.Clone(text)
	id := Symbol(len(s.Text))
	s.ids[text] = id
	s.Text = append(s.Text, text)
	s.parts = append(s.parts, nil)
	s.plain = append(s.plain, 0)
	return id
}

// Canonical gives numbers that differ only in leading zeros one symbol.
func (s *Symbols) Canonical(v Symbol) Symbol {
	if s.plain[v] == 0 {
		s.plain[v] = s.ID(program.Plain(s.Text[v]))
	}
	return s.plain[v]
}

// Words are the letters-and-digits pieces of a text.
func (s *Symbols) Words(v Symbol) []Symbol {
	if s.parts[v] == nil {
		out := []Symbol{}
		program.EachWord(s.Text[v], func(start, end int) { out = append(out, s.ID(s.Text[v][start:end])) })
		s.parts[v] = out
	}
	return s.parts[v]
}

// Number is the whole number that a text spells.
func (s *Symbols) Number(v Symbol) (int64, bool) {
	n, err := strconv.ParseInt(s.Text[v], 10, 64)
	return n, err == nil
}

// AllDigits reports whether a text is digits and nothing else.
func AllDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// AllLetters reports whether a text has no digit.
func AllLetters(s string) bool {
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			return false
		}
	}
	return s != ""
}

// Blank stands for a word that was taken out. No separator contains it: bytes above
// 0x7f are parts of words.
const Blank = "\xff"

// Separators is a text with a blank for every word: the same for texts that differ
// in their words only.
func Separators(text string) string {
	var out strings.Builder
	last := 0
	program.EachWord(text, func(start, end int) {
		out.WriteString(text[last:start])
		out.WriteString(Blank)
		last = end
	})
	out.WriteString(text[last:])
	return out.String()
}

// Natural compares texts so that node-2 comes before node-10.
func Natural(a, b string) int {
	for a != "" && b != "" {
		na, nb := len(a)-len(strings.TrimLeft(a, "0123456789")), len(b)-len(strings.TrimLeft(b, "0123456789"))
		if na > 0 && nb > 0 {
			da, db := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if d := cmp.Or(cmp.Compare(len(da), len(db)), cmp.Compare(da, db)); d != 0 {
				return d
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}
