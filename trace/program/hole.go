package program

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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

// word reads a bare word, quoted text or number.
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

func (p *holeParser) alt() (a Alt, err error) {
	a.Word, a.Pick, a.By = -1, "last", "me"
	if p.peek() == '"' {
		a.Kind = Const
		text, err := p.quoted()
		a.Texts = []string{text}
		return a, err
	}
	start := p.at
	name := p.word()
	a.Kind = AltKind(slices.Index(altNames[:], name))
	if name == "" || !slices.Contains(altNames[:], name) {
		p.at = start
		return p.number()
	}
	switch a.Kind {
	case First:
		return p.first(a)
	case Now, Unknown:
		a.Unit = p.word()
		if !slices.Contains(units[a.Kind], a.Unit) {
			return a, fmt.Errorf("%s %q: one of %s", name, a.Unit, strings.Join(units[a.Kind], ", "))
		}
		return a, nil
	case Draw:
		for p.peek() == '"' {
			text, err := p.quoted()
			if err != nil {
				return a, err
			}
			a.Texts = append(a.Texts, text)
		}
		if len(a.Texts) == 0 {
			return a, errors.New("draw: nothing to draw from")
		}
		return a, nil
	case Case:
		return p.cases(a)
	case Sum:
		return p.sum(a)
	case Span:
		a.Path, err = p.quoted()
		return a, err
	case Own:
		if a.Path, err = p.quoted(); err != nil {
			return a, err
		}
	case Reply, Request:
		if err := p.flow(&a); err != nil {
			return a, err
		}
	}
	return a, p.tail(&a)
}

var units = map[AltKind][]string{
	Now:     {"ns", "us", "ms", "s", "rfc3339", "hexns"},
	Unknown: {"uuid", "hex", "int", "port", "bytes", "word", "time"},
}

func (p *holeParser) cases(a Alt) (Alt, error) {
	var err error
	switch a.Path = p.word(); a.Path {
	case "arg":
		a.Is = "arg"
		if a.Path, err = p.quoted(); err != nil {
			return a, err
		}
	case "i", "node", "item", "n":
	default:
		return a, fmt.Errorf("case %q: i, node, item, n or arg", a.Path)
	}
	for p.peek() == '"' {
		text, err := p.quoted()
		if err != nil {
			return a, err
		}
		a.Texts = append(a.Texts, text)
	}
	if len(a.Texts) == 0 || len(a.Texts)%2 != 0 {
		return a, errors.New("case: keys and values must come in pairs")
	}
	start := p.at
	if p.word() != "else" {
		p.at = start
		return a, nil
	}
	a.Any = true
	a.Where, err = p.quoted()
	return a, err
}

// sum reads a number and arguments to add or subtract.
func (p *holeParser) sum(a Alt) (Alt, error) {
	a.Is = p.word()
	if _, err := strconv.ParseInt(a.Is, 10, 64); err != nil {
		return a, fmt.Errorf("sum %q: a whole number comes first", a.Is)
	}
	for {
		sign := p.peek()
		if sign != '+' && sign != '-' {
			return a, nil
		}
		p.at++
		path, err := p.quoted()
		if err != nil {
			return a, err
		}
		a.Texts = append(a.Texts, string(sign), path)
	}
}

func (p *holeParser) first(a Alt) (Alt, error) {
	one, err := p.quoted()
	if err != nil {
		return a, err
	}
	if p.word() != "then" {
		return a, errors.New(`first "a" wants then "b"`)
	}
	two, err := p.quoted()
	a.Texts = []string{one, two}
	return a, err
}

// number reads a formula: all up to the end of the alternative.
func (p *holeParser) number() (Alt, error) {
	start := p.at
	for p.at < len(p.s) && !strings.ContainsRune(`|:}`, rune(p.s[p.at])) {
		p.at++
	}
	f, err := ParseFormula(p.s[start:p.at])
	if err != nil {
		return Alt{}, err
	}
	for _, name := range f.Names() {
		if !slices.Contains([]string{"n", "i", "node", "item"}, name) {
			return Alt{}, fmt.Errorf("%q is not known; n, i, node and item are", name)
		}
	}
	return Alt{Kind: Number, Formula: f, Word: -1, Pick: "last", By: "me"}, nil
}

func (p *holeParser) flow(a *Alt) (err error) {
	if p.peek() != '"' {
		switch word := p.word(); word {
		case "any":
			a.Any = true
		case "method":
			a.Any = true
			if a.From, err = p.quoted(); err != nil {
				return err
			}
		default:
			return fmt.Errorf("expected a call, method or any, found %q", word)
		}
	} else if a.From, err = p.quoted(); err != nil {
		return err
	}
	a.Path, err = p.quoted()
	return err
}

// tail reads what may follow: which of several calls, by whom, which element, which word.
func (p *holeParser) tail(a *Alt) (err error) {
	for {
		start := p.at
		switch word := p.word(); word {
		case "last", "first", "i", "node", "each":
			a.Pick = word
		case "by":
			a.By = p.word()
			if !slices.Contains([]string{"me", "anyone", "address"}, a.By) {
				return fmt.Errorf("by %q: one of me, anyone, address", a.By)
			}
		case "where":
			err = p.where(a)
		case "index":
			a.Index = p.word()
			if !slices.Contains([]string{"item", "row", "node", "i"}, a.Index) {
				return fmt.Errorf("index %q: one of item, row, node, i", a.Index)
			}
			a.Level, err = strconv.Atoi(p.word())
		case "word":
			a.Word, err = strconv.Atoi(p.word())
		default:
			p.at = start
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *holeParser) where(a *Alt) (err error) {
	a.By, a.WhereIn = "where", p.word()
	if a.WhereIn != "reply" && a.WhereIn != "request" {
		return fmt.Errorf("where %q: reply or request", a.WhereIn)
	}
	if a.Where, err = p.quoted(); err != nil {
		return err
	}
	if p.word() != "is" {
		return errors.New(`where "path" wants is "argument"`)
	}
	a.Is, err = p.quoted()
	return err
}
