package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gleaner/plan"
)

// Failures are the sets of servers, or of zones, that may fail at once. Servers of one kind are
// alike: a set is how many of each kind.
type Failures struct {
	Sets  int // that there are; 0 if the SLA does not say that any may fail
	Tried int
}

// mostSets is how many sets of failures are simulated. If there are more, those are tried that take
// most of each task and of each dataset.
const mostSets = 50

// lost names what cannot fail, though the SLA says so: the others do not meet the rest of it.
func lost(in plan.Input, c Config, rng *rand.Rand) ([]string, Failures) {
	if z := in.SLA.Zones; z.Number > 0 {
		return without(in, c.withoutZones(in), rng, fmt.Sprintf("with %d of %d zones lost, ", z.Failed, z.Number)), Failures{1, 1}
	}
	if in.SLA.Survive == 0 {
		return nil, Failures{}
	}
	number := c.sets(in.SLA.Survive)
	tried := c.all(in.SLA.Survive)
	if number > mostSets {
		tried = c.worst(in, in.SLA.Survive)
	}
	var out []string
	for _, set := range tried {
		out = append(out, without(in, c.minus(in, set), rng, c.words(set))...)
	}
	return out, Failures{number, len(tried)}
}

// countless is more sets than anybody counts.
const countless = 1_000_000_000

// sets is how many sets of f servers there are, of each kind no more than there is of it.
func (c Config) sets(f int) int {
	ways := make([]int, f+1) // to choose so many of the kinds so far
	ways[0] = 1
	for _, s := range c.Servers {
		next := make([]int, f+1)
		for n := range next {
			for k := 0; k <= min(n, s.Count); k++ {
				next[n] = min(countless, next[n]+ways[n-k])
			}
		}
		ways = next
	}
	return max(1, ways[f]) // all, if there are fewer than f
}

// all are the first sets of f servers, as numbers of each kind, and no more than are tried.
func (c Config) all(f int) [][]int {
	servers := 0
	for _, s := range c.Servers {
		servers += s.Count
	}
	var out [][]int
	set := make([]int, len(c.Servers))
	var choose func(i, left int)
	choose = func(i, left int) {
		switch {
		case len(out) == mostSets:
		case left == 0:
			out = append(out, slices.Clone(set))
		case i < len(set):
			for k := min(left, c.Servers[i].Count); k >= 0; k-- {
				set[i] = k
				choose(i+1, left-k)
			}
			set[i] = 0
		}
	}
	choose(0, min(f, servers))
	return out
}

// worst are the sets of f servers that have most of each task and of each dataset, and those of one kind.
func (c Config) worst(in plan.Input, f int) [][]int {
	var out [][]int
	add := func(order []int) {
		set, left := make([]int, len(c.Servers)), f
		for _, i := range order {
			set[i] = min(left, c.Servers[i].Count)
			left -= set[i]
		}
		if !slices.ContainsFunc(out, func(other []int) bool { return slices.Equal(other, set) }) {
			out = append(out, set)
		}
	}
	kinds := make([]int, len(c.Servers))
	for i := range kinds {
		kinds[i] = i
	}
	for _, l := range c.loads(in) {
		add(slices.SortedStableFunc(slices.Values(kinds), func(a, b int) int {
			switch x, y := l.part(c.Servers[a]), l.part(c.Servers[b]); {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		}))
	}
	for i := range kinds {
		if len(out) < mostSets && c.Servers[i].Count >= f {
			add([]int{i})
		}
	}
	return out
}

// minus is a cluster without some servers of each kind.
func (c Config) minus(in plan.Input, set []int) Config {
	out := c.clone()
	for i, n := range set {
		out.Servers[i].Count -= n
	}
	out.left = map[string]float64{}
	for _, l := range c.loads(in) {
		if d := l.dataset; d != nil && !l.cache && d.Replicas > in.SLA.Survive { // others are filled again
			out.left[d.Name] = l.all(out) / l.all(c)
		}
	}
	return out
}

// withoutZones is a cluster without the zones that fail. Zones are alike.
func (c Config) withoutZones(in plan.Input) Config {
	z := in.SLA.Zones
	out := c.clone()
	out.left = map[string]float64{}
	for _, d := range in.App.Datasets {
		out.left[d.Name] = 1 - float64(z.Failed)/float64(z.Number)
	}
	for i := range out.Servers {
		s := &out.Servers[i]
		s.Count = s.Count / z.Number * (z.Number - z.Failed)
	}
	return out
}

// words say which servers a set takes away.
func (c Config) words(set []int) string {
	var parts []string
	for i, n := range set {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d of server %d", n, c.number(i)))
		}
	}
	return "with " + strings.Join(parts, " and ") + " lost, "
}

// without names what a cluster that lost something does not do.
func without(in plan.Input, left Config, rng *rand.Rand, name string) []string {
	if what := orphan(in, left); what != "" {
		return []string{name + what + " is nowhere"}
	}
	r := simulate(in, left, rng)
	if len(r.Shortages) > 0 {
		return []string{name + r.Shortages[0]}
	}
	if r.Share < Enough {
		return []string{fmt.Sprintf("%s%.1f%% of it", name, 100*r.Share)}
	}
	if len(r.Over) > 0 {
		return []string{name + r.Over[0]}
	}
	if slow := slow(latencies(in, left, rng)); len(slow) > 0 {
		return []string{name + slow[0]}
	}
	return nil
}

// orphan names a task or a dataset that has no instance or unit left; it is empty if
// all have.
func orphan(in plan.Input, c Config) string {
	for _, t := range plan.NeedsOf(in, c.architecture(in), c.seconds(in)).Tasks {
		name, there := in.App.Tasks[t.Task].Name, false
		for _, s := range c.Servers {
			there = there || s.Count*s.Tasks[name] > 0
		}
		if !there {
			return "task " + name
		}
	}
	for _, l := range c.loads(in) {
		if l.dataset != nil && l.all(c) == 0 {
			return "dataset " + l.dataset.Name
		}
	}
	return ""
}
