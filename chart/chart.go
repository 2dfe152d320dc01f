// Package chart draws figures, as SVG for the page and PNG for everything
// else: panels of lines, bands, steps, bars, stacked areas and spans of time with
// titled axes, and graphs. docs/design.md says how they look.
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
	"strings"

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

	bare bool // without titles and legends
}

// A Panel is one set of axes and what is drawn on them, later over earlier.
type Panel struct {
	Title, X, Y string
	Bands       []Band
	Lines       []Line
	Bars        Bars
	Stack       Stack
	Spans       Spans
	Time        bool        // X is in Unix seconds
	XTicks      []Tick      // none: chosen from the data
	XRange      *[2]float64 // nil: chosen from the data
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
	Colours []int // of the series; nil for the palette's order

	room vg.Length // for all bars together; 0 for as much as a saved picture has
}

func (b Bars) colour(i int) int {
	if b.Colours != nil {
		return b.Colours[i]
	}
	return i
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

// Palette lists the colours of series as #rrggbb.
func Palette() []string {
	var all []string
	for _, c := range palette {
		all = append(all, fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B))
	}
	return all
}

// The colours of the grid and of what separates areas.
var (
	gridColour color.Color = color.Gray{0xe4}
	ground     color.Color = color.Gray{0xff}
)

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

// layout is how many columns and rows of panels there are.
func (f Figure) layout() (columns, rows int) {
	columns = max(f.Columns, 1)
	return columns, (len(f.Panels) + columns - 1) / columns
}

func (f Figure) size() (width, height vg.Length) {
	columns, rows := f.layout()
	return vg.Length(columns) * inches(f.Width, 6), vg.Length(rows) * inches(f.Height, 3)
}

