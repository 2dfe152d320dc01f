package classify

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gleaner/cluster"
)

// The constants of samples and classes; doc.go gives the reason for each.
const (
	minWindow    = 3 * day
	minSamples   = 48
	peakQuantile = 0.99 // of a tenant's samples
	peakMembers  = 0.95 // of a class's servers

	defaultMaxClasses = 15
	octaveWeight      = 0.2 // utilisation that a factor of two in the period counts for
)

// Options of Run. The zero value is ready to use.
type Options struct {
	Seed       uint64 // of the K-Means++ starts
	MaxClasses int    // for each pattern; 15 if unset
}

// A Result is what Run found. Tenants and Skipped are in order of ID, Classes
// in the order of cluster.Patterns and then of their numbers.
type Result struct {
	Tenants []Tenant
	Classes []cluster.Class
	Skipped []Skipped
}

// A Tenant has been put into a class.
type Tenant struct {
	ID       cluster.TenantID
	Servers  int
	Class    string // the ID of its class
	Pattern  cluster.Pattern
	Mean     float64       // average utilisation, 0 to 1
	Peak     float64       // utilisation that its average server exceeds 1% of the time, or reaches in every cycle if that is more
	Period   time.Duration // 0 unless periodic
	Evidence Evidence
}

// A Skipped tenant has too few samples to be judged.
type Skipped struct {
	ID     cluster.TenantID
	Reason string
}

// Run finds the pattern of every series and groups the tenants of each pattern
// into classes. The order of the series does not matter. It panics if a series
// is not as long as the window.
func Run(w cluster.Window, series []cluster.Series, o Options) Result {
	series = slices.Clone(series)
	slices.SortFunc(series, func(a, b cluster.Series) int { return cmp.Compare(a.Tenant, b.Tenant) })
	var result Result
	var profiles []point
	a := newAnalyst(w)
	for _, s := range series {
		tenant, profile, reason := a.tenant(s)
		if reason != "" {
			result.Skipped = append(result.Skipped, Skipped{s.Tenant, reason})
			continue
		}
		result.Tenants = append(result.Tenants, tenant)
		profiles = append(profiles, profile)
	}
	for _, p := range cluster.Patterns {
		result.Classes = append(result.Classes, classes(p, result.Tenants, profiles, o)...)
	}
	return result
}

// tenant judges one series, or returns the reason why it cannot.
func (a *analyst) tenant(s cluster.Series) (Tenant, point, string) {
	if len(s.CPU) != a.window.Len {
		panic(fmt.Sprintf("classify: %s has %d samples in a window of %d", s.Tenant, len(s.CPU), a.window.Len))
	}
	b := &a.fine
	sum := b.read(a.window, s.CPU)
	if reason := tooFew(a.window, sum.filled); reason != "" {
		return Tenant{}, nil, reason
	}
	pattern, evidence := a.decide(b, &sum, s.CPU)
	t := Tenant{
		ID: s.Tenant, Servers: s.Servers, Pattern: pattern, Evidence: evidence,
		Mean: sum.mean, Peak: sum.quantile(peakQuantile),
	}
	if pattern == cluster.Periodic {
		t.Period = evidence.Period
		cycle := t.Period
		if evidence.Weekend { // days off would lower the mean of a working day
			cycle = week
		}
		t.Peak = max(t.Peak, a.folder.highest(s.CPU, float64(cycle)/float64(a.window.Step)))
	}
	return t, a.profile(b, t), ""
}

// tooFew returns the reason why the samples in the window do not suffice; empty if they do.
func tooFew(w cluster.Window, filled int) string {
	length := w.To().Sub(w.From)
	switch {
	case filled == 0:
		return "no samples"
	case length < minWindow:
		return fmt.Sprintf("a window of %s: at least %s are needed", span(length), span(minWindow))
	case filled < minSamples:
		return fmt.Sprintf("%d samples: at least %d are needed", filled, minSamples)
	case 2*filled < w.Len:
		return fmt.Sprintf("%d of %d samples (%.0f%%): at least half are needed", filled, w.Len, 100*float64(filled)/float64(w.Len))
	}
	return ""
}

