package program

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Formula is arithmetic over named numbers, as a person writes it:
// "3*n+2", "min(10, n)", "floor(n/2)", "n*(n-1)", "ceil(log2(n))". The zero
// Formula is 0.
type Formula struct {
	text string
	root term
}

// A Variable is a name in a formula.
type Variable string

// The variables that formulas may have.
const (
	N    Variable = "n"    // the scale
	I    Variable = "i"    // how many times the node made the call before
	Node Variable = "node" // the node's number
	Item Variable = "item" // the list element
)

func (v Variable) known() bool { return v == N || v == I || v == Node || v == Item }

// Vars gives the names in a formula their values.
type Vars map[Variable]float64

// maxFormula is how long the text of a formula may be: every character may take a level
// of recursion to evaluate.
const maxFormula = 1 << 20

// ParseFormula reads a formula.
func ParseFormula(s string) (Formula, error) {
	if len(s) > maxFormula {
		return Formula{}, fmt.Errorf("formula %q...: longer than %d characters", s[:20], maxFormula)
	}
	p := formulaParser{cursor{s: s}}
	root, err := p.sum(0)
	if err == nil && p.peek() != 0 {
		err = fmt.Errorf("unexpected %q", p.s[p.at:])
	}
	if err != nil {
		return Formula{}, fmt.Errorf("formula %q: %w", s, err)
	}
	return Formula{text: strings.TrimSpace(s), root: root}, nil
}

// MustFormula is ParseFormula for formulas written by this code. It panics on errors.
func MustFormula(format string, args ...any) Formula {
	f, err := ParseFormula(fmt.Sprintf(format, args...))
	if err != nil {
		panic(err)
	}
	return f
}

// String gives the formula as it was written.
func (f Formula) String() string {
	if f.root == nil {
		return "0"
	}
	return f.text
}

// Eval gives the formula's value; a name without a value is 0.
func (f Formula) Eval(vars Vars) float64 {
	if f.root == nil {
		return 0
	}
	return f.root.eval(vars)
}

// At gives the value for a scale, as a count.
func (f Formula) At(n int) int { return Whole(f.Eval(Vars{N: float64(n)})) }

// Whole is a value as a count: rounded, not below zero, and not above 2^53, the largest
// number up to which floats are exact.
func Whole(v float64) int {
	if math.IsNaN(v) || v < 0 {
		return 0
	}
	return int(min(math.Round(v), 1<<53))
}

// Scales are scales above one and up to another, in which to look for the first where
// formulas differ: all of them up to 4096, and then ever fewer, to bound the time.
func Scales(above, to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := above + 1; n <= to && yield(n); n += 1 + n/4096 {
		}
	}
}

// Constant reports whether the formula is a number.
func (f Formula) Constant() bool {
	_, ok := f.root.(number)
	return ok || f.root == nil
}

// Is reports whether the formula is the number v.
func (f Formula) Is(v float64) bool { return f.Constant() && f.Eval(nil) == v }

// Line reports whether the formula is a number, or has one variable once and calls no
// function.
func (f Formula) Line() bool {
	return len(f.Names()) <= 1 && !f.has(func(t term) bool { _, calls := t.(call); return calls })
}

// Calls reports whether the formula calls one of some functions.
func (f Formula) Calls(functions ...Function) bool {
	return f.has(func(t term) bool {
		c, ok := t.(call)
		return ok && slices.Contains(functions, c.f)
	})
}

// Equal reports whether two formulas are the same, however they are spelled.
func (f Formula) Equal(g Formula) bool {
	return slices.EqualFunc(f.terms(), g.terms(), func(a, b term) bool { return a.same(b) })
}

// MarshalYAML writes a formula as its text, and a plain number as a number.
func (f Formula) MarshalYAML() (any, error) {
	if v, err := strconv.Atoi(f.String()); err == nil {
		return v, nil
	}
	return f.String(), nil
}

// UnmarshalText reads a formula.
func (f *Formula) UnmarshalText(b []byte) (err error) {
	*f, err = ParseFormula(string(b))
	return err
}

// A term is a node of a formula's tree.
type term interface {
	eval(Vars) float64
	within() []term       // the terms it is made of
	same(other term) bool // but for the terms within
}

type (
	number   float64
	variable Variable
	binary   struct {
		op   byte
		a, b term
	}
	call struct {
		f    Function
		args []term
	}
)

func (v number) within() []term   { return nil }
func (v variable) within() []term { return nil }
func (b binary) within() []term   { return []term{b.a, b.b} }
func (c call) within() []term     { return c.args }

func (v number) same(o term) bool   { return o == term(v) }
func (v variable) same(o term) bool { return o == term(v) }

func (b binary) same(o term) bool {
	other, ok := o.(binary)
	return ok && other.op == b.op
}

func (c call) same(o term) bool {
	other, ok := o.(call)
	return ok && other.f == c.f
}

// terms are all terms of a formula, each before those within it.
func (f Formula) terms() (out []term) {
	if f.root == nil {
		return []term{number(0)}
	}
	open := []term{f.root}
	for len(open) > 0 {
		t := open[len(open)-1]
		open = append(open[:len(open)-1], t.within()...)
		out = append(out, t)
	}
	return out
}

