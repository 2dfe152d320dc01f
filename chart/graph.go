package chart

import (
	"io"
	"math"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// A Graph is boxes, each right of those that it comes after, and arrows between
// them.
type Graph struct {
	Nodes []Node
}

// A Node is a box with a name and a note below it. After are the indices of
// nodes before it; there is no circle.
type Node struct {
	Name, Note string
	Colour     int
	After      []int
}

// Sizes in a graph, in points.
const (
	boxHeight  = vg.Length(40)
	boxGap     = vg.Length(14) // between boxes above each other
	columnGap  = vg.Length(36) // between columns, for the arrows
	boxPadding = vg.Length(12)
	edgeWidth  = vg.Length(4) // of the coloured edge that shows a state
	nameSize   = vg.Length(11)
	noteSize   = vg.Length(9)
)

// WriteThemed writes the graph as an svg element; see Figure.WriteThemed.
func (g Graph) WriteThemed(w io.Writer) error {
	boxes, width, height := g.place()
	c := newThemed(width, height)
	for i, n := range g.Nodes {
		for _, before := range n.After {
			arrow(c, boxes[before], boxes[i])
		}
	}
	for i, n := range g.Nodes {
		n.draw(c, boxes[i])
	}
	return c.close(w)
}

// columns are the columns of the nodes: one more than the last of those before.
func (g Graph) columns() []int {
	columns := make([]int, len(g.Nodes))
	for range g.Nodes { // as often as the longest path may be
		for i, n := range g.Nodes {
			for _, before := range n.After {
				columns[i] = max(columns[i], columns[before]+1)
			}
		}
	}
	return columns
}

// place gives every node its box. Each column is as wide as its widest box.
func (g Graph) place() (boxes []vg.Rectangle, width, height vg.Length) {
	columns := g.columns()
	rows := map[int]int{}
	widths := map[int]vg.Length{}
	for i, n := range g.Nodes {
		rows[columns[i]]++
		widths[columns[i]] = max(widths[columns[i]], n.width())
	}
	most := 0
	left := map[int]vg.Length{}
	for column := range len(rows) {
		most = max(most, rows[column])
		left[column] = width
		width += widths[column] + columnGap
	}
	height = vg.Length(most)*(boxHeight+boxGap) - boxGap + 2
	next := map[int]int{}
	for i := range g.Nodes {
		at := columns[i]
		spare := (height - vg.Length(rows[at])*(boxHeight+boxGap) + boxGap) / 2 // columns are centred
		top := height - spare - vg.Length(next[at])*(boxHeight+boxGap)
		next[at]++
		boxes = append(boxes, vg.Rectangle{Min: vg.Point{X: left[at] + 1, Y: top - boxHeight}, Max: vg.Point{X: left[at] + 1 + widths[at], Y: top}})
	}
	return boxes, width - columnGap + 2, height
}

func sans(size vg.Length) font.Face {
	return font.DefaultCache.Lookup(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
}

// wider is by how much a browser's font may be wider than the one measured here.
const wider = 1.2

func (n Node) width() vg.Length {
	name, note := sans(nameSize), sans(noteSize)
	return edgeWidth + 2*boxPadding + wider*max(name.Width(n.Name), note.Width(n.Note))
}

func (n Node) draw(c *themed, at vg.Rectangle) {
	c.SetColor(ground)
	c.Fill(at.Path())
	edge := at
	edge.Max.X = at.Min.X + edgeWidth
	c.SetColor(shade(n.Colour, 0xff))
	c.Fill(edge.Path())
	c.SetLineWidth(1)
	c.Stroke(at.Path())
	text := vg.Point{X: edge.Max.X + boxPadding, Y: at.Min.Y + boxHeight - 16}
	c.FillString(sans(nameSize), text, n.Name)
	text.Y -= 15
	c.FillString(sans(noteSize), text, n.Note)
}

// arrow joins the right of a box to the left of another.
func arrow(c *themed, from, to vg.Rectangle) {
	const head = vg.Length(4)
	start := vg.Point{X: from.Max.X, Y: (from.Min.Y + from.Max.Y) / 2}
	end := vg.Point{X: to.Min.X, Y: (to.Min.Y + to.Max.Y) / 2}
	bend := vg.Length(math.Max(float64(end.X-start.X)/2, 10))
	var line, tip vg.Path
	line.Move(start)
	line.CubeTo(vg.Point{X: start.X + bend, Y: start.Y}, vg.Point{X: end.X - bend, Y: end.Y}, vg.Point{X: end.X - head, Y: end.Y})
	tip.Move(end)
	tip.Line(vg.Point{X: end.X - 2*head, Y: end.Y + head})
	tip.Line(vg.Point{X: end.X - 2*head, Y: end.Y - head})
	tip.Close()
	c.SetColor(shade(7, 0xff))
	c.SetLineWidth(1.3)
	c.Stroke(line)
	c.Fill(tip)
}
