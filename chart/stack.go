package chart

import (
	"image/color"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// A Stack is the parts of a whole along X, as areas on top of each other.
type Stack struct {
	X      []float64
	Layers []Layer // the lowest first
}

// A Layer is one part of a Stack. A NaN leaves a gap in all layers.
type Layer struct {
	Name   string
	Colour int // of the palette
	Values []float64
}

func (s Stack) add(p *axes) error {
	below := make([]float64, len(s.X))
	for _, layer := range s.Layers {
		above := make([]float64, len(s.X))
		for i, v := range layer.Values {
			above[i] = below[i] + v
		}
		thumbnail := new(plotter.Polygon)
		thumbnail.Color = shade(layer.Colour, 0xff)
		p.key(layer.Name, thumbnail)
		for _, part := range s.parts(below, above) {
			area, err := plotter.NewPolygon(part)
			if err != nil {
				return err
			}
			area.Color, area.LineStyle.Color, area.LineStyle.Width = shade(layer.Colour, 0xff), ground, vg.Points(0.6)
			p.Add(area)
		}
		below = above
	}
	return nil
}

// parts are the outlines of what is between two lines, one between each two gaps.
func (s Stack) parts(low, high []float64) (all []plotter.XYs) {
	for from := 0; from < len(s.X); {
		to := from
		for to < len(s.X) && high[to] == high[to] { // not NaN
			to++
		}
		var outline plotter.XYs
		for i := from; i < to; i++ {
			outline = append(outline, plotter.XY{X: s.X[i], Y: high[i]})
		}
		for i := to - 1; i >= from; i-- {
			outline = append(outline, plotter.XY{X: s.X[i], Y: low[i]})
		}
		if to > from+1 {
			all = append(all, outline)
		}
		from = to + 1
	}
	return all
}

// Spans are times on rows: from when to when something lasted.
type Spans struct {
	Rows []string // the uppermost first
	All  []Span
	Keys []Key // what the colours mean
}

// A Span lasts from From to To.
type Span struct {
	Row      int
	From, To float64
	Colour   int
}

// rowHeight is the share of a row that a span fills.
const rowHeight = 0.7

func (s Spans) add(p *axes) error {
	if len(s.Rows) == 0 {
		return nil
	}
	var ticks []plot.Tick
	for i, name := range s.Rows {
		ticks = append(ticks, plot.Tick{Value: -float64(i), Label: name})
	}
	for _, key := range s.Keys {
		thumbnail := new(plotter.Polygon)
		thumbnail.Color = shade(key.Colour, 0xff)
		p.key(key.Name, thumbnail)
	}
	for _, span := range s.All {
		low, high := -float64(span.Row)-rowHeight/2, -float64(span.Row)+rowHeight/2
		bar, err := plotter.NewPolygon(plotter.XYs{{X: span.From, Y: low}, {X: span.To, Y: low}, {X: span.To, Y: high}, {X: span.From, Y: high}})
		if err != nil {
			return err
		}
		// The outline keeps a span visible that is shorter than a pixel.
		bar.Color, bar.LineStyle.Color, bar.LineStyle.Width = shade(span.Colour, 0xff), color.Color(shade(span.Colour, 0xff)), vg.Points(0.5)
		p.Add(bar)
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Min, p.Y.Max = -float64(len(s.Rows))+0.5, 0.5
	return nil
}

// clockTicks label an axis of Unix seconds.
type clockTicks struct{ most int } // steps between labels

// clockWidth is how much of an axis a clock's label needs, so that none touches another.
const clockWidth = 1.3 * vg.Inch

// steps of a clock's axis, in seconds.
var clockSteps = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400}

// Ticks implements plot.Ticker.
func (c clockTicks) Ticks(low, high float64) []plot.Tick {
	step := clockSteps[len(clockSteps)-1]
	for _, s := range clockSteps {
		if (high-low)/s <= float64(c.most) {
			step = s
			break
		}
	}
	for (high-low)/step > float64(c.most) {
		step *= 2
	}
	form := "15:04"
	switch {
	case step < 0.1:
		form = "15:04:05.000"
	case step < 1:
		form = "15:04:05.0"
	case step < 60:
		form = time.TimeOnly
	case step >= 86400:
		form = "2 Jan"
	}
	var ticks []plot.Tick
	for n := math.Ceil(low / step); n*step <= high; n++ {
		ticks = append(ticks, plot.Tick{Value: n * step, Label: time.UnixMilli(int64(math.Round(1000 * n * step))).UTC().Format(form)})
	}
	return ticks
}

// Within is the panel without what is before from or after to. Bars stay as they are. A span that lasts across an end of
// the range is drawn as far as it is within it, and keeps its numbers; rows without a span are left out.
func (panel Panel) Within(from, to float64) Panel {
	cut := func(x []float64, columns ...[]float64) [][]float64 {
		out := make([][]float64, 1+len(columns))
		for i, at := range x {
			if at < from || at > to {
				continue
			}
			out[0] = append(out[0], at)
			for c, values := range columns {
				out[c+1] = append(out[c+1], values[i])
			}
		}
		return out
	}
	lines, bands, stack := panel.Lines, panel.Bands, panel.Stack
	panel.Lines, panel.Bands, panel.Stack = nil, nil, Stack{}
	for _, l := range lines {
		kept := cut(l.X, l.Y)
		l.X, l.Y = kept[0], kept[1]
		panel.Lines = append(panel.Lines, l)
	}
	for _, b := range bands {
		kept := cut(b.X, b.Low, b.High)
		b.X, b.Low, b.High = kept[0], kept[1], kept[2]
		panel.Bands = append(panel.Bands, b)
	}
	for _, layer := range stack.Layers {
		kept := cut(stack.X, layer.Values)
		panel.Stack.X, layer.Values = kept[0], kept[1]
		panel.Stack.Layers = append(panel.Stack.Layers, layer)
	}
	if len(panel.Spans.Rows) > 0 {
		panel.Spans = panel.Spans.within(from, to)
		panel.XRange = &[2]float64{from, to}
	}
	return panel
}

func (s Spans) within(from, to float64) Spans {
	out := Spans{Keys: s.Keys}
	for _, span := range s.All {
		if span.From <= to && span.To >= from {
			out.All = append(out.All, span)
		}
	}
	for i, name := range s.Rows {
		some := false
		for k := range out.All {
			if out.All[k].Row == i {
				out.All[k].Row, some = len(out.Rows), true
			}
		}
		if some {
			out.Rows = append(out.Rows, name)
		}
	}
	return out
}
