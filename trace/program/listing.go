package program

import (
	"fmt"
	"iter"
	"strings"
)

// Listing is the program as people read it: for every type of node the calls it makes, with its loops, in the
// order in which it makes them.
func (p *Program) Listing() string {
	var l listing
	for i := range p.Types {
		l.nodeType(&p.Types[i])
	}
	return strings.TrimSuffix(l.String(), "\n")
}

// A listing is written line by line.
type listing struct {
	strings.Builder
	depth int
}

func (l *listing) say(format string, args ...any) {
	l.WriteString(strings.Repeat("    ", l.depth))
	fmt.Fprintf(l, format, args...)
	l.WriteByte('\n')
}

// within writes what belongs to the line before.
func (l *listing) within(write func()) {
	l.depth++
	write()
	l.depth--
}

func (l *listing) nodeType(t *NodeType) {
	calls := map[string]*Call{}
	for i := range t.Calls {
		calls[t.Calls[i].Name] = &t.Calls[i]
	}
	l.say("%s: %s nodes, each called %s%s", t.Name, t.Nodes, t.Sender, orElse(t.Also))
	l.within(func() {
		if s := t.Start; s != nil {
			l.say("starts %s ms after %s of %s", s.Wait, s.After, strings.Join(strings.Fields(who(s.Share)+" "+s.Of), " "))
		}
		l.steps(t.Steps, calls)
		for _, beat := range t.Beats {
			l.say("meanwhile, every %s ms:", beat.Every)
			l.within(func() { l.step(beat, calls) })
		}
		if len(t.Aside) > 0 {
			l.say("in no order:")
			l.within(func() { l.steps(t.Aside, calls) })
		}
		if t.Leaves {
			l.say("leaves")
		}
		for i := range t.Reactions {
			l.reaction(&t.Reactions[i])
		}
	})
	l.WriteByte('\n')
}

func (l *listing) reaction(r *Reaction) {
	l.say("when %s in a reply to %s:", r.When(), strings.Join(r.To, ", "))
	l.within(func() {
		for _, c := range r.Calls {
			again := "again"
			if c.All {
				again = "all that were made, again"
			}
			l.say("%s %s", c.Call, again)
		}
		if r.Again {
			l.say("the same call again")
		}
	})
}

// orElse are other formulas that fit as well.
func orElse(also []Formula) string {
	if len(also) == 0 {
		return ""
	}
	texts := make([]string, len(also))
	for i, f := range also {
		texts[i] = f.String()
	}
	return " (or " + strings.Join(texts, ", ") + ")"
}

// who are the nodes of a share.
func who(share float64) string {
	switch share {
	case 0:
		return "the first"
	case 1:
		return "all"
	}
	return fmt.Sprintf("%.3g%%", 100*share)
}

func (l *listing) steps(all []Step, calls map[string]*Call) {
	for _, s := range all {
		l.step(s, calls)
	}
}

func (l *listing) step(s Step, calls map[string]*Call) {
	by := ""
	if s.Share > 0 && s.Share < 1 {
		by = fmt.Sprintf(", by %s of the nodes", who(s.Share))
	}
	if s.Repeat != nil {
		l.say("repeat %s times%s%s:", s.Repeat, orElse(s.Also), by)
		l.depth++
		defer func() { l.depth-- }()
		by = ""
	}
	if c := calls[s.Call]; c != nil {
		l.call(c, by)
	}
	l.steps(s.Steps, calls)
}

func (l *listing) call(c *Call, by string) {
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = a.Path + ": " + a.Value.String()
	}
	l.say("%s %s.%s(%s)%s", c.Name, c.Target, c.Method, strings.Join(args, ", "), by)
	l.within(func() {
		if u := c.Until; u != nil {
			l.say("until %s of the reply is %s", u.Path, u.Value)
		}
		for _, j := range c.Joins {
			if j.Same != "" {
				l.say("not before %s with the same %s had an answer", j.After, j.Same)
				continue
			}
			l.say("not before %s had an answer to %s", who(j.Share), j.After)
		}
		for _, r := range c.Reach {
			l.say("by %s nodes for each %s", r.Nodes, r.From)
		}
	})
}

// A Coverage is how the arguments of the calls to a target are known.
type Coverage struct {
	Target                         string
	Constant, Regular, Flow, Asked int // Asked are those that somebody must fill in
}

// Total is the number of all arguments.
func (c Coverage) Total() int { return c.Constant + c.Regular + c.Flow + c.Asked }

// Coverage counts the arguments of all calls, by target in the order in which they come.
func (p *Program) Coverage() []Coverage {
	var all []Coverage
	at := map[string]int{}
	for c := range p.EachCall() {
		i, known := at[c.Target]
		if !known {
			i = len(all)
			at[c.Target] = i
			all = append(all, Coverage{Target: c.Target})
		}
		for _, a := range c.Args {
			all[i].add(a.Value)
		}
	}
	return all
}

func (c *Coverage) add(value Template) {
	switch {
	case value.Asks():
		c.Asked++
	case value.fromPast():
		c.Flow++
	case len(value.Holes()) > 0:
		c.Regular++
	default:
		c.Constant++
	}
}

// EachCall gives the calls of all types.
func (p *Program) EachCall() iter.Seq[*Call] {
	return func(yield func(*Call) bool) {
		for i := range p.Types {
			for k := range p.Types[i].Calls {
				if !yield(&p.Types[i].Calls[k]) {
					return
				}
			}
		}
	}
}

// Asks reports whether a value is made up or drawn, at least where nothing better is found: someone who knows should fill it in.
func (t Template) Asks() bool {
	for a := range t.Alts() {
		switch a.(type) {
		case Draw, Unknown:
			return true
		}
	}
	return false
}

// fromPast reports whether an alternative of the value comes from an earlier call.
func (t Template) fromPast() bool {
	for a := range t.Alts() {
		if _, ok := a.(*Past); ok {
			return true
		}
	}
	return false
}

// Made is how many calls the nodes of a type make at a scale, beside those at regular intervals.
func (t *NodeType) Made(n int) float64 {
	vars := Vars{N: float64(n)}
	var made func(steps []Step) float64
	made = func(steps []Step) (sum float64) {
		for _, s := range steps {
			one := made(s.Steps)
			if s.Call != "" {
				one++
			}
			if s.Repeat != nil {
				one *= max(0, s.Repeat.Eval(vars))
			}
			if s.Share > 0 {
				one *= s.Share
			}
			sum += one
		}
		return sum
	}
	return max(0, t.Nodes.Eval(vars)) * (made(t.Steps) + made(t.Aside))
}
