package program

import (
	"fmt"
	"iter"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Template is the value of an argument: text with holes, "part-{i:05}". A text that
// begins with '=' is a number or a truth value and not a string:
// "={reply \"create#1\" fileId}".
type Template struct {
	Bare  bool // not a string
	parts []piece
}

// A piece is text, or a hole.
type piece struct {
	text string
	hole *Hole
}

// Text makes a template of a plain value.
func Text(s string, bare bool) Template {
	return Template{Bare: bare, parts: []piece{{text: s}}}
}

// Append adds text and, unless nil, a hole behind it.
func (t *Template) Append(text string, h *Hole) {
	if text != "" {
		t.parts = append(t.parts, piece{text: text})
	}
	if h != nil {
		t.parts = append(t.parts, piece{hole: h})
	}
}

// Pieces gives the template's texts and holes in order; the hole of a text is nil.
func (t Template) Pieces() iter.Seq2[string, *Hole] {
	return func(yield func(string, *Hole) bool) {
		for _, p := range t.parts {
			if !yield(p.text, p.hole) {
				return
			}
		}
	}
}

// Holes are the template's holes.
func (t Template) Holes() []*Hole {
	var out []*Hole
	for _, h := range t.Pieces() {
		if h != nil {
			out = append(out, h)
		}
	}
	return out
}

// Alts are the alternatives of all holes.
func (t Template) Alts() iter.Seq[Alt] {
	return func(yield func(Alt) bool) {
		for _, h := range t.Holes() {
			for _, a := range h.Alts {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// IsZero reports whether the template is empty.
func (t Template) IsZero() bool { return len(t.parts) == 0 }

// Fill gives the template's text, each hole filled by fill.
func (t Template) Fill(fill func(*Hole) string) string {
	var out strings.Builder
	for _, p := range t.parts {
		if p.hole == nil {
			out.WriteString(p.text)
		} else {
			out.WriteString(fill(p.hole))
		}
	}
	return out.String()
}

// String gives the template as it is written.
func (t Template) String() string {
	var out strings.Builder
	if t.Bare {
		out.WriteByte('=')
	}
	for i, p := range t.parts {
		if p.hole != nil {
			out.WriteString(p.hole.String())
			continue
		}
		text := strings.ReplaceAll(p.text, "{", "{{")
		if i == 0 && !t.Bare && strings.HasPrefix(text, "=") {
			text = "{=}" + text[1:]
		}
		out.WriteString(text)
	}
	return out.String()
}

// MarshalYAML writes a plain number or truth value as such, all else as text.
func (t Template) MarshalYAML() (any, error) {
	if t.Bare && len(t.parts) == 1 && t.parts[0].hole == nil && t.parts[0].text != "" {
		// Text that YAML reads as text is not plain.
		if plain := (&yaml.Node{Kind: yaml.ScalarNode, Value: t.parts[0].text}); plain.ShortTag() != "!!str" {
			return plain, nil
		}
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t.String()}
	if plain := (yaml.Node{}); plain.Encode(t.String()) == nil {
		n.Style = plain.Style
	}
	if t.String() == "<<" { // YAML's merge key, which the encoder does not quote
		n.Style = yaml.DoubleQuotedStyle
	}
	return n, nil
}

// UnmarshalYAML reads a template.
func (t *Template) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected a value", n.Line)
	}
	if n.Value == "" && n.ShortTag() == "!!null" {
		return fmt.Errorf("line %d: a value is missing; the empty text is \"\"", n.Line)
	}
	if n.ShortTag() != "!!str" {
		*t = Text(n.Value, true)
		return nil
	}
	got, err := ParseTemplate(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*t = got
	return nil
}

// ParseTemplate reads a template.
func ParseTemplate(s string) (t Template, err error) {
	s, t.Bare = strings.CutPrefix(s, "=")
	var text strings.Builder
	flush := func() {
		t.Append(text.String(), nil)
		text.Reset()
	}
	for i := 0; i < len(s); {
		switch {
		case s[i] != '{':
			text.WriteByte(s[i])
			i++
		case strings.HasPrefix(s[i:], "{{"):
			text.WriteByte('{')
			i += 2
		case strings.HasPrefix(s[i:], "{=}"):
			text.WriteByte('=')
			i += 3
		default:
			p := holeParser{cursor{s: s, at: i + 1}}
			h, err := p.hole()
			if err != nil {
				return Template{}, fmt.Errorf("%q: %w", s, err)
			}
			flush()
			t.Append("", h)
			i = p.at
		}
	}
	flush()
	if len(t.parts) == 0 {
		t.parts = []piece{{}}
	}
	return t, nil
}
