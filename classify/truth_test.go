package classify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gleaner/cluster"
)

// A truth is a series made to have a known pattern.
type truth struct {
	kind    string
	pattern cluster.Pattern
	period  time.Duration // 0 if not periodic
	window  cluster.Window
	cpu     []float32
	note    string // how it was made, for a failure's message
}

// A shape is a curve over one cycle: phase 0..1 to about -1..1.
type shape struct {
	name string
	at   func(phase float64) float64
}

var shapes = []shape{
	{"sine", func(p float64) float64 { return math.Sin(2 * math.Pi * p) }},
	{"square", func(p float64) float64 {
		if p < 0.5 {
			return 1
		}
		return -1
	}},
	{"third", func(p float64) float64 {
		if p < 1./3 {
			return 1
		}
		return -1
	}},
	{"sawtooth", func(p float64) float64 { return 2*p - 1 }},
	{"peak", func(p float64) float64 {
		if d := math.Abs(p-0.5) / 0.08; d < 1 {
			return 1 - 2*d
		}
		return -1
	}},
	{"two peaks", func(p float64) float64 {
		hill := func(at float64) float64 { return math.Exp(-math.Pow((p-at)/0.07, 2)) }
		return 2*(hill(0.25)+0.65*hill(0.75)) - 1
	}},
	{"hill", func(p float64) float64 { return 2*math.Exp(-math.Pow((p-0.5)/0.15, 2)) - 1 }},
}

// chance is a seeded generator with the draws the truths need.
type chance struct{ *rand.Rand }

func newChance(seed uint64) chance { return chance{rand.New(rand.NewPCG(seed, 7))} }

// monday is when windows begin that are not drawn.
var monday = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func (c chance) between(lo, hi float64) float64 { return lo + (hi-lo)*c.Float64() }

func pick[T any](c chance, from ...T) T { return from[c.IntN(len(from))] }

// a curve gives a level in 0..1 for a time in hours since the window began.
type curve func(hours float64) float64

// made is a curve with what is true of it.
type made struct {
	curve   curve
	pattern cluster.Pattern
	period  time.Duration
	swing   float64 // from low to high
	note    string
}

// A kind makes curves for a window and a step, both in hours.
type kind struct {
	name string
	make func(c chance, hours, step float64) made
}

func repeating(c chance, hours float64, s shape, amplitude float64) curve {
	middle := c.between(amplitude+0.02, min(0.95-amplitude, 0.6))
	phase := c.Float64()
	return func(t float64) float64 {
		_, p := math.Modf(t/hours + phase)
		return middle + amplitude*s.at(p)
	}
}

func periodic(c chance, hours float64) made {
	s := pick(c, shapes...)
	amplitude := c.between(0.1, 0.4)
	return made{repeating(c, hours, s, amplitude), cluster.Periodic, time.Duration(hours * float64(time.Hour)), 2 * amplitude,
		fmt.Sprintf("%s of %.2f h, amplitude %.2f", s.name, hours, amplitude)}
}

func unpredictable(f curve, swing float64, format string, args ...any) made {
	return made{f, cluster.Unpredictable, 0, swing, fmt.Sprintf(format, args...)}
}

// sampled turns values at even steps into a curve.
func sampled(v []float64, step float64) curve {
	return func(t float64) float64 { return v[min(max(int(t/step+1e-9), 0), len(v)-1)] }
}

