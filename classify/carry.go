package classify

import (
	"gleaner/cluster"
)

// Carried says how well one window's classes held in the next.
type Carried struct {
	Tenants int // judged in both windows
	Kept    int // of these, with the same pattern in both
	Samples int // of the next window, of tenants that had a class before
	Under   int // of these, at or below the peak of that class
}

// UnderShare is the share of the samples at or below their class's peak.
func (c Carried) UnderShare() float64 { return float64(c.Under) / float64(max(c.Samples, 1)) }

// KeptShare is the share of the tenants that kept their pattern.
func (c Carried) KeptShare() float64 { return float64(c.Kept) / float64(max(c.Tenants, 1)) }

// Carry compares the next window's series with the classes found before, and
// its tenants' patterns with those of next, the result of Run on it.
func Carry(before, next Result, series []cluster.Series) Carried {
	peak := map[string]float64{}
	for _, c := range before.Classes {
		peak[c.ID] = c.Peak
	}
	was := map[cluster.TenantID]Tenant{}
	for _, t := range before.Tenants {
		was[t.ID] = t
	}
	var out Carried
	for _, t := range next.Tenants {
		if old, ok := was[t.ID]; ok {
			out.Tenants++
			if old.Pattern == t.Pattern {
				out.Kept++
			}
		}
	}
	for _, s := range series {
		if old, ok := was[s.Tenant]; ok {
			out.count(s.CPU, float32(peak[old.Class]))
		}
	}
	return out
}

func (c *Carried) count(cpu []float32, peak float32) {
	for _, v := range cpu {
		if v == v {
			c.Samples++
		}
		if v <= peak {
			c.Under++
		}
	}
}
