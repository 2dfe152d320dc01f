package intern

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gleaner/trace"
)

// TestWordsAndSeparators: a text is its words between its separators, and is
// kept once.
func TestWordsAndSeparators(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSymbols()
		text := rapid.StringMatching(`[a-c0-2/_.\x00-]{0,12}`).Draw(t, "text")
		v := s.ID(text)
		if s.ID(strings.Clone(text)) != v || s.Text[v] != text {
			t.Fatalf("%q is kept twice", text)
		}
		rest := Separators(text)
		for _, w := range s.Words(v) {
			rest = strings.Replace(rest, Blank, s.Text[w], 1)
		}
		if rest != text {
			t.Fatalf("%q became %q", text, rest)
		}
	})
}

func TestCanonical(t *testing.T) {
	s := NewSymbols()
	for text, want := range map[string]string{"0001": "1", "1": "1", "000": "0", "0": "0", "": "", "01a": "01a", "-01": "-01"} {
		if got := s.Text[s.Canonical(s.ID(text))]; got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestPaths(t *testing.T) {
	p := NewPaths()
	a := p.ID("blocks[2].copies[10].host", trace.String)
	if b := p.At(a, 1, 3); p.Text[b] != "blocks[2].copies[3].host" || p.Class[b] != p.Class[a] || p.At(a, 1, 10) != a {
		t.Errorf("%q moved to %q", p.Text[a], p.Text[b])
	}
	if p.ID("x", trace.Int) == p.ID("x", trace.String) || p.ID("x", trace.Int) != p.ID("x", trace.Float) {
		t.Error("a text and a number at one path are two, two kinds of number are one")
	}
	if steps := p.Lists[p.ID(`a\[0].b[1]`, trace.Int)]; len(steps) != 1 || steps[0].Index != 1 {
		t.Errorf("a bracket that is part of a name is no list: %+v", steps)
	}
}

func TestShapes(t *testing.T) {
	s := NewShapes()
	shape := func(paths ...PathID) ShapeID {
		s.Begin()
		for _, p := range paths {
			s.Push(p)
		}
		return s.End()
	}
	if a := shape(1, 2, 3); a != shape(1, 2, 3) || a == shape(1, 2) || shape() != 0 || s.Find(a, 2) != 1 || s.Find(a, 9) != -1 {
		t.Error("a list of paths is kept once, and knows where each stands")
	}
}
