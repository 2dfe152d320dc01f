package chart

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// WriteThemed writes the figure as an svg element for a page whose style sheet has
// the colours: what is filled with the palette's colour i has the class f<i>, lines
// have l<i>, text has ink, the axes axis and the grid grid. It has neither styles of its own,
// which a strict content security policy forbids, nor title and legend: the page
// has them as text (see Keys).
func (f Figure) WriteThemed(w io.Writer) error {
	f.bare = true
	width, height := f.size()
	c := newThemed(width, height)
	if len(f.Panels) == 1 {
		c.axis = f.Panels[0].axis()
	}
	if err := f.drawOn(draw.New(c)); err != nil {
		return err
	}
	return c.close(w)
}

// axis is how the places on the X axis of a panel follow each other, for whoever reads values off the
// drawing.
func (panel Panel) axis() string {
	switch {
	case len(panel.Spans.Rows) > 0:
		return "spans"
	case len(panel.Bars.Groups) > 0:
		return "group"
	case panel.Time:
		return "time"
	case panel.LogX:
		return "log"
	}
	return "linear"
}

// A themed canvas draws an SVG whose colours are classes.
type themed struct {
	out           bytes.Buffer
	width, height vg.Length
	axis          string // of the only panel; empty if there are several
	area          string // attributes that say where its data are
	now           pen
	pushed        []pen
}

type pen struct {
	colour color.Color
	dashes []vg.Length
	width  vg.Length
	groups int // that were opened since the last Push
}

// pixels of a page are in a point.
const pixels = 96. / 72

func newThemed(width, height vg.Length) *themed {
	c := &themed{width: width, height: height}
	vg.Initialize(c)
	return c
}

func (c *themed) close(w io.Writer) error {
	_, err := fmt.Fprintf(w, `<svg viewBox="0 0 %s %s" width="%.0f" height="%.0f" aria-hidden="true" focusable="false"%s><g transform="matrix(1 0 0 -1 0 %s)">%s</g></svg>`,
		num(c.width), num(c.height), pixels*c.width.Points(), pixels*c.height.Points(), c.area, num(c.height), c.out.String())
	return err
}

// spans notes where the data of the only panel are: from left to right and from top to bottom in
// the units of the drawing, and from which place on the X axis to which.
func (c *themed) spans(area vg.Rectangle, from, to float64) {
	if c.axis != "" {
		c.area = fmt.Sprintf(` data-axis="%s" data-area="%s %s %s %s" data-from="%g" data-to="%g"`,
			c.axis, num(area.Min.X), num(area.Max.X), num(c.height-area.Max.Y), num(c.height-area.Min.Y), from, to)
	}
}

func num(l vg.Length) string {
	return strconv.FormatFloat(math.Round(l.Points()*10)/10+0, 'f', -1, 64)
}

func (c *themed) Size() (x, y vg.Length)                 { return c.width, c.height }
func (c *themed) SetLineWidth(w vg.Length)               { c.now.width = w }
func (c *themed) SetColor(colour color.Color)            { c.now.colour = colour }
func (c *themed) SetLineDash(d []vg.Length, _ vg.Length) { c.now.dashes = d }

func (c *themed) Rotate(by float64) { c.group("rotate(%.4g)", by*180/math.Pi) }

func (c *themed) Translate(by vg.Point) { c.group("translate(%s %s)", num(by.X), num(by.Y)) }

func (c *themed) Scale(x, y float64) { c.group("scale(%g %g)", x, y) }

func (c *themed) group(format string, args ...any) {
	fmt.Fprintf(&c.out, `<g transform="`+format+`">`, args...)
	c.now.groups++
}

func (c *themed) Push() {
	c.pushed = append(c.pushed, c.now)
	c.now.groups = 0
}

func (c *themed) Pop() {
	c.out.WriteString(strings.Repeat("</g>", c.now.groups))
	c.now, c.pushed = c.pushed[len(c.pushed)-1], c.pushed[:len(c.pushed)-1]
}

func (c *themed) Stroke(p vg.Path) {
	if c.now.width <= 0 {
		return
	}
	class, opacity := classOf(c.now.colour, "l", "axis")
	fmt.Fprintf(&c.out, `<path class="%s" stroke-width="%s"`, class, num(c.now.width))
	if opacity != "" {
		fmt.Fprintf(&c.out, ` stroke-opacity="%s"`, opacity)
	}
	if len(c.now.dashes) > 0 {
		var lengths []string
		for _, d := range c.now.dashes {
			lengths = append(lengths, num(d))
		}
		fmt.Fprintf(&c.out, ` stroke-dasharray="%s"`, strings.Join(lengths, " "))
	}
	fmt.Fprintf(&c.out, ` d="%s"/>`, pathData(p))
}