var kinds = []kind{
	{"constant", func(c chance, _, _ float64) made {
		level := c.between(0.02, 0.8)
		return made{func(float64) float64 { return level }, cluster.Constant, 0, level, fmt.Sprintf("level %.2f", level)}
	}},
	{"wobble", func(c chance, _, _ float64) made {
		level, hours := c.between(0.3, 0.7), pick(c, 24.0, 24.0, 168, 10, 50)
		return made{func(t float64) float64 { return level * (1 + 0.04*math.Sin(2*math.Pi*t/hours)) }, cluster.Constant, 0, level,
			fmt.Sprintf("level %.2f, 4%% over %.0f h", level, hours)}
	}},
	{"daily", func(c chance, _, _ float64) made { return periodic(c, 24) }},
	{"weekly", func(c chance, _, _ float64) made { return periodic(c, 168) }},
	{"weekend level", func(c chance, _, _ float64) made {
		low, high, start := c.between(0.05, 0.3), c.between(0.4, 0.8), c.between(0, 168)
		return made{func(t float64) float64 {
			if math.Mod(t+start, 168) < 48 {
				return low
			}
			return high
		}, cluster.Periodic, week, high - low, fmt.Sprintf("%.2f, %.2f at weekends", high, low)}
	}},
	{"weekdays", weekdays},
	{"8-hourly", func(c chance, _, _ float64) made { return periodic(c, 8) }},
	{"other period", func(c chance, hours, step float64) made {
		fit := []float64{}
		for _, p := range []float64{1.5, 3, 4, 16. / 3, 6, 10, 12, 18, 30, 36, 48, 60, 84} {
			if p <= hours/3.2 && p >= 8*step {
				fit = append(fit, p)
			}
		}
		return periodic(c, pick(c, fit...))
	}},
	{"day with a slight ramp", func(c chance, hours, _ float64) made {
		m := periodic(c, 24)
		daily, rise := m.curve, c.between(-0.5, 0.5)*m.swing
		for m.note[:4] == "peak" || m.note[:3] == "two" || m.note[:4] == "hill" { // their variance is small against the swing
			m = periodic(c, 24)
			daily, rise = m.curve, c.between(-0.5, 0.5)*m.swing
		}
		m.curve = func(t float64) float64 { return daily(t) + rise*(t/hours-0.5) }
		m.note += fmt.Sprintf(", rise %.2f", rise)
		return m
	}},
	{"random walk", walk},
	{"1/f noise", func(c chance, hours, step float64) made {
		v := make([]float64, int(hours/step)+1)
		pace := make([]float64, 14)
		for i := range v {
			for j := range pace {
				if i%(1<<j) == 0 {
					pace[j] = c.NormFloat64()
				}
				v[i] += 0.06 * pace[j]
			}
			v[i] += 0.5
		}
		return unpredictable(sampled(v, step), 0.4, "pink")
	}},
	{"short bursts", func(c chance, hours, step float64) made {
		return bursts(c, hours, step, max(2*step, c.between(0.2, 1)), c.between(6, 36))
	}},
	{"long bursts", func(c chance, hours, step float64) made {
		return bursts(c, hours, step, c.between(1, 12), c.between(12, 60))
	}},
	{"rare bursts", func(c chance, hours, step float64) made {
		return bursts(c, hours, step, max(2*step, c.between(0.5, 3)), hours/c.between(4, 10))
	}},
	{"step", func(c chance, hours, _ float64) made {
		low, rise, at := c.between(0.1, 0.4), c.between(0.15, 0.5), c.between(0.15, 0.85)*hours
		up := c.IntN(2) == 0
		return unpredictable(func(t float64) float64 {
			if (t > at) == up {
				return low + rise
			}
			return low
		}, rise, "from %.2f by %.2f at %.0f h", low, rise, at)
	}},
	{"two steps", func(c chance, hours, _ float64) made {
		low, rise, at := c.between(0.1, 0.4), c.between(0.15, 0.5), c.between(0.1, 0.5)*hours
		until := at + c.between(0.1, 0.4)*hours
		return unpredictable(func(t float64) float64 {
			if t > at && t < until {
				return low + rise
			}
			return low
		}, rise, "from %.2f by %.2f %.0f to %.0f h", low, rise, at, until)
	}},
	{"ramp", func(c chance, hours, _ float64) made {
		from, by := c.between(0.1, 0.4), c.between(0.15, 0.5)
		if c.IntN(2) == 0 {
			from, by = from+by, -by
		}
		return unpredictable(func(t float64) float64 { return from + by*t/hours }, math.Abs(by), "from %.2f by %.2f", from, by)
	}},
	{"regimes", func(c chance, hours, _ float64) made {
		var at, level []float64
		for t := 0.0; t < hours; t += c.between(0.05, 0.4) * hours {
			next := c.between(0.1, 0.8)
			for len(level) > 0 && math.Abs(next-level[len(level)-1]) < 0.15 {
				next = c.between(0.1, 0.8)
			}
			at, level = append(at, t), append(level, next)
		}
		return unpredictable(func(t float64) float64 {
			l := level[0]
			for i, from := range at {
				if t >= from {
					l = level[i]
				}
			}
			return l
		}, 0.4, "%d regimes %.2v", len(at), level)
	}},
	{"day that stops", func(c chance, hours, _ float64) made {
		m := periodic(c, 24)
		daily, level := m.curve, c.between(0.1, 0.5)
		until := c.between(0.4, 0.6) * hours
		if c.IntN(2) == 0 {
			level = daily(until)
		}
		return unpredictable(func(t float64) float64 {
			if t < until {
				return daily(t)
			}
			return level
		}, m.swing, "%s until %.0f h", m.note, until)
	}},
	{"drifting period", func(c chance, hours, _ float64) made {
		first, last := 24.0, pick(c, 14.0, 16, 32, 36)
		a := c.between(0.1, 0.35)
		return unpredictable(func(t float64) float64 {
			f0, f1 := 1/first, 1/last
			return 0.45 + a*math.Sin(2*math.Pi*(f0*t+(f1-f0)*t*t/2/hours))
		}, 2*a, "%.0f h to %.0f h, amplitude %.2f", first, last, a)
	}},
	{"short period", func(c chance, hours, step float64) made {
		bin := step * math.Ceil(hours/step/maxBins)
		return periodic(c, bin*pick(c, 6.0, 9, 15))
	}},
	{"saturated", func(c chance, _, _ float64) made {
		level := pick(c, 1, c.between(0.9, 1))
		return made{func(float64) float64 { return level }, cluster.Constant, 0, level, fmt.Sprintf("level %.2f", level)}
	}},
	{"short job", func(c chance, _, step float64) made {
		hours, lasting := pick(c, 6.0, 12, 24), max(2*step, c.between(0.2, 0.5))
		base, height, phase := c.between(0.05, 0.25), c.between(0.4, 0.7), c.between(0, 24)
		return made{func(t float64) float64 {
			if math.Mod(t+phase, hours) < lasting {
				return base + height
			}
			return base
		}, cluster.Periodic, time.Duration(hours) * time.Hour, height, fmt.Sprintf("base %.2f, %.2f for %.2f h every %.0f h", base, height, lasting, hours)}
	}},
	{"day of varying height", func(c chance, hours, _ float64) made {
		vary := pick(c, 0.3, 0.6)
		return office(c, hours, fmt.Sprintf("height varies by %.1f", vary), func() float64 { return c.between(1-vary, 1+vary) })
	}},
	{"days off", func(c chance, hours, _ float64) made {
		off := c.between(0.03, 0.12)
		return office(c, hours, fmt.Sprintf("%.0f%% of days off", 100*off), func() float64 {
			if c.Float64() < off {
				return 0
			}
			return 1
		})
	}},
}

