package program

import (
	"fmt"
	"iter"
	"math"
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

// Vars gives the names in a formula their values.
type Vars map[string]float64

type term interface{ eval(Vars) float64 }

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
func (f Formula) At(n int) int { return Whole(f.Eval(Vars{"n": float64(n)})) }

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

type (
	number   float64
	variable string
	binary   struct {
		op   byte
		a, b term
	}
	call struct {
		name string
		args []term
	}
)

func (v number) eval(Vars) float64      { return float64(v) }
func (v variable) eval(in Vars) float64 { return in[string(v)] }

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

// functions are those a formula may call, with how many arguments each takes.
var functions = map[string]int{"min": 2, "max": 2, "floor": 1, "ceil": 1, "log2": 1, "sqrt": 1}

func (c call) eval(in Vars) float64 {
	x := c.args[0].eval(in)
	switch c.name {
	case "min":
		return min(x, c.args[1].eval(in))
	case "max":
		return max(x, c.args[1].eval(in))
	case "floor":
		return math.Floor(x)
	case "ceil":
		return math.Ceil(x)
	case "log2":
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
	want, known := functions[name]
	if !known {
		return nil, fmt.Errorf("unknown function %q", name)
	}
	c := call{name: name}
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
	if len(c.args) != want {
		return nil, fmt.Errorf("%s takes %d arguments, not %d", name, want, len(c.args))
	}
	return c, nil
}

// Names lists the names a formula uses.
func (f Formula) Names() []string {
	var out []string
	var walk func(term)
	walk = func(t term) {
		switch t := t.(type) {
		case variable:
			out = append(out, string(t))
		case binary:
			walk(t.a)
			walk(t.b)
		case call:
			for _, a := range t.args {
				walk(a)
			}
		}
	}
	if f.root != nil {
		walk(f.root)
	}
	return out
}
