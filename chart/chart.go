// Package chart draws figures, as SVG for the page and PNG for everything
// else: panels of lines, bands, steps and bars with titled axes.
//
// It does not depend on what the numbers mean. A room that has something to show
// returns a Figure as plain data; the caller saves it where the user asked.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Figure is one picture: panels laid out in rows of Columns (1 if unset).
type Figure struct {
	Name    string // of the files, without ending
	Panels  []Panel
	Columns int
	Width   float64 // of one panel in inches; 6 if unset
	Height  float64 // of one panel in inches; 3 if unset
}

// A Panel is one set of axes and what is drawn on them, later over earlier.
type Panel struct {
	Title, X, Y string
	Bands       []Band
	Lines       []Line
	Bars        Bars
	XTicks      []Tick      // none: chosen from the data
	YRange      *[2]float64 // nil: chosen from the data
	LogX, LogY  bool        // values that are not positive are left out of the line
}

// A Line joins points, straight or (Step) as a staircase, or only marks them (Dots).
// A NaN breaks it.
type Line struct {
	Name   string
	X, Y   []float64
	Step   bool
	Dots   bool
	Dashed bool
}

// A Band fills the space between Low and High.
type Band struct {
	Name         string
	X, Low, High []float64
}

// Bars are groups of bars side by side or, Stacked, on top of each other:
// Values[i][j] belongs to the series Names[i] and the group Groups[j].
type Bars struct {
	Groups  []string
	Names   []string
	Values  [][]float64
	Stacked bool
}

// A Tick labels one place on an axis.
type Tick struct {
	At    float64
	Label string
}

// palette is Okabe and Ito's, which the colour-blind can distinguish too.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x99, 0x99, 0x99, 0xff},
}

func shade(i int, alpha uint8) color.Color {
	c := palette[i%len(palette)]
	return color.NRGBA{c.R, c.G, c.B, alpha}
}

// Save writes dir/Name.svg and dir/Name.png, creates dir if it is missing, and
// returns their paths.
func (f Figure) Save(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	var paths []string
	for _, ending := range []string{"svg", "png"} {
		var buf bytes.Buffer
		if err := f.write(&buf, ending); err != nil {
			return nil, fmt.Errorf("chart: draw %s: %w", f.Name, err)
		}
		path := filepath.Join(dir, f.Name+"."+ending)
		if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
			return nil, fmt.Errorf("chart: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// WriteSVG writes the figure as an SVG document.
func (f Figure) WriteSVG(w io.Writer) error { return f.write(w, "svg") }

func (f Figure) write(w io.Writer, ending string) error {
	columns := max(f.Columns, 1)
	rows := (len(f.Panels) + columns - 1) / columns
	width := vg.Length(columns) * inches(f.Width, 6)
	height := vg.Length(rows) * inches(f.Height, 3)

	var canvas vg.CanvasWriterTo
	if ending == "svg" {
		canvas = vgsvg.New(width, height)
	} else {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(120), vgimg.UseBackgroundColor(color.White))}
	}
	grid := make([][]*plot.Plot, rows)
	for r := range grid {
		grid[r] = make([]*plot.Plot, columns)
	}
	for i, panel := range f.Panels {
		p, err := panel.plot()
		if err != nil {
			return err
		}
		grid[i/columns][i%columns] = p
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Points(12), PadY: vg.Points(10),
		PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(14)}
	for r, line := range plot.Align(grid, tiles, draw.New(canvas)) {
		for c, area := range line {
			if grid[r][c] != nil {
				grid[r][c].Draw(area)
			}
		}
	}
	_, err := canvas.WriteTo(w)
	return err
}

func inches(given, otherwise float64) vg.Length {
	if given == 0 {
		given = otherwise
	}
	return vg.Length(given) * vg.Inch
}

func (panel Panel) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = panel.Title, panel.X, panel.Y
	p.Title.Padding = vg.Points(4)
	p.Legend.Top = true
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)

	colour := 0
	for _, b := range panel.Bands {
		if err := panel.addBand(p, b, shade(colour, 0x50)); err != nil {
			return nil, err
		}
		if len(panel.Lines) != len(panel.Bands) { // a line each shares its band's colour
			colour++
		}
	}
	if len(panel.Lines) == len(panel.Bands) {
		colour = 0
	}
	for _, l := range panel.Lines {
		if err := panel.addLine(p, l, shade(colour, 0xff)); err != nil {
			return nil, err
		}
		colour++
	}
	if err := panel.Bars.add(p); err != nil {
		return nil, err
	}
	panel.scale(p)
	return p, nil
}

func (panel Panel) scale(p *plot.Plot) {
	p.Y.Tick.Marker = roundTicks{}
	if len(panel.Bars.Groups) == 0 {
		p.X.Tick.Marker = roundTicks{}
	}
	if panel.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.X.Min, p.X.Max = positiveRange(p.X.Min, p.X.Max)
	}
	if panel.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Min, p.Y.Max = positiveRange(p.Y.Min, p.Y.Max)
	}
	if panel.XTicks != nil {
		ticks := make([]plot.Tick, len(panel.XTicks))
		for i, t := range panel.XTicks {
			ticks[i] = plot.Tick{Value: t.At, Label: t.Label}
		}
		p.X.Tick.Marker = plot.ConstantTicks(ticks)
	}
	p.X.Min, p.X.Max = spread(p.X.Min, p.X.Max)
	p.Y.Min, p.Y.Max = spread(p.Y.Min, p.Y.Max)
	if panel.YRange != nil {
		p.Y.Min, p.Y.Max = panel.YRange[0], panel.YRange[1]
	} else if named := panel.names(); named > 0 && !panel.LogY {
		p.Y.Max += (p.Y.Max - p.Y.Min) * min(0.07*float64(named), 0.4) // room for the legend
	}
}

