package milp

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"gleaner/plan/pack"
)

// Variables of server k: s<k>_<type> is whether it is of a type, y<k>_<load> how
// much it holds of each load and p<k>_<purchase> how many of each purchase.
// o<choice>_<option> is whether an option is taken.
func variable(kind byte, k, of int) string { return fmt.Sprintf("%c%d_%d", kind, k, of) }

// An lpFile is an integer program being written in the LP format that HiGHS
// and CBC both read.
type lpFile struct{ bytes.Buffer }

// term writes one summand on a line of its own: CBC refuses long lines.
func (m *lpFile) term(coefficient float64, name string) {
	if coefficient != 0 {
		fmt.Fprintf(m, " %+.12g %s\n", coefficient, name)
	}
}

// model writes the integer program of p over n single servers.
func model(p pack.Problem, n int) []byte {
	m := &lpFile{}
	m.WriteString("Minimize\n cost:\n")
	for k := range n {
		for s, server := range p.Servers {
			m.term(server.Cost, variable('s', k, s))
		}
		for b, buy := range p.Purchases {
			m.term(buy.Cost, variable('p', k, b))
		}
	}
	m.WriteString("Subject To\n")
	for i, l := range p.Loads {
		m.hosted(p, i, l, n)
	}
	for c, choice := range p.Choices {
		fmt.Fprintf(m, "choice%d:\n", c)
		for o := range choice.Options {
			m.term(1, variable('o', c, o))
		}
		m.WriteString(" = 1\n")
	}
	for k := range n {
		m.server(p, k)
		if k > 0 {
			m.before(p, k)
		}
	}
	for i, l := range p.Limits {
		m.limit(p, i, l, n)
	}
	m.kinds(p, n)
	return m.Bytes()
}

// hosted writes that a load is hosted in full, if its option is taken.
func (m *lpFile) hosted(p pack.Problem, i int, l pack.Load, n int) {
	fmt.Fprintf(m, "load%d:\n", i)
	for k := range n {
		m.term(1, variable('y', k, i))
	}
	optional := false
	for c, choice := range p.Choices {
		for o, option := range choice.Options {
			if slices.Contains(option.Loads, i) {
				m.term(-l.Amount, variable('o', c, o))
				optional = true
			}
		}
	}
	if optional {
		m.WriteString(" = 0\n")
	} else {
		fmt.Fprintf(m, " = %.12g\n", l.Amount)
	}
}

// server writes that server k is of one type at most, and that what is in it
// takes no more of any resource than there is.
func (m *lpFile) server(p pack.Problem, k int) {
	fmt.Fprintf(m, "type%d:\n", k)
	for s := range p.Servers {
		m.term(1, variable('s', k, s))
	}
	m.WriteString(" <= 1\n")
	for r := range p.Resources {
		scale := 0.0 // rows of similar size suit a solver's tolerances
		for _, l := range p.Loads {
			scale = max(scale, math.Abs(l.Demand[r]))
		}
		for _, buy := range p.Purchases {
			scale = max(scale, math.Abs(buy.Change[r]))
		}
		if scale == 0 {
			continue
		}
		fmt.Fprintf(m, "resource%d_%d:\n", k, r)
		for i, l := range p.Loads {
			m.term(l.Demand[r]/scale, variable('y', k, i))
		}
		for b, buy := range p.Purchases {
			m.term(-buy.Change[r]/scale, variable('p', k, b))
		}
		for s, server := range p.Servers {
			m.term(-server.Capacity[r]/scale, variable('s', k, s))
		}
		m.WriteString(" <= 0\n")
	}
	for i, l := range p.Loads { // a load that takes nothing still needs a server
		fmt.Fprintf(m, "on%d_%d: %s\n", k, i, variable('y', k, i))
		for s := range p.Servers {
			m.term(-l.Amount, variable('s', k, s))
		}
		m.WriteString(" <= 0\n")
	}
}

// limit writes that all servers together keep a limit.
func (m *lpFile) limit(p pack.Problem, i int, l pack.Limit, n int) {
	fmt.Fprintf(m, "limit%d:\n", i)
	for k := range n {
		for s := range p.Servers {
			m.term(l.Servers[s], variable('s', k, s))
		}
		for b := range p.Purchases {
			m.term(l.Purchases[b], variable('p', k, b))
		}
	}
	sense := "<="
	if l.Least {
		sense = ">="
	}
	fmt.Fprintf(m, " %s %.12g\n", sense, l.Bound)
}

// before writes that server k is used only if server k-1 is: servers are alike, and
// their order means nothing.
func (m *lpFile) before(p pack.Problem, k int) {
	fmt.Fprintf(m, "order%d:\n", k)
	for s := range p.Servers {
		m.term(1, variable('s', k-1, s))
		m.term(-1, variable('s', k, s))
	}
	m.WriteString(" >= 0\n")
}

// kinds writes which variables are whole and which are yes or no.
func (m *lpFile) kinds(p pack.Problem, n int) {
	m.WriteString("General\n")
	for k := range n {
		for b := range p.Purchases {
			fmt.Fprintf(m, " %s\n", variable('p', k, b))
		}
	}
	m.WriteString("Binary\n")
	for k := range n {
		for s := range p.Servers {
			fmt.Fprintf(m, " %s\n", variable('s', k, s))
		}
	}
	for c, choice := range p.Choices {
		for o := range choice.Options {
			fmt.Fprintf(m, " %s\n", variable('o', c, o))
		}
	}
	m.WriteString("End\n")
}

// contents reads the servers, and which options are taken, out of the values
// of a model's variables.
func contents(p pack.Problem, n int, values map[string]float64) (servers []pack.Content, taken []int) {
	whole := func(kind byte, k, of int) int { return int(math.Round(values[variable(kind, k, of)])) }
	for k := range n {
		for s := range p.Servers {
			if whole('s', k, s) == 0 {
				continue
			}
			c := pack.Content{Server: s, Count: 1}
			for i := range p.Loads {
				c.Loads = append(c.Loads, values[variable('y', k, i)])
			}
			for b := range p.Purchases {
				c.Bought = append(c.Bought, whole('p', k, b))
			}
			servers = append(servers, c)
		}
	}
	for c, choice := range p.Choices {
		for o := range choice.Options {
			if whole('o', c, o) == 1 {
				taken = append(taken, o)
			}
		}
	}
	return servers, taken
}
