package page

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"gleaner/chart"
)

// An Experiment is one that can be rerun, with its last result.
type Experiment struct {
	Name, Short, Paper, Command string

	Size    string    // of the last result, in words
	At      time.Time // when it was begun; zero if that is not known
	Seconds float64   // that it took
	Other   bool      // it was made by other code than this gleaner's
	Failed  string    // why it gave no result
	Tables  []Table   // none if it was not run
	Figures []chart.Figure
}

// A Table is one of a result: paper beside ours.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
	Notes   []string
	More    int // rows that are not shown
}

// Figures reports whether all cells of a column are short and have a number, so that they are read as figures below each other;
// all others are text.
func (t Table) Figures(column int) bool {
	figures := false
	for _, row := range t.Rows {
		if column >= len(row) || strings.Trim(row[column], "-–") == "" {
			continue
		}
		if !figure.MatchString(row[column]) {
			return false
		}
		figures = true
	}
	return figures
}

// figure is a number with perhaps a sign before it and a unit or a range after it.
var figure = regexp.MustCompile(`^[-+~<>≈$ ]*[0-9][0-9.,]*[ x×%]*(?:[A-Za-zµ/%]{0,4}|(?:to|-|–|±)[ $]*[0-9.,]+ ?[A-Za-zµ/%]{0,4})$`)

// shownRows is how many rows of a table of a result are shown.
const shownRows = 60

// shownPanels is how many panels of a result are drawn: each weighs some ten kilobytes.
const shownPanels = 12

// experimentData is what the view of an experiment shows.
type experimentData struct {
	Experiment
	Charts []drawing
	More   int    // panels that are not drawn
	Out    string // where results are read from
}

// labData is what the list of experiments shows.
type labData struct {
	All []Experiment
	Run int    // those with a result
	Out string // where results are read from
}

func (s *Site) lab(w http.ResponseWriter, _ *http.Request) {
	all, err := s.Experiments()
	if err != nil {
		failed(w, err)
		return
	}
	d := labData{All: all, Out: s.Results}
	for _, e := range all {
		if len(e.Tables) > 0 {
			d.Run++
		}
	}
	show(w, http.StatusOK, "lab", view{Title: "Lab", At: "/lab", Data: d})
}

func (s *Site) experiment(w http.ResponseWriter, r *http.Request) {
	all, err := s.Experiments()
	if err != nil {
		failed(w, err)
		return
	}
	i := slices.IndexFunc(all, func(e Experiment) bool { return e.Name == r.PathValue("name") })
	if i < 0 {
		missing(w, fmt.Sprintf("There is no experiment %s.", r.PathValue("name")))
		return
	}
	e := all[i]
	e.Tables = slices.Clone(e.Tables)
	for k, t := range e.Tables {
		e.Tables[k].More = max(len(t.Rows)-shownRows, 0)
		e.Tables[k].Rows = shown(t.Rows, shownRows)
	}
	d := experimentData{Experiment: e, Out: s.Results}
	var panels []chart.Panel
	for _, f := range e.Figures {
		panels = append(panels, f.Panels...)
	}
	d.More = max(len(panels)-shownPanels, 0)
	if d.Charts, err = drawAll(shown(panels, shownPanels)...); err != nil {
		failed(w, err)
		return
	}
	show(w, http.StatusOK, "experiment", view{Title: e.Name, At: "/lab", Data: d})
}