// names counts the entries of the panel's legend.
func (panel Panel) names() int {
	n := len(panel.Bars.Names)
	for _, b := range panel.Bands {
		n += min(len(b.Name), 1)
	}
	for _, l := range panel.Lines {
		n += min(len(l.Name), 1)
	}
	return n
}

// spread makes an axis longer than nothing if its data are all equal.
func spread(low, high float64) (float64, float64) {
	switch {
	case math.IsInf(low, 0) || math.IsInf(high, 0) || high < low:
		return 0, 1
	case low == high && low == 0:
		return 0, 1
	case low == high:
		return low - math.Abs(low)/2, high + math.Abs(high)/2
	}
	return low, high
}

func positiveRange(low, high float64) (float64, float64) {
	if !(high > 0) || math.IsInf(high, 0) {
		return 0.1, 1
	}
	if !(low > 0) {
		low = high / 1e6
	}
	if low == high {
		low, high = low/2, high*2
	}
	return low, high
}

func (panel Panel) visible(x, y float64) bool {
	return !math.IsNaN(y) && !math.IsInf(y, 0) && !math.IsNaN(x) && (!panel.LogX || x > 0) && (!panel.LogY || y > 0)
}

func (panel Panel) addLine(p *plot.Plot, l Line, c color.Color) error {
	if l.Name != "" {
		sample, err := l.draw(plotter.XYs{{}, {X: 1}}, c)
		if err != nil {
			return err
		}
		p.Legend.Add(l.Name, sample.(plot.Thumbnailer))
	}
	for start := 0; start < len(l.X); {
		for start < len(l.X) && !panel.visible(l.X[start], l.Y[start]) {
			start++
		}
		end := start
		var run plotter.XYs
		for end < len(l.X) && panel.visible(l.X[end], l.Y[end]) {
			run = append(run, plotter.XY{X: l.X[end], Y: l.Y[end]})
			end++
		}
		start = end
		if len(run) == 0 {
			continue
		}
		mark, err := l.draw(run, c)
		if err != nil {
			return err
		}
		p.Add(mark)
	}
	return nil
}

func (l Line) draw(run plotter.XYs, c color.Color) (plot.Plotter, error) {
	if l.Dots || len(run) == 1 {
		s, err := plotter.NewScatter(run)
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
		return s, nil
	}
	line, err := plotter.NewLine(run)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = c, vg.Points(1.3)
	if l.Step {
		line.StepStyle = plotter.PostStep
	}
	if l.Dashed {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	return line, nil
}

func (panel Panel) addBand(p *plot.Plot, b Band, c color.Color) error {
	var upper, lower plotter.XYs
	for i := range b.X {
		if panel.visible(b.X[i], b.Low[i]) && panel.visible(b.X[i], b.High[i]) {
			upper = append(upper, plotter.XY{X: b.X[i], Y: b.High[i]})
			lower = append(lower, plotter.XY{X: b.X[i], Y: b.Low[i]})
		}
	}
	if len(upper) < 2 {
		return nil
	}
	outline := upper
	for i := len(lower) - 1; i >= 0; i-- {
		outline = append(outline, lower[i])
	}
	area, err := plotter.NewPolygon(outline)
	if err != nil {
		return err
	}
	area.Color, area.LineStyle.Width = c, 0
	p.Add(area)
	if b.Name != "" {
		p.Legend.Add(b.Name, area)
	}
	return nil
}

func (b Bars) add(p *plot.Plot) error {
	if len(b.Names) == 0 || len(b.Groups) == 0 {
		return nil
	}
	width := vg.Points(max(4, 220/float64(len(b.Groups))))
	if !b.Stacked {
		width /= vg.Length(len(b.Names))
	}
	var below *plotter.BarChart
	for i, name := range b.Names {
		bar, err := plotter.NewBarChart(plotter.Values(b.Values[i]), width)
		if err != nil {
			return err
		}
		bar.Color, bar.LineStyle.Width = shade(i, 0xff), 0
		if b.Stacked && below != nil {
			bar.StackOn(below)
		} else if !b.Stacked {
			bar.Offset = width * (vg.Length(i) - vg.Length(len(b.Names)-1)/2)
		}
		below = bar
		p.Add(bar)
		p.Legend.Add(name, bar)
	}
	p.NominalX(b.Groups...)
	if len(b.Groups) > 8 {
		p.X.Tick.Label.Rotation = math.Pi / 5
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YCenter
	}
	return nil
}

// roundTicks labels an axis at about five round numbers.
type roundTicks struct{}

// Ticks implements plot.Ticker.
func (roundTicks) Ticks(low, high float64) []plot.Tick {
	rough := (high - low) / 5
	unit := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * unit
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= rough {
			step = m * unit
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(math.Round(i*step/unit)*unit+0, 'g', 6, 64)})
	}
	return ticks
}
