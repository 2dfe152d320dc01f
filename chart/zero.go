package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Zeroes are bars of a series that have no height: each is a thin line with a 0 above it, so
// that it is not taken for one that is missing.
type zeroes struct {
	at     []int // groups
	offset vg.Length
	width  vg.Length
	colour color.Color
	style  text.Style
}

// zeroHeight is that of the line.
const zeroHeight = vg.Length(1.5)

// zeroesOf are the groups in which a series, or what is stacked, is 0.
func (b Bars) zeroesOf(series ...[]float64) []int {
	var out []int
	for j := range b.Groups {
		sum := 0.0
		for _, values := range series {
			sum += values[j]
		}
		if sum == 0 {
			out = append(out, j)
		}
	}
	return out
}

func (a *axes) zeroes(at []int, offset, width vg.Length, c color.Color) zeroes {
	style := a.style()
	style.XAlign, style.Color = text.XCenter, c
	return zeroes{at, offset, width, c, style}
}

// Plot implements plot.Plotter.
func (z zeroes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	base := y(max(0, p.Y.Min))
	for _, j := range z.at {
		middle := x(float64(j)) + z.offset
		c.FillPolygon(z.colour, []vg.Point{{X: middle - z.width/2, Y: base}, {X: middle + z.width/2, Y: base},
			{X: middle + z.width/2, Y: base + zeroHeight}, {X: middle - z.width/2, Y: base + zeroHeight}})
		c.FillText(z.style, vg.Point{X: middle, Y: base + 2*zeroHeight}, "0")
	}
}
