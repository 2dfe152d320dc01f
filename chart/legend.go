package chart

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Axes are a panel being drawn, and the entries of its legend. The legend stands below the
// axes, and never on the data.
type axes struct {
	*plot.Plot
	keys []legendKey
}

type legendKey struct {
	name string
	mark plot.Thumbnailer
}

func (a *axes) key(name string, mark plot.Thumbnailer) {
	a.keys = append(a.keys, legendKey{name, mark})
}

// Sizes of an entry: its mark, the space behind that, and the one before the next entry.
const (
	markWidth  = vg.Length(18)
	markSpace  = vg.Length(4)
	keySpace   = vg.Length(14)
	keyLeading = 1.5 // of a line, in heights of its letters
)

func (a *axes) style() text.Style {
	s := a.Legend.TextStyle
	s.XAlign, s.YAlign = text.XLeft, text.YBottom
	return s
}

func (a *axes) lineHeight() vg.Length { return a.style().Height("X") * keyLeading }

// lines divides the entries such that each line is no longer than some width, if its entries allow.
func (a *axes) lines(width vg.Length) [][]legendKey {
	var out [][]legendKey
	used := width + 1
	for _, k := range a.keys {
		own := markWidth + markSpace + a.style().Width(k.name)
		if used+own > width {
			out, used = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], k)
		used += own + keySpace
	}
	return out
}

// legendHeight is what the legend takes of an area.
func (a *axes) legendHeight(area draw.Canvas) vg.Length {
	n := len(a.lines(a.legendWidth(area)))
	if n == 0 {
		return 0
	}
	return vg.Length(n)*a.lineHeight() + a.lineHeight()/2
}

// legendWidth is that of the data: the legend begins where they do.
func (a *axes) legendWidth(area draw.Canvas) vg.Length {
	return area.Max.X - a.DataCanvas(area).Min.X
}

// drawLegend writes the entries below an area, from its left.
func (a *axes) drawLegend(area draw.Canvas, below vg.Length) {
	left, style := a.DataCanvas(area).Min.X, a.style()
	for i, line := range a.lines(area.Max.X - left) {
		x := left
		y := below - vg.Length(i+1)*a.lineHeight()
		for _, k := range line {
			mark := draw.Canvas{Canvas: area.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + markWidth, Y: y + style.Height("X")}}}
			k.mark.Thumbnail(&mark)
			x += markWidth + markSpace
			area.FillText(style, vg.Point{X: x, Y: y}, k.name)
			x += style.Width(k.name) + keySpace
		}
	}
}
