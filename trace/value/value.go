// Package value computes the values of holes in a program's arguments: where mining holds
// them against recorded calls, for traffic that is written to a file, and for traffic that
// is replayed.
package value

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"gleaner/trace"
	"gleaner/trace/program"
)

// A Scene is everything that the value of an argument may depend on, for one call.
type Scene struct {
	Place
	At      int64 // nanoseconds since 1970
	Sender  string
	Address string
	Chance  *rand.Rand

	// Past gives a value from an earlier request or reply. If it is nil, as when there
	// are no replies, such alternatives have no value.
	Past func(*program.Past) (string, bool)
	// Arg gives another argument of the call, in the same list element where it
	// stands in one.
	Arg func(path string) (string, bool)

	vars program.Vars
}

// Alt gives the value of one alternative of a hole.
func (s *Scene) Alt(a program.Alt) (string, bool) {
	switch a := a.(type) {
	case program.Const:
		return string(a), true
	case program.Number:
		return s.number(a.Formula)
	case program.First:
		if s.Nth > 0 {
			return a.Then, true
		}
		return a.First, true
	case program.Now:
		return s.now(a.As), true
	case program.Draw:
		return a[s.Chance.IntN(len(a))], true
	case program.Unknown:
		return s.MakeUp(a.By), true
	case program.Like:
		return string(a), true
	case program.Case:
		return s.pick(a)
	case program.Sender:
		return a.Word.Of(s.Sender)
	case program.Address:
		return a.Word.Of(s.Address)
	case program.Own:
		return s.own(a)
	case program.Sum:
		return s.sum(a)
	case program.Span:
		return s.span(a)
	case *program.Past:
		if s.Past != nil {
			return s.Past(a)
		}
	}
	return "", false
}

// Hole gives the value of a hole, padded to its width: that of the first alternative
// that has one.
func (s *Scene) Hole(h *program.Hole) (string, bool) {
	for _, a := range h.Alts {
		if text, ok := s.Alt(a); ok {
			return Pad(text, h.Width), true
		}
	}
	return "", false
}

// Length is the length of a list in one call.
func Length(l program.List, scale int, chance *rand.Rand) int {
	f := l.Lengths[0]
	if len(l.Lengths) > 1 {
		f = l.Lengths[chance.IntN(len(l.Lengths))]
	}
	return min(f.At(scale), MaxElements)
}

// MaxElements is how many elements the lists of one call may have: far beyond the scales
// seen a formula may give any length.
const MaxElements = 1 << 20

// Pad pads a number with zeros to the hole's width.
func Pad(text string, width int) string {
	return strings.Repeat("0", max(0, width-len(text))) + text
}

// number is a formula's value; not ok if it has none, as after a division by 0.
func (s *Scene) number(f program.Formula) (string, bool) {
	v := math.Round(f.Eval(s.names())) + 0 // turns -0 into 0
	return strconv.FormatFloat(v, 'f', -1, 64), !math.IsNaN(v) && !math.IsInf(v, 0)
}

func (s *Scene) names() program.Vars {
	if s.vars == nil {
		s.vars = program.Vars{}
	}
	s.vars[program.N], s.vars[program.Node], s.vars[program.I], s.vars[program.Item] = float64(s.Scale), float64(s.Node), float64(s.Nth), float64(s.Item)
	return s.vars
}

// pick chooses a case by a number or an argument.
func (s *Scene) pick(a program.Case) (string, bool) {
	key, ok := s.Key(a)
	if !ok {
		return "", false
	}
	for _, row := range a.Rows {
		if row.Key == key {
			return row.Value, true
		}
	}
	if a.Else == nil {
		return "", false
	}
	return *a.Else, true
}

// Key is what a case is chosen by; not ok where there are no arguments.
func (s *Scene) Key(a program.Case) (string, bool) {
	if a.Number != "" {
		return strconv.FormatFloat(s.names()[a.Number], 'f', -1, 64), true
	}
	if s.Arg == nil {
		return "", false
	}
	key, _ := s.Arg(a.Arg) // a missing argument counts as empty
	return key, true
}

func (s *Scene) own(a program.Own) (string, bool) {
	if s.Arg == nil {
		return "", false
	}
	path := a.Path
	if a.Index.By != program.IndexFixed {
		path = At(path, a.Index.Level, s.Index(a.Index.By, 0))
	}
	text, ok := s.Arg(path)
	if !ok {
		return "", false
	}
	return a.Word.Of(text)
}

func (s *Scene) sum(a program.Sum) (string, bool) {
	if s.Arg == nil {
		return "", false
	}
	total := a.Total
	for _, t := range a.Terms {
		text, ok := s.Arg(t.Path)
		v, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil {
			return "", false
		}
		if t.Minus {
			v = -v
		}
		total += v
	}
	return strconv.FormatInt(total, 10), true
}

func (s *Scene) span(a program.Span) (string, bool) {
	if s.Arg == nil {
		return "", false
	}
	text, ok := s.Arg(a.Path)
	seconds, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil {
		return "", false
	}
	return (time.Duration(seconds) * time.Second).String(), true
}

