package datacenter

import (
	"math"
	"math/rand/v2"
	"time"

	"gleaner/cluster"
)

// utilisation draws the series of every tenant's average server.
func (g *generator) utilisation() {
	g.d.series = make([][]uint16, len(g.d.Tenants))
	g.d.follows = g.d.Owner
	if g.d.Window.Len == 0 {
		return
	}
	for i := range g.d.Tenants {
		g.d.series[i] = g.series(g.chance("utilisation", i), g.d.Tenants[i].Pattern)
	}
}

func (g *generator) series(r *rand.Rand, pattern cluster.Pattern) []uint16 {
	u := g.Utilisation
	sigma := u.Spread.of(pattern)
	mean := u.Mean.of(pattern) * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
	mean = min(max(mean, 0.01), 0.85)
	level := g.constant(r)
	switch pattern {
	case cluster.Periodic:
		level = g.periodic(r)
	case cluster.Unpredictable:
		level = g.unpredictable(r)
	}
	out := make([]uint16, g.d.Window.Len)
	for i := range out {
		v := mean * level(i) * (1 + u.Noise*(r.Float64()+r.Float64()-1))
		out[i] = uint16(min(max(v, 0), 1)*math.MaxUint16 + 0.5)
	}
	return out
}

// periodic follows the day and the week (OSDI'16 §3.2, Fig 1a). The second
// harmonic makes the working day broader than the night.
func (g *generator) periodic(r *rand.Rand) func(slot int) float64 {
	u := g.Utilisation
	daily := min(u.Daily*g.Variation*math.Exp(0.25*r.NormFloat64()), 0.95)
	peak := u.PeakHour + u.PeakHourSigma*r.NormFloat64()
	weekend := min(u.Weekend*g.Variation*2*r.Float64(), 0.8)
	wander := g.wander(r, u.Wander)
	var day [24 * time.Hour / Slot]float64
	for i := range day {
		angle := 2 * math.Pi * ((time.Duration(i) * Slot).Hours() - peak) / 24
		day[i] = 1 + daily*(math.Cos(angle)+0.15*math.Cos(2*angle))
	}
	monday := int(g.d.Window.From.Weekday()+6) % 7 * len(day) // slots since then
	return func(slot int) float64 {
		v := day[slot%len(day)]
		if (slot+monday)/len(day)%7 >= 5 {
			v *= 1 - weekend
		}
		return v + wander()
	}
}

// constant stays near one level (a crawler, a scrubber).
func (g *generator) constant(r *rand.Rand) func(int) float64 {
	wander := g.wander(r, g.Utilisation.Wander)
	return func(int) float64 { return 1 + wander() }
}

// unpredictable stays at a level for a while, then moves to another: most of its
// signal comes from events that rarely happen (OSDI'16 §3.2, Fig 1d).
func (g *generator) unpredictable(r *rand.Rand) func(int) float64 {
	u := g.Utilisation
	sigma := u.Levels * g.Variation
	wander := g.wander(r, 2*u.Wander)
	level, aim, until := 1.0, 1.0, 0
	return func(slot int) float64 {
		if slot >= until {
			// Pareto with exponent 1.5: mean three times its least.
			stay := u.LevelHours / 3 * math.Pow(1-r.Float64(), -1/1.5)
			until = slot + max(int(min(stay, 20*u.LevelHours)*float64(time.Hour/Slot)), 1)
			aim = min(math.Exp(sigma*r.NormFloat64()-sigma*sigma/2), 4)
		}
		level += (aim - level) * 0.1 // a change takes some twenty minutes
		return level + wander()
	}
}

// wander is a slow random walk that keeps returning to zero, of this standard deviation.
func (g *generator) wander(r *rand.Rand, sd float64) func() float64 {
	const keep = 0.995 // memory of some seven hours
	step := sd * math.Sqrt(1-keep*keep)
	at := sd * r.NormFloat64()
	return func() float64 {
		at = keep*at + step*r.NormFloat64()
		return at
	}
}
