package program

import (
	"fmt"
	"strconv"
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

// A Hole is a part of a template that is computed. The first of its alternatives that
// has a value is taken.
type Hole struct {
	Width int // numbers are padded with zeros to this width
	Alts  []Alt
}

// An Alt is one way to get a value. Which fields count depends on Kind.
type Alt struct {
	Kind    AltKind
	Formula Formula  // Number
	Texts   []string // Const: one; First: the first and all later; Draw: what to draw from
	Unit    string   // Now: ns, us, ms, s, rfc3339 or hexns; Unknown: uuid, hex, int, port, bytes, word
	From    string   // Reply, Request: the call, or with Any the method, or nothing
	Any     bool     // any call of the method From, or any call at all
	Path    string   // Reply, Request, Own
	Index   string   // "", item, row, node or i: what gives the index that is not fixed
	Level   int      // of that index
	Word    int      // of the text found; -1: all of it
	Pick    string   // last, first, i, node or each
	By      string   // me, anyone, address, or where
	Where   string   // the path whose value must equal the argument Is
	WhereIn string   // reply or request
	Is      string
}

// AltKind is what an Alt is.
type AltKind uint8

// The kinds of Alt.
const (
	Number AltKind = iota
	Const
	First
	Now
	Reply
	Request
	Own
	Sender
	Address
	Draw
	Unknown
	// Case: Texts are keys and values in turn; Path is the argument (Is "arg")
	// or the number that decides; Where is the value of all other cases, if Any.
	Case
	Sum  // the number Is plus and minus arguments: Texts are signs and paths in turn
	Span // the argument Path, a number of seconds, spelled as 7m30s
)

var altNames = [...]string{"", "", "first", "now", "reply", "request", "arg", "sender", "address", "draw", "unknown", "case", "sum", "span"}

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

// Holes are the template's holes.
func (t Template) Holes() []*Hole {
	var out []*Hole
	for _, p := range t.parts {
		if p.hole != nil {
			out = append(out, p.hole)
		}
	}
	return out
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

// From are the calls that alternatives of the hole take their values from.
func (h *Hole) From() []string {
	var out []string
	for _, a := range h.Alts {
		if (a.Kind == Reply || a.Kind == Request) && !a.Any {
			out = append(out, a.From)
		}
	}
	return out
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

// String gives the hole as it is written.
func (h *Hole) String() string {
	alts := make([]string, len(h.Alts))
	for i, a := range h.Alts {
		alts[i] = a.String()
	}
	out := strings.Join(alts, " | ")
	if h.Width > 0 {
		out += fmt.Sprintf(":0%d", h.Width)
	}
	return "{" + out + "}"
}

func (a Alt) String() string {
	var w []string
	switch a.Kind {
	case Number:
		return a.Formula.String()
	case Const:
		return strconv.Quote(a.Texts[0])
	case First:
		return "first " + strconv.Quote(a.Texts[0]) + " then " + strconv.Quote(a.Texts[1])
	case Now:
		return "now " + a.Unit
	case Draw:
		w = []string{"draw"}
		for _, t := range a.Texts {
			w = append(w, strconv.Quote(t))
		}
		return strings.Join(w, " ")
	case Unknown:
		return "unknown " + a.Unit
	case Span:
		return "span " + strconv.Quote(a.Path)
	case Case:
		return a.caseText()
	case Sum:
		out := "sum " + a.Is
		for i := 0; i+1 < len(a.Texts); i += 2 {
			out += " " + a.Texts[i] + " " + strconv.Quote(a.Texts[i+1])
		}
		return out
	case Own:
		w = []string{"arg", strconv.Quote(a.Path)}
	case Sender, Address:
		w = []string{altNames[a.Kind]}
	default:
		w = a.flowWords()
	}
	if a.Index != "" {
		w = append(w, "index", a.Index, strconv.Itoa(a.Level))
	}
	if a.Word >= 0 {
		w = append(w, "word", strconv.Itoa(a.Word))
	}
	return strings.Join(w, " ")
}

func (a Alt) caseText() string {
	out := "case " + a.Path
	if a.Is == "arg" {
		out = "case arg " + strconv.Quote(a.Path)
	}
	for i := 0; i+1 < len(a.Texts); i += 2 {
		out += " " + strconv.Quote(a.Texts[i]) + " " + strconv.Quote(a.Texts[i+1])
	}
	if a.Any {
		out += " else " + strconv.Quote(a.Where)
	}
	return out
}

func (a Alt) flowWords() []string {
	w := []string{altNames[a.Kind]}
	switch {
	case a.Any && a.From == "":
		w = append(w, "any")
	case a.Any:
		w = append(w, "method", strconv.Quote(a.From))
	default:
		w = append(w, strconv.Quote(a.From))
	}
	w = append(w, strconv.Quote(a.Path))
	if a.Pick != "last" {
		w = append(w, a.Pick)
	}
	if a.By == "where" {
		return append(w, "where", a.WhereIn, strconv.Quote(a.Where), "is", strconv.Quote(a.Is))
	}
	if a.By != "me" {
		w = append(w, "by", a.By)
	}
	return w
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