func (s *Scene) now(as program.TimeFormat) string {
	switch as {
	case program.TimeRFC3339:
		return time.Unix(0, s.At).UTC().Format("2006-01-02T15:04:05.000000Z07:00") // Kubernetes takes no other number of digits where it has more than seconds
	case program.TimeHexNS:
		return strconv.FormatInt(s.At, 16)
	}
	return strconv.FormatInt(s.At/as.Unit(), 10)
}

// MakeUp invents a value.
func (s *Scene) MakeUp(by program.Generator) string {
	switch by {
	case program.MakeUUID:
		a, b := s.Chance.Uint64(), s.Chance.Uint64()
		return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff, b&0xffffffffffff)
	case program.MakeHex:
		return fmt.Sprintf("%08x", s.Chance.Uint32())
	case program.MakePort:
		return strconv.Itoa(32768 + s.Chance.IntN(28232))
	case program.MakeTime:
		return s.now(program.TimeMS)
	case program.MakeBytes:
		return fmt.Sprintf("base64:%08x", s.Chance.Uint32())
	case program.MakeWord:
		out := make([]byte, 5)
		for i := range out {
			out[i] = "bcdfghjklmnpqrstvwxz2456789"[s.Chance.IntN(27)]
		}
		return string(out)
	}
	return strconv.FormatInt(s.Chance.Int64N(1<<31), 10)
}

// Bare is the kind of a value that is not a string. A placeholder is a string until it is
// filled.
func Bare(text string) trace.Kind {
	if text == "true" || text == "false" {
		return trace.Bool
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return trace.Int
	}
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		return trace.Int
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && strings.Trim(text, "+-.0123456789eE") == "" {
		return trace.Float
	}
	return trace.String
}

// Millis is an interval of milliseconds in nanoseconds. It is cut to the range from 0 to
// an hour: beyond the scales seen a formula may give any number.
func Millis(f program.Formula, scale, node int) int64 {
	v := f.Eval(program.Vars{program.N: float64(scale), program.Node: float64(node)})
	if math.IsNaN(v) || v < 0 {
		return 0
	}
	return int64(min(v, 3.6e6) * 1e6)
}

// Quad reports whether a text is an IPv4 address.
func Quad(text string) bool {
	parts := strings.Split(text, ".")
	return len(parts) == 4 && !slices.ContainsFunc(parts, func(p string) bool {
		_, err := strconv.ParseUint(p, 10, 8)
		return err != nil
	})
}

// Address carries numbers of an IPv4 address that are above 255, as they are for many
// nodes: 127.0.1.300 is 127.0.2.44. Other texts stay as they are.
func Address(text string) string {
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return text
	}
	number := 0
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || i == 0 && n > 255 || n > 1<<24 {
			return text
		}
		number = number<<8 + n
	}
	return fmt.Sprintf("%d.%d.%d.%d", number>>24&255, number>>16&255, number>>8&255, number&255)
}

// Portion is how often a node makes a call, if repeat is the average over all nodes. It
// spreads the total evenly over the nodes in whole numbers, so that the sum is right,
// and calls with the same average are made by the same nodes.
func Portion(repeat *program.Formula, scale, node int) int {
	upTo := func(nodes int) float64 {
		return math.Floor(often(repeat, scale, node)*float64(nodes) + 0.5)
	}
	return int(upTo(node+1) - upTo(node))
}

// Times is how often a step is made. A fraction is rounded up or down by chance, so that
// the sum over all nodes is right.
func Times(repeat *program.Formula, scale, node int, chance *rand.Rand) int {
	if repeat == nil {
		return 1
	}
	v := often(repeat, scale, node)
	whole := math.Floor(v)
	if v-whole > 1e-9 && chance.Float64() < v-whole {
		whole++
	}
	return int(whole)
}

// often is how often a step is made, on average.
func often(repeat *program.Formula, scale, node int) float64 {
	if repeat == nil {
		return 1
	}
	v := repeat.Eval(program.Vars{program.N: float64(scale), program.Node: float64(node)})
	if math.IsNaN(v) || v <= 0 {
		return 0
	}
	return min(v, 1e9)
}

// Sum adds up a number for each call of some steps, as often as the call is made on
// average.
func Sum(steps []program.Step, scale, node int, of func(call string) float64) (sum float64) {
	for i := range steps {
		s := &steps[i]
		times := often(s.Repeat, scale, node)
		if s.Share > 0 {
			times *= s.Share
		}
		switch {
		case times == 0:
		case s.Call != "":
			sum += times * of(s.Call)
		default:
			sum += times * Sum(s.Steps, scale, node, of)
		}
	}
	return sum
}

// Idle reports whether a loop makes less than one call in a million iterations: it is
// skipped, because its iterations would take too long.
func Idle(s *program.Step, scale, node int) bool {
	return s.Call == "" && Sum(s.Steps, scale, node, func(string) float64 { return 1 }) < 1e-6
}
