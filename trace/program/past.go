package program

import (
	"errors"
	"fmt"
	"strconv"
)

// A Past is a value from an earlier call: from its reply, or from what was asked.
type Past struct {
	Part  Part
	Of    Calls
	Path  string
	Pick  Pick
	By    By
	Where Where // if By is ByWhere
	Index Index
	Word  Word
}

func (*Past) alt() {}

// A Part is a part of a call.
type Part uint8

// The parts of a call.
const (
	Request Part = iota
	Reply
)

var parts = []string{Request: "request", Reply: "reply"}

// Calls are the calls that may hold a value: those of one place in the program, those
// of a method, or all if neither is set.
type Calls struct{ Call, Method string }

// A Pick is which one of several calls is meant.
type Pick uint8

// The picks.
const (
	PickLast Pick = iota
	PickNth       // the node's i-th such call takes from the i-th
	PickNode      // the node of number k takes from the k-th
	PickFirst
	PickEach // any, each used once
)

var picks = []string{PickLast: "last", PickNth: "i", PickNode: "node", PickFirst: "first", PickEach: "each"}

// A By is whose calls are meant.
type By uint8

// The senders of calls.
const (
	ByMe By = iota
	ByAnyone
	ByAddress // a node at the same address
	ByWhere   // whoever made a call that holds a value of this one
)

var senders = []string{ByMe: "me", ByAnyone: "anyone", ByAddress: "address"}

// A Where says which value an earlier call must hold: that of the argument Is.
type Where struct {
	In   Part
	Path string
	Is   string
}

// An Index is an index of a path that is not fixed, by the depth at which it is.
type Index struct {
	By    IndexBy
	Level int
}

// An IndexBy is what gives an index.
type IndexBy uint8

// What gives an index.
const (
	IndexFixed IndexBy = iota
	IndexItem          // the list element of this call
	IndexRow           // the list element that holds the key
	IndexNode          // the node's number
	IndexNth           // how many times the node made this call before
)

var indexes = []string{IndexItem: "item", IndexRow: "row", IndexNode: "node", IndexNth: "i"}

func (i Index) suffix() string {
	if i.By == IndexFixed {
		return ""
	}
	return fmt.Sprintf(" index %s %d", indexes[i.By], i.Level)
}

// A Word is which word of a text is meant, counted from 1; the zero Word is all of it.
type Word int

// WordAt is the word with a number, counted from 0; -1 is all of the text.
func WordAt(i int) Word { return Word(i + 1) }

func (w Word) suffix() string {
	if w == 0 {
		return ""
	}
	return " word " + strconv.Itoa(int(w)-1)
}

// String is the alternative as it is written.
func (a *Past) String() string {
	out := parts[a.Part]
	switch {
	case a.Of.Call != "":
		out += fmt.Sprintf(" %q", a.Of.Call)
	case a.Of.Method != "":
		out += fmt.Sprintf(" method %q", a.Of.Method)
	default:
		out += " any"
	}
	out += fmt.Sprintf(" %q", a.Path)
	if a.Pick != PickLast {
		out += " " + picks[a.Pick]
	}
	switch a.By {
	case ByMe:
	case ByWhere:
		out += fmt.Sprintf(" where %s %q is %q", parts[a.Where.In], a.Where.Path, a.Where.Is)
	default:
		out += " by " + senders[a.By]
	}
	return out + a.Index.suffix() + a.Word.suffix()
}

func (p *holeParser) past(part Part) (Alt, error) {
	a := &Past{Part: part}
	var err error
	if a.Of, err = p.calls(); err != nil {
		return nil, err
	}
	if a.Path, err = p.quoted(); err != nil {
		return nil, err
	}
	for err == nil {
		start := p.at
		switch word := p.word(); word {
		case "last", "first", "i", "node", "each":
			a.Pick, err = choice[Pick]("pick", word, picks)
		case "by":
			a.By, err = choice[By]("by", p.word(), senders)
		case "where":
			a.By = ByWhere
			a.Where, err = p.where()
		case "index":
			a.Index, err = p.index()
		case "word":
			a.Word, err = p.wordNumber()
		default:
			p.at = start
			return a, nil
		}
	}
	return nil, err
}

func (p *holeParser) calls() (c Calls, err error) {
	if p.peek() == '"' {
		if c.Call, err = p.quoted(); err == nil && c.Call == "" {
			err = errors.New("a call without a name")
		}
		return c, err
	}
	switch word := p.word(); word {
	case "any":
	case "method":
		c.Method, err = p.quoted()
	default:
		err = fmt.Errorf("expected a call, method or any, found %q", word)
	}
	return c, err
}

func (p *holeParser) where() (w Where, err error) {
	if w.In, err = choice[Part]("where", p.word(), parts); err != nil {
		return w, err
	}
	if w.Path, err = p.quoted(); err != nil {
		return w, err
	}
	if p.word() != "is" {
		return w, errors.New(`where "path" wants is "argument"`)
	}
	w.Is, err = p.quoted()
	return w, err
}

func (p *holeParser) index() (i Index, err error) {
	if i.By, err = choice[IndexBy]("index", p.word(), indexes); err == nil {
		i.Level, err = p.count("index")
	}
	return i, err
}

func (p *holeParser) wordNumber() (Word, error) {
	n, err := p.count("word")
	return WordAt(n), err
}
