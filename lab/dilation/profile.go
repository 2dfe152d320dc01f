package dilation

import (
	"context"
	"time"

	model "gleaner/dilation"
)

// The ways to find a loading vector.
const (
	Identical  = "identical"  // copies of the job, at once (Algorithm 1)
	Probe      = "probe"      // the job beside a standard job of each resource (Property 3)
	Regression = "regression" // both, by least squares
)

// Methods lists them.
func Methods() []string { return []string{Identical, Probe, Regression} }

// ProfileOptions say how a job is profiled.
type ProfileOptions struct {
	Method    string
	Copies    int     // of the job, when it runs beside itself
	Tolerance float64 // the bounds of a share that are tight enough
	Least     int     // rounds at least
	Most      int     // rounds at most
}

// A Share is what was found of one resource.
type Share struct {
	Resource string  `json:"resource"`
	Share    float64 `json:"share"`
	Low      float64 `json:"low"` // bounds with a confidence of 95%
	High     float64 `json:"high"`
}

// A Profile is what was found of a job.
type Profile struct {
	Method string   `json:"method"`
	Cores  int      `json:"cores"`
	Alone  Seconds  `json:"alone_s"` // how long it takes
	Load   []Share  `json:"load"`
	Other  *float64 `json:"other_root,omitempty"` // the other root of the share of cpu, which explains the times as well
	Told   string   `json:"told_by,omitempty"`    // what decided between the two roots; empty: nothing did
	CPU    float64  `json:"kernel_cpu"`           // from the kernel, for the job alone: share of its time on a core
	IO     float64  `json:"kernel_io"`            // share in which something on the machine was stalled for the disk; negative: not reported
	Rounds int      `json:"rounds"`
	Tight  bool     `json:"tight"` // the bounds are within the tolerance
}

// Vector is the loading vector.
func (p *Profile) Vector() model.Vector {
	v := make(model.Vector, len(p.Load))
	for i, s := range p.Load {
		v[i] = s.Share
	}
	return v
}

// Seconds is a length of time that is written as seconds.
type Seconds float64

func seconds(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// sightings are the measurements of one job so far.
type sightings struct {
	alone    []time.Duration
	factors  [][]float64 // beside probes of each resource, and last beside copies of itself
	cpu, io  float64     // sums over the runs alone
	silent   bool        // the kernel does not report stalls
	observed []model.Observation
}

// Profile measures a job until the bounds of its loading vector are tight, or until
// the most rounds are done.
func (b *Bench) Profile(ctx context.Context, args []string, o ProfileOptions) (*Profile, error) {
	seen := &sightings{factors: make([][]float64, len(Resources())+1)}
	for {
		if err := b.round(ctx, args, o, seen); err != nil {
			return nil, err
		}
		p := b.conclude(o, seen)
		if p.Rounds >= o.Least && p.Tight || p.Rounds >= o.Most {
			return p, nil
		}
	}
}

// round measures the job once beside each kind of neighbour. Each factor compares
// times taken one after the other, so that slow changes of the machine do not matter.
func (b *Bench) round(ctx context.Context, args []string, o ProfileOptions, seen *sightings) error {
	alone, err := b.alone(ctx, args)
	if err != nil {
		return err
	}
	seen.alone = append(seen.alone, alone.Wall())
	seen.cpu += alone.CPU.Seconds() / alone.Wall().Seconds()
	seen.io += alone.Pressure.Seconds() / alone.Wall().Seconds()
	seen.silent = seen.silent || alone.Pressure < 0
	see := func(company int, took float64, beside ...int) {
		factor := took / alone.Wall().Seconds()
		seen.factors[company] = append(seen.factors[company], factor)
		seen.observed = append(seen.observed, model.Observation{Job: 0, Beside: beside, Factor: factor})
	}
	if o.Method != Identical {
		for i, k := range b.Machine() {
			took, err := b.beside(ctx, args, i)
			if err != nil {
				return err
			}
			probes := make([]int, k)
			for n := range probes {
				probes[n] = 1 + i
			}
			see(i, took.Wall().Seconds(), probes...)
		}
	}
	if o.Method != Probe {
		took, err := b.copies(ctx, args, o.Copies)
		if err != nil {
			return err
		}
		see(len(Resources()), took, make([]int, o.Copies-1)...)
	}
	return nil
}

func (b *Bench) conclude(o ProfileOptions, seen *sightings) *Profile {
	n := float64(len(seen.alone))
	p := &Profile{Method: o.Method, Cores: b.Machine()[0], Alone: seconds(median(append([]time.Duration{}, seen.alone...))), Rounds: len(seen.alone),
		CPU: seen.cpu / n, IO: seen.io / n}
	if seen.silent {
		p.IO = -1
	}
	var shares []model.Estimate
	switch o.Method {
	case Identical:
		shares = p.roots(b.Machine(), o.Copies, model.Estimated(seen.factors[len(Resources())]))
	case Probe:
		for i, k := range b.Machine() {
			shares = append(shares, b.Machine().Probed(i, k, model.Estimated(seen.factors[i])))
		}
	case Regression:
		known := []model.Vector{nil, {1, 0}, {0, 1}}
		shares = b.Machine().Fit(known, seen.observed)[0]
	}
	p.Tight = true
	for i, e := range shares {
		p.Tight = p.Tight && e.Tight(o.Tolerance)
		p.Load = append(p.Load, Share{Resources()[i], e.Mean, e.Low, e.High})
	}
	p.limit()
	return p
}

// roots chooses between the two roots by what the job alone waits for, according to
// the kernel.
func (p *Profile) roots(m model.Machine, copies int, factor model.Estimate) []model.Estimate {
	more, less := m.Roots(copies, factor)
	cpu, other := more, less
	if p.IO >= 0 && p.CPU+p.IO > 0 {
		p.Told = "the kernel's pressure figures"
		if cpu = model.Nearer(more, less, p.CPU/(p.CPU+p.IO)); cpu == less {
			other = more
		}
	}
	p.Other = &other.Mean
	io := model.Estimate{Mean: 1 - cpu.Mean, Low: 1 - cpu.High, High: 1 - cpu.Low, N: cpu.N}
	return []model.Estimate{cpu, io}
}

// limit scales down shares that add up to more than 1 because of noise.
func (p *Profile) limit() {
	for i, share := range model.Limited(p.Vector()) {
		p.Load[i].Share, p.Load[i].Low = share, min(p.Load[i].Low, share)
	}
}