func (c *themed) Fill(p vg.Path) {
	class, opacity := classOf(c.now.colour, "f", "ink")
	fmt.Fprintf(&c.out, `<path class="%s"`, class)
	if opacity != "" {
		fmt.Fprintf(&c.out, ` fill-opacity="%s"`, opacity)
	}
	fmt.Fprintf(&c.out, ` d="%s"/>`, pathData(p))
}

func (c *themed) FillString(f font.Face, at vg.Point, text string) {
	// Labels were placed by the width of the font that they were measured with; a browser may have another.
	fmt.Fprintf(&c.out, `<text class="ink" transform="matrix(1 0 0 -1 %s %s)" font-size="%s" textLength="%s" lengthAdjust="spacingAndGlyphs">%s</text>`,
		num(at.X), num(at.Y), num(f.Font.Size), num(f.Width(text)), html.EscapeString(text))
}

// DrawImage is never called: no figure has an image.
func (c *themed) DrawImage(vg.Rectangle, image.Image) { panic("chart: a figure has no image") }

// classOf is the class of a colour of the palette, with its opacity if it is not 1; the grid and
// the ground have classes of their own, and everything else is black.
func classOf(c color.Color, letter, black string) (class, opacity string) {
	if c == gridColour {
		return "grid", ""
	}
	if c == ground {
		return letter + "ground", ""
	}
	shaded, ok := c.(color.NRGBA)
	if !ok {
		return black, ""
	}
	for i, p := range palette {
		if p.R == shaded.R && p.G == shaded.G && p.B == shaded.B {
			class = letter + strconv.Itoa(i)
		}
	}
	if shaded.A < 0xff {
		opacity = strconv.FormatFloat(float64(shaded.A)/0xff, 'f', 2, 64)
	}
	return class, opacity
}

// pathData is a path in SVG. Lines are written from point to point, which takes half the bytes of their places.
func pathData(p vg.Path) string {
	var out strings.Builder
	var start, last [2]int // in tenths of a point, as they were written
	place := func(at vg.Point) [2]int {
		return [2]int{int(math.Round(10 * at.X.Points())), int(math.Round(10 * at.Y.Points()))}
	}
	to := func(letter string, points ...vg.Point) {
		out.WriteString(letter)
		for i, at := range points {
			if i > 0 {
				out.WriteByte(' ')
			}
			out.WriteString(num(at.X) + " " + num(at.Y))
		}
		last = place(points[len(points)-1])
	}
	for i, step := range p {
		switch step.Type {
		case vg.MoveComp:
			to("M", step.Pos)
			start = last
		case vg.LineComp:
			if i == 0 || p[i-1].Type != vg.LineComp {
				out.WriteByte('l')
			}
			now := place(step.Pos)
			out.WriteString(tenths(now[0]-last[0], i > 0 && p[i-1].Type == vg.LineComp) + tenths(now[1]-last[1], true))
			last = now
		case vg.CurveComp:
			to(map[int]string{1: "Q", 2: "C"}[len(step.Control)], append(step.Control[:len(step.Control):len(step.Control)], step.Pos)...)
		case vg.ArcComp: // only dots have one: a whole circle
			r := num(step.Radius)
			right, left := step.Pos, step.Pos
			right.X, left.X = right.X+step.Radius, left.X-step.Radius
			to("M", right)
			to("A"+r+" "+r+" 0 1 1 ", left)
			to("A"+r+" "+r+" 0 1 1 ", right)
		case vg.CloseComp:
			out.WriteByte('Z')
			last = start
		}
	}
	return out.String()
}

// tenths writes a number of tenths as shortly as SVG allows; its sign, or a space, separates it from a number before it.
func tenths(n int, after bool) string {
	sign := ""
	switch {
	case n < 0:
		sign, n = "-", -n
	case after:
		sign = " "
	}
	switch whole, rest := n/10, n%10; {
	case rest == 0:
		return sign + strconv.Itoa(whole)
	case whole == 0:
		return sign + "." + strconv.Itoa(rest)
	default:
		return fmt.Sprintf("%s%d.%d", sign, whole, rest)
	}
}
