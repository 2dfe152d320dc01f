package program

import (
	"errors"
	"fmt"
	"strconv"
)

type (
	// A Sender is the node's own name, or a word of it.
	Sender struct{ Word Word }
	// An Address is the node's own address, or a word of it.
	Address struct{ Word Word }
	// An Own is another argument of the call.
	Own struct {
		Path  string
		Index Index // fixed, or that of the list element
		Word  Word
	}
	// A Case is chosen by a number of the call's place or, if Arg is set, by another
	// argument of the call.
	Case struct {
		Number Variable
		Arg    string
		Rows   []Row
		Else   *string // in all other cases; nil: no value
	}
	// A Row is the value of one case.
	Row struct{ Key, Value string }
	// A Sum is a number plus and minus other arguments of the call.
	Sum struct {
		Total int64
		Terms []Term
	}
	// A Term is an argument that is added or subtracted.
	Term struct {
		Minus bool
		Path  string
	}
	// A Span is another argument, a number of seconds, spelled as 7m30s.
	Span struct{ Path string }
)

func (Sender) alt()  {}
func (Address) alt() {}
func (Own) alt()     {}
func (Case) alt()    {}
func (Sum) alt()     {}
func (Span) alt()    {}

func (a Sender) String() string  { return "sender" + a.Word.suffix() }
func (a Address) String() string { return "address" + a.Word.suffix() }
func (a Own) String() string {
	return fmt.Sprintf("arg %q", a.Path) + a.Index.suffix() + a.Word.suffix()
}
func (a Span) String() string { return fmt.Sprintf("span %q", a.Path) }

func (a Case) String() string {
	out := "case " + string(a.Number)
	if a.Number == "" {
		out = fmt.Sprintf("case arg %q", a.Arg)
	}
	for _, row := range a.Rows {
		out += fmt.Sprintf(" %q %q", row.Key, row.Value)
	}
	if a.Else != nil {
		out += fmt.Sprintf(" else %q", *a.Else)
	}
	return out
}

func (a Sum) String() string {
	out := "sum " + strconv.FormatInt(a.Total, 10)
	for _, t := range a.Terms {
		sign := "+"
		if t.Minus {
			sign = "-"
		}
		out += fmt.Sprintf(" %s %q", sign, t.Path)
	}
	return out
}

func (p *holeParser) own() (Alt, error) {
	path, err := p.quoted()
	if err != nil {
		return nil, err
	}
	a := Own{Path: path}
	for {
		start := p.at
		switch p.word() {
		case "index":
			if a.Index, err = p.index(); err == nil && a.Index.By != IndexItem {
				err = errors.New("an argument of the same call is found by index item")
			}
		case "word":
			a.Word, err = p.wordNumber()
		default:
			p.at = start
			return a, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// optionalWord reads which word is meant, if one is.
func (p *holeParser) optionalWord() (Word, error) {
	start := p.at
	if p.word() != "word" {
		p.at = start
		return 0, nil
	}
	return p.wordNumber()
}

func (p *holeParser) cases() (Alt, error) {
	var a Case
	var err error
	switch by := Variable(p.word()); {
	case by == "arg":
		if a.Arg, err = p.quoted(); err != nil {
			return nil, err
		}
	case by.known():
		a.Number = by
	default:
		return nil, fmt.Errorf("case %q: i, node, item, n or arg", by)
	}
	texts, err := p.texts()
	if err != nil {
		return nil, err
	}
	if len(texts) == 0 || len(texts)%2 != 0 {
		return nil, errors.New("case: keys and values must come in pairs")
	}
	for i := 0; i < len(texts); i += 2 {
		a.Rows = append(a.Rows, Row{texts[i], texts[i+1]})
	}
	start := p.at
	if p.word() != "else" {
		p.at = start
		return a, nil
	}
	rest, err := p.quoted()
	a.Else = &rest
	return a, err
}

func (p *holeParser) sum() (Alt, error) {
	word := p.word()
	total, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("sum %q: a whole number comes first", word)
	}
	a := Sum{Total: total}
	for {
		sign := p.peek()
		if sign != '+' && sign != '-' {
			return a, nil
		}
		p.at++
		path, err := p.quoted()
		if err != nil {
			return nil, err
		}
		a.Terms = append(a.Terms, Term{sign == '-', path})
	}
}