// office is busy for eight hours of every day, as busy as height says.
func office(c chance, hours float64, note string, height func() float64) made {
	base, amplitude, phase := c.between(0.1, 0.3), c.between(0.2, 0.4), c.between(0, 24)
	heights := make([]float64, int(hours/24)+2)
	for i := range heights {
		heights[i] = height()
	}
	return made{func(t float64) float64 {
		d, p := math.Modf((t + phase) / 24)
		if p < 1./3 {
			return base + amplitude*heights[int(d)]
		}
		return base
	}, cluster.Periodic, day, amplitude, fmt.Sprintf("office hours, base %.2f, amplitude %.2f, %s", base, amplitude, note)}
}

func weekdays(c chance, _, _ float64) made {
	s := pick(c, shapes[0], shapes[1], shapes[2], shapes[5], shapes[6])
	amplitude := c.between(0.1, 0.35)
	daily := repeating(c, 24, s, amplitude)
	start := float64(24 * c.IntN(7))
	if c.IntN(2) == 0 {
		start = c.between(0, 168)
	}
	off := math.Inf(1)
	for t := 0.0; t < 24; t += 0.1 {
		off = min(off, daily(t))
	}
	if c.IntN(4) == 0 {
		off += amplitude * c.between(0, 1)
	}
	return made{func(t float64) float64 {
		if math.Mod(t+start, 168) < 48 {
			return off
		}
		return daily(t)
	}, cluster.Periodic, day, 2 * amplitude, fmt.Sprintf("weekday %s, amplitude %.2f", s.name, amplitude)}
}