func (f Figure) write(w io.Writer, ending string) error {
	width, height := f.size()
	var canvas vg.CanvasWriterTo
	if ending == "svg" {
		canvas = vgsvg.New(width, height)
	} else {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(120), vgimg.UseBackgroundColor(color.White))}
	}
	if err := f.drawOn(draw.New(canvas)); err != nil {
		return err
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (f Figure) drawOn(canvas draw.Canvas) error {
	columns, rows := f.layout()
	grid, all := make([][]*plot.Plot, rows), make([][]*axes, rows)
	for r := range grid {
		grid[r], all[r] = make([]*plot.Plot, columns), make([]*axes, columns)
	}
	for i, panel := range f.Panels {
		if f.bare {
			panel.Bars.room = inches(f.Width, 6) / 2
		}
		p, err := panel.plot(f.bare)
		if err != nil {
			return err
		}
		if panel.Time && panel.XTicks == nil {
			p.X.Tick.Marker = clockTicks{most: max(2, int(inches(f.Width, 6)/clockWidth))}
		}
		grid[i/columns][i%columns], all[i/columns][i%columns] = p.Plot, p
	}
	right := vg.Points(14)
	for _, panel := range f.Panels {
		if panel.Time {
			right = vg.Points(24) // half of a clock's label
		}
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Points(12), PadY: vg.Points(10),
		PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: right}
	for r, line := range plot.Align(grid, tiles, canvas) {
		strip := vg.Length(0) // below the axes of all panels of a row
		for c, area := range line {
			if all[r][c] != nil {
				strip = max(strip, all[r][c].legendHeight(area))
			}
		}
		for c, area := range line {
			if grid[r][c] != nil {
				area = draw.Crop(area, 0, 0, strip, 0)
				grid[r][c].Draw(area)
				all[r][c].drawLegend(area, area.Min.Y)
				if on, ok := canvas.Canvas.(*themed); ok {
					data := grid[r][c].DataCanvas(area)
					on.spans(data.Rectangle, grid[r][c].X.Min, grid[r][c].X.Max)
				}
			}
		}
	}
	return nil
}

func inches(given, otherwise float64) vg.Length {
	if given == 0 {
		given = otherwise
	}
	return vg.Length(given) * vg.Inch
}

// plot draws the panel; a bare one has neither title nor legend.
func (panel Panel) plot(bare bool) (*axes, error) {
	p := &axes{Plot: plot.New()}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = panel.Title, panel.X, panel.Y
	p.Title.Padding = vg.Points(4)
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColour, gridColour
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
	for _, part := range []interface{ add(*axes) error }{panel.Bars, panel.Stack, panel.Spans} {
		if err := part.add(p); err != nil {
			return nil, err
		}
	}
	panel.scale(p.Plot, bare)
	if bare {
		p.Title.Text, p.keys, p.BackgroundColor = "", nil, nil
	}
	return p, nil
}

func (panel Panel) scale(p *plot.Plot, bare bool) {
	if len(panel.Spans.Rows) == 0 {
		p.Y.Tick.Marker = roundTicks{}
	}
	if len(panel.Bars.Groups) == 0 {
		p.X.Tick.Marker = roundTicks{}
	}
	if panel.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
		p.X.Min, p.X.Max = positiveRange(p.X.Min, p.X.Max)
	}
	if panel.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
		p.Y.Min, p.Y.Max = positiveRange(p.Y.Min, p.Y.Max)
	}
	if bare && panel.LogY {
		p.Y.Tick.Marker = shortTicks{p.Y.Tick.Marker}
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
	if panel.XRange != nil {
		p.X.Min, p.X.Max = panel.XRange[0], panel.XRange[1]
	}
	if panel.YRange != nil {
		p.Y.Min, p.Y.Max = panel.YRange[0], panel.YRange[1]
	}
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

func (panel Panel) addLine(p *axes, l Line, c color.Color) error {
	if l.Name != "" {
		sample, err := l.draw(plotter.XYs{{}, {X: 1}}, c)
		if err != nil {
			return err
		}
		p.key(l.Name, sample.(plot.Thumbnailer))
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

func (panel Panel) addBand(p *axes, b Band, c color.Color) error {
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
		p.key(b.Name, area)
	}
	return nil
}

// crowded reports whether the names of the groups would touch each other.
func (b Bars) crowded() bool {
	label := sans(vg.Points(10))
	return wider*label.Width(strings.Join(b.Groups, "  ")) > b.room
}

// widestBar is as wide as bars of one group get on a page.
const widestBar = vg.Length(90)

func (b Bars) add(p *axes) error {
	if len(b.Names) == 0 || len(b.Groups) == 0 {
		return nil
	}
	width := vg.Points(max(4, 220/float64(len(b.Groups))))
	if b.room > 0 {
		width = min(b.room/vg.Length(len(b.Groups)), widestBar)
	}
	if !b.Stacked {
		width /= vg.Length(len(b.Names))
	}
	var below *plotter.BarChart
	for i, name := range b.Names {
		bar, err := plotter.NewBarChart(plotter.Values(b.Values[i]), width)
		if err != nil {
			return err
		}
		bar.Color, bar.LineStyle.Width = shade(b.colour(i), 0xff), 0
		if b.Stacked && below != nil {
			bar.StackOn(below)
		} else if !b.Stacked {
			bar.Offset = width * (vg.Length(i) - vg.Length(len(b.Names)-1)/2)
		}
		below = bar
		p.Add(bar)
		p.key(name, bar)
		if !b.Stacked {
			p.Add(p.zeroes(b.zeroesOf(b.Values[i]), bar.Offset, width, shade(b.colour(i), 0xff)))
		}
	}
	if b.Stacked {
		p.Add(p.zeroes(b.zeroesOf(b.Values...), 0, width, p.Y.Color))
	}
	p.NominalX(b.Groups...)
	if b.room > 0 {
		p.X.Min, p.X.Max = -0.5, float64(len(b.Groups))-0.5
	}
	if len(b.Groups) > 8 || b.room > 0 && b.crowded() {
		p.X.Tick.Label.Rotation = math.Pi / 5
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YCenter
	}
	return nil
}

// shortTicks write thousands as k, millions as M and so on: a page has little room beside its
// axis.
type shortTicks struct{ plot.Ticker }

// Ticks implements plot.Ticker.
func (s shortTicks) Ticks(low, high float64) []plot.Tick {
	ticks := s.Ticker.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = short(t.Value)
		}
	}
	return ticks
}

func short(v float64) string {
	unit := ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, next
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + unit
}

// logTicks labels a logarithmic axis at powers of ten; one that is too short for three of them at 1, 2 and 5 times those, or as any other.
type logTicks struct{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(low, high float64) []plot.Tick {
	tens := plot.LogTicks{Prec: -1}.Ticks(low, high)
	for _, ticks := range [][]plot.Tick{tens, oneTwoFive(low, high)} {
		labels := 0
		for _, t := range ticks {
			if t.Label != "" && t.Value >= low && t.Value <= high {
				labels++
			}
		}
		if labels >= 3 {
			return ticks
		}
	}
	return roundTicks{}.Ticks(low, high)
}

func oneTwoFive(low, high float64) (ticks []plot.Tick) {
	for unit := math.Pow(10, math.Floor(math.Log10(low))); unit <= high; unit *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if at := m * unit; at >= low && at <= high {
				ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'g', 6, 64)})
			}
		}
	}
	return ticks
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
