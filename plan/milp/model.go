package milp

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"gleaner/plan/pack"
)

// Variables of server k: s<k>_<type> whether it is of a type, i<k>_<item> and
// p<k>_<purchase> how many of each it holds, g<k>_<group> whether it is for a
// group.
func variable(kind byte, k, of int) string { return fmt.Sprintf("%c%d_%d", kind, k, of) }

// An lpFile is an integer program being written in the LP format that HiGHS
// and CBC both read.
type lpFile struct{ bytes.Buffer }

// term writes one summand. A line holds a single one: CBC refuses long lines.
func (m *lpFile) term(coefficient float64, name string) {
	if coefficient != 0 {
		fmt.Fprintf(m, " %+.12g %s\n", coefficient, name)
	}
}

// model writes the integer program of p over n single servers.
func model(p pack.Problem, n int) []byte {
	m := &lpFile{}
	groups := groups(p)
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
	for i, it := range p.Items {
		fmt.Fprintf(m, "item%d:\n", i)
		for k := range n {
			m.term(1, variable('i', k, i))
		}
		fmt.Fprintf(m, " = %d\n", it.Count)
	}
	for k := range n {
		m.server(p, k)
		m.apart(p, groups, k)
		if k > 0 {
			m.before(p, k)
		}
	}
	m.kinds(p, groups, n)
	return m.Bytes()
}

// groups lists the groups of a problem; more than one keep apart.
func groups(p pack.Problem) []string {
	var out []string
	for _, it := range p.Items {
		if it.Group != "" && it.Count > 0 && !slices.Contains(out, it.Group) {
			out = append(out, it.Group)
		}
	}
	return out
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
		scale := 0.0 // rows of like size are kinder to a solver's tolerances
		for _, it := range p.Items {
			scale = max(scale, it.Demand[r])
		}
		for _, buy := range p.Purchases {
			scale = max(scale, math.Abs(buy.Change[r]))
		}
		if scale == 0 {
			continue
		}
		fmt.Fprintf(m, "resource%d_%d:\n", k, r)
		for i, it := range p.Items {
			m.term(it.Demand[r]/scale, variable('i', k, i))
		}
		for b, buy := range p.Purchases {
			m.term(-buy.Change[r]/scale, variable('p', k, b))
		}
		for s, server := range p.Servers {
			m.term(-server.Capacity[r]/scale, variable('s', k, s))
		}
		m.WriteString(" <= 0\n")
	}
	for i, it := range p.Items { // an item that takes nothing still needs a server
		fmt.Fprintf(m, "hosted%d_%d: %s\n", k, i, variable('i', k, i))
		for s := range p.Servers {
			m.term(-float64(max(1, it.Count)), variable('s', k, s))
		}
		m.WriteString(" <= 0\n")
	}
}

// apart writes that server k is for one group at most.
func (m *lpFile) apart(p pack.Problem, groups []string, k int) {
	if len(groups) < 2 {
		return
	}
	fmt.Fprintf(m, "group%d:\n", k)
	for g := range groups {
		m.term(1, variable('g', k, g))
	}
	m.WriteString(" <= 1\n")
	for i, it := range p.Items {
		if g := slices.Index(groups, it.Group); g >= 0 {
			fmt.Fprintf(m, "ingroup%d_%d: %s\n", k, i, variable('i', k, i))
			m.term(-float64(it.Count), variable('g', k, g))
			m.WriteString(" <= 0\n")
		}
	}
}

// before writes that server k is not used before the one before it: servers
// are alike, and their order means nothing.
func (m *lpFile) before(p pack.Problem, k int) {
	fmt.Fprintf(m, "order%d:\n", k)
	for s := range p.Servers {
		m.term(1, variable('s', k-1, s))
		m.term(-1, variable('s', k, s))
	}
	m.WriteString(" >= 0\n")
}

// kinds writes which variables are whole and which are yes or no.
func (m *lpFile) kinds(p pack.Problem, groups []string, n int) {
	m.WriteString("General\n")
	for k := range n {
		for i := range p.Items {
			fmt.Fprintf(m, " %s\n", variable('i', k, i))
		}
		for b := range p.Purchases {
			fmt.Fprintf(m, " %s\n", variable('p', k, b))
		}
	}
	m.WriteString("Binary\n")
	for k := range n {
		for s := range p.Servers {
			fmt.Fprintf(m, " %s\n", variable('s', k, s))
		}
		if len(groups) > 1 {
			for g := range groups {
				fmt.Fprintf(m, " %s\n", variable('g', k, g))
			}
		}
	}
	m.WriteString("End\n")
}

// contents reads the servers out of the values of a model's variables.
func contents(p pack.Problem, n int, values map[string]float64) []pack.Content {
	whole := func(kind byte, k, of int) int { return int(math.Round(values[variable(kind, k, of)])) }
	var out []pack.Content
	for k := range n {
		for s := range p.Servers {
			if whole('s', k, s) == 0 {
				continue
			}
			c := pack.Content{Server: s, Count: 1}
			for i := range p.Items {
				c.Items = append(c.Items, whole('i', k, i))
			}
			for b := range p.Purchases {
				c.Bought = append(c.Bought, whole('p', k, b))
			}
			out = append(out, c)
		}
	}
	return out
}
