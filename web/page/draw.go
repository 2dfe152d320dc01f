package page

import (
	"bytes"
	"html/template"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"gleaner/chart"
)

// A drawing is a chart with its title, its legend and its numbers.
type drawing struct {
	Title        string
	Unit         string // of the values that can be read off it; empty if none can be read
	Keys         []chart.Key
	Wide, Narrow template.HTML // for wide and narrow windows
	Head         []string
	Rows         [][]string
	Every        int // one of so many rows is there; 1 for all
}

// Widths of charts in inches, so that their text is as large as other text: of the
// page, of half of it, and of a phone.
const (
	full  = 11.4
	half  = 5.55
	phone = 3.7
	usual = 2.7 // height
)

// draw draws a panel that is that many inches wide and high.
func draw(panel chart.Panel, width, height float64) (drawing, error) {
	d := drawing{Title: panel.Title, Unit: panel.Y, Keys: panel.Keys(), Every: 1}
	d.Head, d.Rows = panel.Table()
	if len(panel.Spans.Rows) == 0 { // every span can be read off
		d.Every = (len(d.Rows) + mostRows - 1) / mostRows
		d.Rows = each(d.Rows, d.Every)
	}
	panel.Lines = slices.Clone(panel.Lines)
	for i, l := range panel.Lines {
		panel.Lines[i] = thin(l)
	}
	for _, size := range []struct {
		width float64
		into  *template.HTML
	}{{width, &d.Wide}, {phone, &d.Narrow}} {
		var svg bytes.Buffer
		figure := chart.Figure{Panels: []chart.Panel{panel}, Width: size.width, Height: height}
		if err := figure.WriteThemed(&svg); err != nil {
			return d, err
		}
		*size.into = template.HTML(svg.String()) // chart escapes its texts
	}
	return d, nil
}

// The most rows of a table and points of a line, so that a view stays light.
const (
	mostRows   = 60
	mostPoints = 400
)

// each is one of so many rows.
func each(rows [][]string, every int) (some [][]string) {
	for i := 0; i < len(rows); i += every {
		some = append(some, rows[i])
	}
	return some
}

// thin keeps the lowest and the highest of each few points of a long line, so that it looks the
// same.
func thin(l chart.Line) chart.Line {
	if len(l.X) <= mostPoints {
		return l
	}
	few := (2*len(l.X) + mostPoints - 1) / mostPoints
	var x, y []float64
	keep := func(i int) { x, y = append(x, l.X[i]), append(y, l.Y[i]) }
	for from := 0; from < len(l.X); from += few {
		low, high := from, from
		for i := from; i < min(from+few, len(l.X)); i++ {
			if l.Y[i] < l.Y[low] {
				low = i
			}
			if l.Y[i] > l.Y[high] {
				high = i
			}
		}
		keep(min(low, high))
		if low != high {
			keep(max(low, high))
		}
	}
	l.X, l.Y = x, y
	return l
}

// drawAll draws panels that are half as wide as the page, several at once.
func drawAll(panels ...chart.Panel) ([]drawing, error) {
	all := make([]drawing, len(panels))
	var todo errgroup.Group
	todo.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range panels {
		todo.Go(func() (err error) {
			all[i], err = draw(p, half, usual)
			return err
		})
	}
	return all, todo.Wait()
}

// Chart is a panel as a part of a page that has Style: with its title, its legend and its numbers as a table.
func Chart(panel chart.Panel) (template.HTML, error) {
	d, err := draw(panel, half, usual)
	if err != nil {
		return "", err
	}
	d.Unit = "" // reports have no scripts
	var out bytes.Buffer
	err = templates()["missing"].ExecuteTemplate(&out, "chart", d)
	return template.HTML(out.String()), err // the template escapes
}

// Style is the style sheet of all pages, for reports that stand alone.
func Style() template.CSS {
	text, _ := assets.ReadFile("assets/page.css") // it is in the binary
	return template.CSS(text)
}