// profile is the point by which tenants of one pattern are compared: mean, peak,
// and variation by frequency, all in utilisation; for periodic ones also the
// phase and the length of the cycle.
func (a *analyst) profile(b *bins, t Tenant) point {
	p := point{t.Mean, t.Peak}
	p = append(p, a.spectrum.octaves(b.step)...)
	if t.Pattern != cluster.Periodic {
		return p
	}
	f := a.folder.fold(b, t.Period)
	re, im := a.folder.harmonic(1, f.slots)
	return append(p, re, im, octaveWeight*math.Log2(t.Period.Hours()))
}

// classes groups the tenants of one pattern and writes the class's ID into each.
func classes(pattern cluster.Pattern, tenants []Tenant, profiles []point, o Options) []cluster.Class {
	var members []int
	var points []point
	for i, t := range tenants {
		if t.Pattern == pattern {
			members = append(members, i)
			points = append(points, profiles[i])
		}
	}
	if len(members) == 0 {
		return nil
	}
	g := group(points, cmp.Or(o.MaxClasses, defaultMaxClasses), rand.New(rand.NewPCG(o.Seed, uint64(pattern))))
	of := make([][]int, len(g.centre))
	for i, c := range g.of {
		of[c] = append(of[c], members[i])
	}
	of = slices.DeleteFunc(of, func(m []int) bool { return len(m) == 0 })
	out := make([]cluster.Class, len(of))
	for i, m := range of {
		out[i] = class(pattern, tenants, m)
	}
	slices.SortFunc(out, func(a, b cluster.Class) int {
		return cmp.Or(cmp.Compare(a.Period, b.Period), cmp.Compare(a.Mean, b.Mean), cmp.Compare(a.Tenants[0], b.Tenants[0]))
	})
	name(out, tenants)
	return out
}

// name numbers the classes and writes their IDs into their tenants.
func name(classes []cluster.Class, tenants []Tenant) {
	class := map[cluster.TenantID]string{}
	for i := range classes {
		c := &classes[i]
		c.ID = fmt.Sprintf("%s-%d", c.Pattern, i+1)
		for _, t := range c.Tenants {
			class[t] = c.ID
		}
	}
	for i, t := range tenants {
		if id, ok := class[t.ID]; ok {
			tenants[i].Class = id
		}
	}
}

// class summarises its members.
func class(pattern cluster.Pattern, tenants []Tenant, members []int) cluster.Class {
	c := cluster.Class{Pattern: pattern}
	var peaks, periods []weighed
	sum, weight, highest := 0.0, 0.0, 0.0
	for _, i := range members {
		t := tenants[i]
		highest = max(highest, t.Mean)
		w := float64(max(t.Servers, 1))
		c.Tenants = append(c.Tenants, t.ID)
		c.Servers += t.Servers
		sum, weight = sum+w*t.Mean, weight+w
		peaks = append(peaks, weighed{t.Peak, w})
		periods = append(periods, weighed{float64(t.Period), w})
	}
	c.Mean = sum / weight
	c.Peak = max(quantile(peaks, peakMembers), highest)
	c.Period = time.Duration(quantile(periods, 0.5))
	return c
}

type weighed struct{ value, weight float64 }

// quantile returns the value that a share q of the weight does not exceed.
func quantile(v []weighed, q float64) float64 {
	slices.SortFunc(v, func(a, b weighed) int { return cmp.Compare(a.value, b.value) })
	total, seen := 0.0, 0.0
	for _, x := range v {
		total += x.weight
	}
	for _, x := range v {
		if seen += x.weight; seen >= q*total {
			return x.value
		}
	}
	return v[len(v)-1].value
}
