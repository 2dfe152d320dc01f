package page

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
)

// A Division is who had what of all servers at a moment.
type Division struct {
	At                                time.Time
	Size, Primary, Harvested, Reserve cluster.Resources
}

// A Trail remembers how the servers were divided, for the spans that the overview
// shows. However long it is kept, it holds as many points.
type Trail struct {
	mu    sync.Mutex
	spans []*ring
}

// points is how many points a chart of the trail has.
const points = 120

// A Span is a time that the trail remembers.
type Span struct {
	Name string // in addresses
	Text string
	Time time.Duration
}

// Spans are those to choose from.
var Spans = []Span{{"10m", "10 minutes", 10 * time.Minute}, {"1h", "hour", time.Hour}, {"24h", "24 hours", 24 * time.Hour}}

// NewTrail returns an empty trail.
func NewTrail() *Trail {
	t := &Trail{}
	for _, s := range Spans {
		t.spans = append(t.spans, &ring{step: s.Time / points})
	}
	return t
}

// Note adds a moment, later than those before.
func (t *Trail) Note(d Division) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.spans {
		r.note(d)
	}
}

// Watch notes a moment every second until ctx is done.
func (t *Trail) Watch(ctx context.Context, now func() Division) {
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for {
		if d := now(); !d.At.IsZero() {
			t.Note(d)
		}
		select {
		case <-ctx.Done():
			return
		case <-seconds.C:
		}
	}
}

// last returns the means of the last span, one a step.
func (t *Trail) last(span int) []mean {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.spans[span].means)
}

// A ring has the means of the last steps.
type ring struct {
	step  time.Duration
	means []mean
}

// A mean is that of the moments of a step, in cores and bytes.
type mean struct {
	at                        time.Time // its beginning
	n                         float64
	size, used, gleaned, kept [2]float64
}

func (r *ring) note(d Division) {
	at := d.At.Truncate(r.step)
	if len(r.means) == 0 || r.means[len(r.means)-1].at.Before(at) {
		r.means = append(r.means, mean{at: at})
		r.means = r.means[max(len(r.means)-points, 0):]
	}
	m := &r.means[len(r.means)-1]
	m.n++
	for _, sum := range []struct {
		of *[2]float64
		r  cluster.Resources
	}{{&m.size, d.Size}, {&m.used, d.Primary}, {&m.gleaned, d.Harvested}, {&m.kept, d.Reserve}} {
		sum.of[0] += (float64(sum.r.CPU)/float64(cluster.Core) - sum.of[0]) / m.n
		sum.of[1] += (float64(sum.r.Memory)/float64(cluster.GB) - sum.of[1]) / m.n
	}
}

// panels draw the last span: cores and memory as parts of the whole.
func (t *Trail) panels(span int) []chart.Panel {
	means := t.last(span)
	panel := func(title, unit string, i int) chart.Panel {
		layers := []chart.Layer{{Name: "primary", Colour: 0}, {Name: "harvested", Colour: 2}, {Name: "reserve", Colour: 4}, {Name: "idle", Colour: 7}}
		p := chart.Panel{Title: title, X: "time (UTC)", Y: unit, Time: true}
		add := func(at time.Time, parts [4]float64) {
			p.Stack.X = append(p.Stack.X, float64(at.Unix()))
			for l := range layers {
				layers[l].Values = append(layers[l].Values, parts[l])
			}
		}
		for k, m := range means {
			if k > 0 && m.at.Sub(means[k-1].at) > 3*t.spans[span].step {
				gap := math.NaN()
				add(m.at, [4]float64{gap, gap, gap, gap})
			}
			add(m.at, m.parts(i))
			p.YRange = &[2]float64{0, m.size[i]}
		}
		p.Stack.Layers = layers
		return p
	}
	return []chart.Panel{panel("Who has the cores", "cores", 0), panel("Who has the memory", "GiB", 1)}
}

// parts divide the whole: what the primary uses, what harvested tasks use, what of
// the reserve is still free, and what is left.
func (m mean) parts(i int) [4]float64 {
	left := m.size[i]
	take := func(want float64) float64 {
		got := min(max(want, 0), left)
		left -= got
		return got
	}
	used, gleaned, kept := take(m.used[i]), take(m.gleaned[i]), take(m.kept[i])
	return [4]float64{used, gleaned, kept, left}
}
