package chart

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// A Key is an entry of a legend: a name and the number of its colour, which is
// Faint for a band.
type Key struct {
	Name   string
	Colour int
	Faint  bool
}

// Keys are the entries of the panel's legend.
func (panel Panel) Keys() []Key {
	var keys []Key
	add := func(name string, colour int) {
		if name != "" {
			keys = append(keys, Key{Name: name, Colour: colour % len(palette)})
		}
	}
	first := 0 // colour of the lines; see plot
	for i, b := range panel.Bands {
		if b.Name != "" {
			keys = append(keys, Key{b.Name, i % len(palette), true})
		}
		if len(panel.Lines) != len(panel.Bands) {
			first++
		}
	}
	for i, l := range panel.Lines {
		add(l.Name, first+i)
	}
	for i, name := range panel.Bars.Names {
		add(name, panel.Bars.colour(i))
	}
	for _, layer := range panel.Stack.Layers {
		add(layer.Name, layer.Colour)
	}
	return append(keys, panel.Spans.Keys...)
}

// Table is the panel's numbers: a heading and rows of cells. Lines that have other
// places on the axis than the first have columns of their own.
func (panel Panel) Table() (head []string, rows [][]string) {
	switch {
	case len(panel.Spans.Rows) > 0:
		return panel.spanTable()
	case len(panel.Bars.Groups) > 0:
		return panel.barTable()
	}
	var columns [][]float64
	var shared []float64
	column := func(name string, x, y []float64) {
		if shared == nil || !equal(x, shared) {
			shared = x
			head, columns = append(head, panel.X), append(columns, x)
		}
		if name == "" {
			name = panel.Y
		}
		head, columns = append(head, name), append(columns, y)
	}
	for _, layer := range panel.Stack.Layers {
		column(layer.Name+", "+panel.Y, panel.Stack.X, layer.Values)
	}
	for _, b := range panel.Bands {
		column(b.Name+", low", b.X, b.Low)
		column(b.Name+", high", b.X, b.High)
	}
	for _, l := range panel.Lines {
		column(l.Name, l.X, l.Y)
	}
	for i, longest := 0, longestOf(columns); i < longest; i++ {
		row := make([]string, len(columns))
		for c, values := range columns {
			if i < len(values) {
				row[c] = panel.cell(values[i], head[c] == panel.X)
			}
		}
		rows = append(rows, row)
	}
	return head, rows
}

func (panel Panel) cell(v float64, onX bool) string {
	switch {
	case onX && panel.Time:
		return time.Unix(int64(v), 0).UTC().Format(time.DateTime)
	case math.IsNaN(v):
		return ""
	case math.Abs(v) >= 1000 && math.Abs(v) < 1e15:
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func (panel Panel) barTable() (head []string, rows [][]string) {
	head = []string{panel.X}
	for _, name := range panel.Bars.Names {
		head = append(head, name+", "+panel.Y)
	}
	for j, group := range panel.Bars.Groups {
		row := []string{group}
		for i := range panel.Bars.Names {
			row = append(row, panel.cell(panel.Bars.Values[i][j], false))
		}
		rows = append(rows, row)
	}
	return head, rows
}

func (panel Panel) spanTable() (head []string, rows [][]string) {
	names := map[int]string{}
	for _, k := range panel.Spans.Keys {
		names[k.Colour] = k.Name
	}
	layout, digits := time.DateTime+".0", 1
	if slices.ContainsFunc(panel.Spans.All, func(s Span) bool { return s.To-s.From < 1 }) {
		layout, digits = time.DateTime+".000", 3
	}
	for _, s := range panel.Spans.All {
		rows = append(rows, []string{panel.Spans.Rows[s.Row], time.UnixMilli(int64(math.Round(1000 * s.From))).UTC().Format(layout), strconv.FormatFloat(s.To-s.From, 'f', digits, 64), names[s.Colour]})
	}
	return []string{panel.Y, "from", "for, seconds", "end"}, rows
}

func equal(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func longestOf(columns [][]float64) (n int) {
	for _, c := range columns {
		n = max(n, len(c))
	}
	return n
}
