// Package intern keeps every text, every path and every list of paths of
// recorded messages once, and numbers them, so that millions of values fit into
// memory and compare as numbers.
package intern

import (
	"strconv"
	"strings"
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

// NewSymbols knows nothing but the empty text.
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

// Canonical gives numbers that differ only in leading zeros one symbol, so
// that 0001 in a path is the 1 of a reply.
func (s *Symbols) Canonical(v Symbol) Symbol {
	if s.plain[v] == 0 {
		text := s.Text[v]
		if len(text) > 1 && text[0] == '0' && AllDigits(text) {
			text = strings.TrimLeft(text, "0")
			if text == "" {
				text = "0"
			}
		}
		plain := v
		if len(text) != len(s.Text[v]) {
			plain = s.ID(text)
		}
		s.plain[v] = plain
	}
	return s.plain[v]
}

// Words are the letters-and-digits pieces of a text.
func (s *Symbols) Words(v Symbol) []Symbol {
	if s.parts[v] == nil {
		out := []Symbol{}
		EachWord(s.Text[v], func(start, end int) { out = append(out, s.ID(s.Text[v][start:end])) })
		s.parts[v] = out
	}
	return s.parts[v]
}

// Number is the whole number that a text spells.
func (s *Symbols) Number(v Symbol) (int64, bool) {
	n, err := strconv.ParseInt(s.Text[v], 10, 64)
	return n, err == nil
}

// EachWord visits the words of a text: pieces of letters and digits, a number
// with its minus.
func EachWord(text string, visit func(start, end int)) {
	start := -1
	for i := 0; i <= len(text); i++ {
		if i < len(text) && (isWord(text[i]) || start < 0 && isSign(text, i)) {
			if start < 0 {
				start = i
			}
		} else if start >= 0 {
			visit(start, i)
			start = -1
		}
	}
}

// isSign reports whether a number starts here with its minus: "_-17" but not "a-17".
func isSign(text string, i int) bool {
	return text[i] == '-' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9' && (i == 0 || !isWord(text[i-1]))
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
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

// Separators is a text with every word taken out: what is left when only the
// words may vary.
func Separators(text string) string {
	var out strings.Builder
	last := 0
	EachWord(text, func(start, end int) {
		out.WriteString(text[last:start])
		out.WriteByte('\x00')
		last = end
	})
	out.WriteString(text[last:])
	return out.String()
}
