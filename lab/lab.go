// Package lab holds the experiments: each reruns a table or figure of the
// papers, or one of our own, and returns it as plain data.
package lab

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gleaner/chart"
)

// An Experiment reruns a table or figure of a paper, or a claim of ours. Unless it
// has an engine, it is a pure function of its options: the same options give the
// same tables.
type Experiment struct {
	Name  string // as typed
	Short string // what it shows, in a line
	Paper string // whose table or figure it is, and which; "" if it is our own
	// Engine says that it measures a real engine, which is built or fetched first.
	Engine bool
	Run    func(context.Context, Options) ([]Table, []chart.Figure, error)
}

// Options are how thorough an experiment is.
type Options struct {
	Quick bool // seconds instead of minutes, with less to show
	Full  bool // as large as the paper, however long it takes
	Seeds int  // repetitions with different seeds; at least 1
	Days  int  // simulated of the compute experiments; 0: as many as the size has
	// Target is the engine, for an experiment that has several; "": its first.
	Target string
	// Traces is a directory of recordings, for an experiment that makes none itself.
	Traces string
	// Bitbrains is a directory of the Bitbrains traces; "" for the usual place.
	Bitbrains string
	// Progress, if not nil, is called with how many of an experiment's runs are done.
	Progress func(done, of int)
}

// Done calls Progress, if not nil.
func (o Options) Done(done, of int) {
	if o.Progress != nil {
		o.Progress(done, of)
	}
}

// A Table is a result in rows, the paper's beside ours if there is a paper.
type Table struct {
	Name    string // of its file, without ending
	Title   string
	Columns []string
	Rows    [][]string
	Notes   []string // assumptions, and why something differs
}

// Add appends a row; values are written as fmt.Sprint does.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

// WriteText writes the table for people.
func (t Table) WriteText(w io.Writer) error {
	width := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	out.WriteString(t.Title + "\n")
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString("  " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	for _, note := range t.Notes {
		out.WriteString("  * " + note + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// WriteCSV writes the columns and rows for programs.
func (t Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(t.Columns); err != nil {
		return err
	}
	return c.WriteAll(t.Rows)
}