func walk(c chance, hours, step float64) made {
	v := make([]float64, int(hours/step)+1)
	perDay := c.between(0.04, 0.4)
	scale := perDay * math.Sqrt(step/24)
	at, back := c.between(0.2, 0.7), pick(c, 0.0, 0, step/48, step/200)
	edge := pick(c, "stop", "bounce")
	for i := range v {
		v[i] = at
		at += scale*c.NormFloat64() - back*(at-0.4)
		if edge == "bounce" && at < 0.02 {
			at = 0.04 - at
		}
		if edge == "bounce" && at > 0.98 {
			at = 1.96 - at
		}
		at = min(max(at, 0), 1)
	}
	return unpredictable(sampled(v, step), 0.3, "%.2f a day, back %.4f, %s", perDay, back, edge)
}

// bursts arrive by chance, every hours on average, and last for lasting on average.
func bursts(c chance, hours, step, lasting, every float64) made {
	base, height := c.between(0.05, 0.4), c.between(0.2, 0.6)
	v := make([]float64, int(hours/step)+1)
	for i := range v {
		v[i] = base
	}
	n := 0
	for t := c.ExpFloat64() * every; t < hours || n < 3; t += c.ExpFloat64() * every {
		t = math.Mod(t, hours)
		n++
		h := height * c.between(0.6, 1)
		for i := int(t / step); i <= int((t+lasting*c.between(0.5, 1.5))/step) && i < len(v); i++ {
			v[i] = min(base+h, 1)
		}
	}
	return unpredictable(sampled(v, step), height, "base %.2f, %d bursts of %.2f for %.1f h", base, n, height, lasting)
}

// window draws a window: its step, its length, where it begins.
func (c chance) window(minDays float64) cluster.Window {
	step := pick(c, 300, 300, 120, 60, 3600, 600)
	days := pick(c, 30, 31, 28, c.between(minDays, 31))
	days = max(days, minDays)
	return cluster.Window{
		From: time.Unix(1_700_000_000+int64(c.IntN(1_000_000)), 0).UTC(),
		Step: time.Duration(step) * time.Second,
		Len:  int(days * 86400 / float64(step)),
	}
}

// minDays is the shortest window in which a kind can be recognised.
func minDays(name string) float64 {
	switch name {
	case "weekly", "weekend level":
		return 21
	case "weekdays":
		return 8
	case "random walk", "1/f noise", "drifting period", "regimes":
		return 10
	}
	return 7
}

// generate makes one series of the kind.
func generate(k kind, seed uint64) truth {
	c := newChance(seed)
	return over(k, c.window(minDays(k.name)), c)
}

// generateOver makes one over a given window.
func generateOver(k kind, w cluster.Window, seed uint64) truth {
	return over(k, w, newChance(seed))
}

func over(k kind, w cluster.Window, c chance) truth {
	m := k.make(c, w.Step.Hours()*float64(w.Len), w.Step.Hours())
	cpu := make([]float32, w.Len)
	how := pick(c, "of mean", "of swing", "of now", "absolute")
	amount := c.between(0.05, 0.2)
	sum := 0.0
	for i := range cpu {
		v := m.curve(float64(i) * w.Step.Hours())
		sum += v
		cpu[i] = float32(v)
	}
	mean := sum / float64(len(cpu))
	for i, v := range cpu {
		sd := amount
		switch how {
		case "of mean":
			sd *= mean
		case "of swing":
			sd *= m.swing
		case "of now":
			sd *= float64(v)
		case "absolute":
			sd = min(sd, 0.45*mean, 0.3*m.swing)
		}
		cpu[i] = float32(min(max(float64(v)+sd*c.NormFloat64(), 0), 1))
	}
	gaps := pick(c, "none", "random", "random", "blocks")
	drop(c, cpu, gaps)
	note := fmt.Sprintf("%s; noise %.0f%% %s; gaps %s; %d d of %s", m.note, 100*amount, how, gaps, int(w.To().Sub(w.From).Hours()/24), w.Step)
	return truth{k.name, m.pattern, m.period, w, cpu, note}
}

// drop removes a fifth of the samples.
func drop(c chance, cpu []float32, how string) {
	nan := float32(math.NaN())
	switch how {
	case "random":
		for i := range cpu {
			if c.Float64() < 0.2 {
				cpu[i] = nan
			}
		}
	case "blocks":
		blocks := 3 + c.IntN(12)
		size := len(cpu) / 5 / blocks
		for range blocks {
			from := c.IntN(len(cpu) - size)
			for i := from; i < from+size; i++ {
				cpu[i] = nan
			}
		}
	}
}