func (f Formula) has(what func(term) bool) bool { return slices.ContainsFunc(f.terms(), what) }

// Names lists the names a formula uses.
func (f Formula) Names() (out []Variable) {
	for _, t := range f.terms() {
		if v, ok := t.(variable); ok {
			out = append(out, Variable(v))
		}
	}
	slices.Reverse(out) // terms goes from right to left
	return out
}

func (v number) eval(Vars) float64      { return float64(v) }
func (v variable) eval(in Vars) float64 { return in[Variable(v)] }

func (b binary) eval(in Vars) float64 {
	x, y := b.a.eval(in), b.b.eval(in)
	switch b.op {
	case '+':
		return x + y
	case '-':
		return x - y
	case '*':
		return x * y
	case '^':
		return math.Pow(x, y)
	case '%':
		return math.Mod(x, y)
	}
	return x / y
}

// A Function is one that a formula may call.
type Function uint8

// The functions.
const (
	Min Function = iota
	Max
	Floor
	Ceil
	Log2
	Sqrt
)

var functions = []string{Min: "min", Max: "max", Floor: "floor", Ceil: "ceil", Log2: "log2", Sqrt: "sqrt"}

// arguments is how many arguments a function takes.
func (f Function) arguments() int {
	if f == Min || f == Max {
		return 2
	}
	return 1
}

func (c call) eval(in Vars) float64 {
	x := c.args[0].eval(in)
	switch c.f {
	case Min:
		return min(x, c.args[1].eval(in))
	case Max:
		return max(x, c.args[1].eval(in))
	case Floor:
		return math.Floor(x)
	case Ceil:
		return math.Ceil(x)
	case Log2:
		return math.Log2(x)
	}
	return math.Sqrt(x)
}

// A cursor is how far a text has been read.
type cursor struct {
	s  string
	at int
}

// peek gives the next byte that is not a space; 0 at the end.
func (p *cursor) peek() byte {
	for p.at < len(p.s) && p.s[p.at] == ' ' {
		p.at++
	}
	if p.at >= len(p.s) {
		return 0
	}
	return p.s[p.at]
}

type formulaParser struct{ cursor }

func (p *formulaParser) chain(depth int, ops string, next func(int) (term, error)) (term, error) {
	left, err := next(depth)
	for err == nil {
		op := p.peek()
		if op == 0 || strings.IndexByte(ops, op) < 0 {
			break
		}
		p.at++
		var right term
		right, err = next(depth)
		left = binary{op, left, right}
	}
	return left, err
}

func (p *formulaParser) sum(depth int) (term, error) { return p.chain(depth, "+-", p.product) }

func (p *formulaParser) product(depth int) (term, error) { return p.chain(depth, "*/%", p.power) }

func (p *formulaParser) power(depth int) (term, error) { return p.chain(depth, "^", p.factor) }

func (p *formulaParser) factor(depth int) (term, error) {
	if depth > 50 {
		return nil, fmt.Errorf("nested too deep")
	}
	switch c := p.peek(); {
	case c == '(':
		p.at++
		inner, err := p.sum(depth + 1)
		return inner, p.closed(err)
	case c == '-':
		p.at++
		inner, err := p.factor(depth + 1)
		return binary{'-', number(0), inner}, err
	case c >= '0' && c <= '9' || c == '.':
		return p.number()
	case c >= 'a' && c <= 'z':
		return p.name(depth)
	case c == 0:
		return nil, fmt.Errorf("ends too early")
	}
	return nil, fmt.Errorf("unexpected %q", p.s[p.at:])
}

func (p *formulaParser) closed(err error) error {
	if err == nil && p.peek() != ')' {
		return fmt.Errorf("a ')' is missing")
	}
	p.at++
	return err
}

func (p *formulaParser) number() (term, error) {
	start := p.at
	for p.at < len(p.s) && (p.s[p.at] >= '0' && p.s[p.at] <= '9' || p.s[p.at] == '.') {
		p.at++
	}
	v, err := strconv.ParseFloat(p.s[start:p.at], 64)
	if err != nil {
		return nil, fmt.Errorf("bad number %q", p.s[start:p.at])
	}
	return number(v), nil
}

func (p *formulaParser) name(depth int) (term, error) {
	start := p.at
	for p.at < len(p.s) && (p.s[p.at] >= 'a' && p.s[p.at] <= 'z' || p.at > start && p.s[p.at] >= '0' && p.s[p.at] <= '9') {
		p.at++
	}
	name := p.s[start:p.at]
	if p.peek() != '(' {
		return variable(name), nil
	}
	at := slices.Index(functions, name)
	if at < 0 {
		return nil, fmt.Errorf("unknown function %q", name)
	}
	c := call{f: Function(at)}
	for p.peek() != ')' {
		p.at++ // the bracket, or the comma
		arg, err := p.sum(depth + 1)
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, arg)
		if next := p.peek(); next != ',' && next != ')' {
			return nil, fmt.Errorf("a ')' is missing")
		}
	}
	p.at++
	if want := c.f.arguments(); len(c.args) != want {
		return nil, fmt.Errorf("%s takes %d arguments, not %d", name, want, len(c.args))
	}
	return c, nil
}
