package program

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// An Alt is one way to know a value. There are no others than those of this package:
// known by themselves or by the place of a call (Const, Number, First, Now), without a
// source (Draw, Unknown, Like), from the node or its call (Sender, Address, Own, Case, Sum,
// Span), and from an earlier call (*Past). Each is parsed beside its type and prints as
// it is parsed.
type Alt interface {
	// String is the alternative as it is written.
	String() string
	alt()
}

type (
	// A Const is a text.
	Const string
	// A Number is a formula of the scale and of the call's place.
	Number struct{ Formula }
	// A First is one text in a node's first such call, and another later.
	First struct{ First, Then string }
	// A Now is the time of the call.
	Now struct{ As TimeFormat }
	// A Draw is one of some texts, by chance.
	Draw []string
	// An Unknown is made up, as nothing is known but what it looks like.
	Unknown struct{ By Generator }
	// A Like is the value of a recorded run, for where no source has one: those of a
	// program are all of one run, so that they fit together.
	Like string
)

func (Const) alt()   {}
func (Number) alt()  {}
func (First) alt()   {}
func (Now) alt()     {}
func (Draw) alt()    {}
func (Unknown) alt() {}
func (Like) alt()    {}

// A TimeFormat is how a time is written.
type TimeFormat uint8

// The formats of a time.
const (
	TimeNS TimeFormat = iota // nanoseconds since 1970
	TimeUS
	TimeMS
	TimeS
	TimeRFC3339
	TimeHexNS // nanoseconds, in hexadecimal
)

var timeFormats = []string{TimeNS: "ns", TimeUS: "us", TimeMS: "ms", TimeS: "s", TimeRFC3339: "rfc3339", TimeHexNS: "hexns"}

// Unit is how many nanoseconds a time counts in one, in a format that counts.
func (f TimeFormat) Unit() int64 {
	switch f {
	case TimeUS:
		return 1e3
	case TimeMS:
		return 1e6
	case TimeS:
		return 1e9
	}
	return 1
}

// A Generator makes up values that look alike.
type Generator uint8

// The generators.
const (
	MakeUUID Generator = iota
	MakeHex
	MakeInt
	MakePort
	MakeBytes
	MakeWord
	MakeTime // milliseconds since 1970
)

var generators = []string{MakeUUID: "uuid", MakeHex: "hex", MakeInt: "int", MakePort: "port", MakeBytes: "bytes", MakeWord: "word", MakeTime: "time"}

func (a Const) String() string   { return strconv.Quote(string(a)) }
func (a First) String() string   { return fmt.Sprintf("first %q then %q", a.First, a.Then) }
func (a Now) String() string     { return "now " + timeFormats[a.As] }
func (a Unknown) String() string { return "unknown " + generators[a.By] }
func (a Like) String() string    { return "like " + strconv.Quote(string(a)) }

func (a Draw) String() string {
	out := "draw"
	for _, text := range a {
		out += " " + strconv.Quote(text)
	}
	return out
}

// number reads a formula: all up to the end of the alternative.
func (p *holeParser) number() (Alt, error) {
	start := p.at
	for p.at < len(p.s) && !strings.ContainsRune(`|:}`, rune(p.s[p.at])) {
		p.at++
	}
	f, err := ParseFormula(p.s[start:p.at])
	if err != nil {
		return nil, err
	}
	for _, name := range f.Names() {
		if !name.known() {
			return nil, fmt.Errorf("%q is not known; n, i, node and item are", name)
		}
	}
	return Number{f}, nil
}

func (p *holeParser) first() (Alt, error) {
	one, err := p.quoted()
	if err != nil {
		return nil, err
	}
	if p.word() != "then" {
		return nil, errors.New(`first "a" wants then "b"`)
	}
	two, err := p.quoted()
	return First{one, two}, err
}

func (p *holeParser) draw() (Alt, error) {
	texts, err := p.texts()
	if err == nil && len(texts) == 0 {
		err = errors.New("draw: nothing to draw from")
	}
	return Draw(texts), err
}
