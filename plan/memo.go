package plan

import (
	"encoding/binary"
	"math"
	"slices"

	"gleaner/plan/pack"
)

// A memo keeps what was packed during a search. Tasks and remote data that
// share no server are packed apart, and what items cost by themselves does not
// matter to how they are packed, so many architectures ask for the same.
type memo map[string]packed

type packed struct {
	contents []pack.Content
	bound    float64 // of servers and purchases
	err      error
}

// packNeeds fills servers for needs, remembering what was packed before.
func (s *search) packNeeds(n Needs, whole pack.Problem) (pack.Solution, error) {
	if s.o.Colocate {
		return s.o.Pack(whole, pack.Options{Gap: s.o.Gap, Interrupt: s.o.Stop})
	}
	data, tasks := n, n
	data.Roles, tasks.Tiers = nil, nil
	var contents []pack.Content
	bound := 0.0
	for _, part := range []struct {
		needs Needs
		at    int // of its first item in the whole
	}{{data, 0}, {tasks, len(n.Tiers)}} {
		p := part.needs.Problem(s.in, false)
		if len(p.Items) == 0 {
			continue
		}
		got := s.remember(p)
		if got.err != nil {
			return pack.Solution{}, got.err
		}
		bound += got.bound
		for _, c := range got.contents {
			contents = append(contents, widen(c, p, whole, part.at))
		}
	}
	for _, it := range whole.Items {
		bound += it.Cost * float64(it.Count)
	}
	return whole.Assemble(contents, bound)
}

// remember packs a problem, or tells how it was packed before.
func (s *search) remember(p pack.Problem) packed {
	for i := range p.Items {
		p.Items[i].Cost = 0
	}
	key := signature(p)
	if got, ok := s.memo[key]; ok {
		return got
	}
	sol, err := s.o.Pack(p, pack.Options{Gap: s.o.Gap, Interrupt: s.o.Stop})
	got := packed{bound: sol.LowerBound, err: err}
	for _, f := range sol.Fillings {
		server := slices.IndexFunc(p.Servers, func(t pack.Server) bool { return t.Name == f.Server })
		got.contents = append(got.contents, pack.Content{Server: server, Count: f.Count, Items: f.Items, Bought: f.Bought})
	}
	s.memo[key] = got
	return got
}

// widen makes the content of a part's server one of the whole problem's.
func widen(c pack.Content, part, whole pack.Problem, at int) pack.Content {
	out := pack.Content{Server: c.Server, Count: c.Count, Items: make([]int, len(whole.Items)), Bought: make([]int, len(whole.Purchases))}
	copy(out.Items[at:], c.Items)
	for i, n := range c.Bought {
		name := part.Purchases[i].Name
		k := slices.IndexFunc(whole.Purchases, func(p pack.Purchase) bool { return p.Name == name })
		out.Bought[k] = n
	}
	return out
}

// signature spells out all that packing depends on.
func signature(p pack.Problem) string {
	var b []byte
	word := func(s string) { b = append(append(b, s...), 0) }
	number := func(x float64) { b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x)) }
	row := func(xs []float64) {
		for _, x := range xs {
			number(x)
		}
	}
	for _, r := range p.Resources {
		word(r)
	}
	for _, it := range p.Items {
		word(it.Name)
		number(float64(it.Count))
		row(it.Demand)
	}
	for _, u := range p.Purchases {
		word(u.Name)
		number(u.Cost)
		row(u.Change)
	}
	return string(b) // the servers are the same throughout a search
}
