package program

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Hole is a part of a template that is computed. The first of its alternatives that
// has a value is taken.
type Hole struct {
	Width int // numbers are padded with zeros to this width
	Alts  []Alt
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

// A holeParser reads what stands between braces.
type holeParser struct{ cursor }

// hole reads up to and with the closing brace.
func (p *holeParser) hole() (*Hole, error) {
	h := &Hole{}
	for {
		a, err := p.alt()
		if err != nil {
			return nil, err
		}
		h.Alts = append(h.Alts, a)
		switch p.peek() {
		case '|':
			p.at++
			continue
		case ':':
			p.at++
			if h.Width, err = p.width(); err != nil {
				return nil, err
			}
		}
		if p.peek() != '}' {
			return nil, errors.New("a hole is not closed")
		}
		p.at++
		return h, nil
	}
}

// MaxWidth is the largest width to which a number is padded with zeros.
const MaxWidth = 40

func (p *holeParser) width() (int, error) {
	start := p.at
	for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.s[start:p.at])
	if err != nil || n > MaxWidth {
		return 0, fmt.Errorf("bad width %q", p.s[start:p.at])
	}
	return n, nil
}

// alt reads an alternative: what does not begin with one of these words is a formula.
func (p *holeParser) alt() (Alt, error) {
	if p.peek() == '"' {
		text, err := p.quoted()
		return Const(text), err
	}
	start := p.at
	switch word := p.word(); word {
	case "first":
		return p.first()
	case "now":
		as, err := choice[TimeFormat](word, p.word(), timeFormats)
		return Now{as}, err
	case "draw":
		return p.draw()
	case "unknown":
		by, err := choice[Generator](word, p.word(), generators)
		return Unknown{by}, err
	case "like":
		text, err := p.quoted()
		return Like(text), err
	case "sender":
		word, err := p.optionalWord()
		return Sender{word}, err
	case "address":
		word, err := p.optionalWord()
		return Address{word}, err
	case "arg":
		return p.own()
	case "case":
		return p.cases()
	case "sum":
		return p.sum()
	case "span":
		path, err := p.quoted()
		return Span{path}, err
	case "reply":
		return p.past(Reply)
	case "request":
		return p.past(Request)
	}
	p.at = start
	return p.number()
}

// word reads a bare word or a number.
func (p *holeParser) word() string {
	p.peek()
	start := p.at
	for p.at < len(p.s) && !strings.ContainsRune(` |:}"`, rune(p.s[p.at])) {
		p.at++
	}
	return p.s[start:p.at]
}

func (p *holeParser) quoted() (string, error) {
	if p.peek() != '"' {
		return "", fmt.Errorf("expected a text in quotes at %q", p.s[p.at:])
	}
	prefix, err := strconv.QuotedPrefix(p.s[p.at:])
	if err != nil {
		return "", errors.New("a quote is not closed")
	}
	p.at += len(prefix)
	return strconv.Unquote(prefix)
}

// texts reads quoted texts as long as they come.
func (p *holeParser) texts() (out []string, err error) {
	for p.peek() == '"' {
		text, err := p.quoted()
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// count reads a number from 0 up; after is the word before it.
func (p *holeParser) count(after string) (int, error) {
	word := p.word()
	n, err := strconv.ParseUint(word, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s %q: a number from 0 up", after, word)
	}
	return int(n), nil
}

// choice finds a word among the names of an enumeration; after is the word before it.
func choice[E ~uint8](after, word string, names []string) (E, error) {
	at := slices.Index(names, word)
	if at < 0 || word == "" {
		return 0, fmt.Errorf("%s %q: one of %s", after, word, strings.TrimPrefix(strings.Join(names, ", "), ", "))
	}
	return E(at), nil
}
