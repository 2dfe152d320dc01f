package harvest

import (
	"math"
	"time"

	"gleaner/cluster"
)

const (
	levels   = 40                  // of use in a Past: steps of 2.5% of the server
	halfLife = 12 * time.Hour      // after which a level counts half (as Koordinator's CPU histogram)
	rebase   = 40 * 12 * time.Hour // after which weights are scaled down, long before they overflow
)

// A Past is a histogram of the CPU that a server's primary tenant has used, in
// which older times count less. Policies without classes decide by it.
type Past struct {
	weight [levels]float32 // float32 for half the memory: a core visits those of thousands of servers
	sum    float64
	since  time.Time // what the weights are relative to
	at     time.Time // of the last report
	level  int       // of use since then
}

// Note records that the primary uses share of its server from at on; until then
// its use counts as in the last report.
func (p *Past) Note(at time.Time, share float64) {
	if p.since.IsZero() {
		p.since, p.at = at, at.Add(-time.Minute) // a first report counts for a minute, so that percentiles exist
		p.level = levelOf(share)
	}
	if held := at.Sub(p.at); held > 0 {
		age := at.Sub(p.since)
		if age > rebase {
			p.fade(age)
			p.since, age = at, 0
		}
		w := held.Seconds() * math.Exp2(float64(age)/float64(halfLife))
		p.weight[p.level] += float32(w)
		p.sum += w
	}
	p.at, p.level = at, levelOf(share)
}

func (p *Past) fade(age time.Duration) {
	by := math.Exp2(-float64(age) / float64(halfLife))
	for i := range p.weight {
		p.weight[i] *= float32(by)
	}
	p.sum *= by
}

// levelOf is the level whose upper edge is next above share.
func levelOf(share float64) int {
	return min(max(int(math.Ceil(share*levels-1e-9))-1, 0), levels-1)
}

func edge(level int) float64 { return float64(level+1) / levels }

// Percentile is the share of the server that the primary did not exceed for a
// part q of the time.
func (p *Past) Percentile(q float64) float64 {
	left := q * p.sum
	for i, w := range p.weight {
		if left -= float64(w); left <= 0 && w > 0 {
			return edge(i)
		}
	}
	return edge(levels - 1)
}

// Sigma is the mean share and its standard deviation.
func (p *Past) Sigma() (mean, deviation float64) {
	if p.sum == 0 {
		return 0, 0
	}
	var first, second float64
	for i, w := range p.weight {
		first += float64(w) * edge(i)
		second += float64(w) * edge(i) * edge(i)
	}
	mean = first / p.sum
	return mean, math.Sqrt(max(second/p.sum-mean*mean, 0))
}

// steadyFor is the default of Options.Steady.
const steadyFor = 30 * time.Minute

// recent is the highest use in the current stretch of time and the one before
// it: that is, of the last steady to twice steady.
type recent struct {
	since        time.Time
	now, earlier cluster.Resources
}

func (r *recent) note(at time.Time, use cluster.Resources, steady time.Duration) {
	if age := at.Sub(r.since); age >= steady {
		if r.earlier = r.now; age >= 2*steady {
			r.earlier = cluster.Resources{}
		}
		r.now, r.since = use, at
	}
	r.now = r.now.Max(use)
}

func (r *recent) highest() cluster.Resources { return r.now.Max(r.earlier) }
