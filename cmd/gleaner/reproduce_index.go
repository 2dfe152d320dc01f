package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"time"

	"github.com/spf13/cobra"

	"gleaner/chart"
	"gleaner/lab"
	"gleaner/web/page"
)

//go:embed reproduce.html
var reproduceTemplate string

// A reproduced is one experiment with its result.
type reproduced struct {
	Name    string     `json:"name"`
	Title   string     `json:"title"`
	Paper   string     `json:"paper"`
	Command string     `json:"command"`
	Size    string     `json:"size"`
	At      time.Time  `json:"at,omitzero"`
	Seconds float64    `json:"seconds"`
	Cached  bool       `json:"cached"`
	Failed  string     `json:"failed,omitempty"`
	Files   []string   `json:"files"`
	Tables  []tableOut `json:"tables"`

	figures []chart.Figure
}

// Charts are its figures in the colours of the page, as those of the page's lab.
func (r reproduced) Charts() (all []template.HTML, err error) {
	for _, f := range r.figures {
		for _, panel := range f.Panels {
			one, err := page.Chart(panel)
			if err != nil {
				return nil, fmt.Errorf("reproduce: %w", err)
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// tableOut is a table of an experiment as JSON, the paper's figures beside ours.
type tableOut struct {
	Name    string     `json:"name"`
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Notes   []string   `json:"notes"`
}

// Figures reports whether a column is one of figures, not of text.
func (t tableOut) Figures(column int) bool { return page.Table{Rows: t.Rows}.Figures(column) }

func tablesOf(tables []lab.Table) []tableOut {
	out := []tableOut{}
	for _, t := range tables {
		out = append(out, tableOut{t.Name, t.Title, t.Columns, append([][]string{}, t.Rows...), append([]string{}, t.Notes...)})
	}
	return out
}

// saveIndex writes index.html and index.json.
func saveIndex(dir string, all []reproduced) error {
	return saveReport(dir, "index", reproduceTemplate, template.FuncMap{
		"seconds": func(v float64) string { return fmt.Sprintf("%.1f", v) },
	}, struct {
		Version     string       `json:"version"`
		Experiments []reproduced `json:"experiments"`
	}{version(), all})
}

// listExperiments shows every experiment with its last result.
func listExperiments(cmd *cobra.Command, kept cache) error {
	type row struct {
		Name    string     `json:"name"`
		Title   string     `json:"title"`
		Paper   string     `json:"paper"`
		Seconds float64    `json:"seconds"` // that the last run took; 0 if there was none
		At      *time.Time `json:"at"`
		Size    string     `json:"size"`
		Current bool       `json:"current"` // this code computed it
		Tables  []tableOut `json:"tables"`
	}
	rows := []row{}
	t := newTable("experiment", "paper", ">time", "last result", "shows")
	for _, e := range experiments() {
		r := row{Name: e.Name, Title: e.Short, Paper: e.Paper, Tables: []tableOut{}}
		took, result, paper := "-", "never run", e.Paper
		if k, ok := kept.last(e.Name); ok {
			r.Seconds, r.At, r.Size, r.Current, r.Tables = k.Seconds, &k.At, k.Size, k.Code == kept.code, tablesOf(k.Tables)
			took, result = fmt.Sprintf("%.0f s", k.Seconds), k.At.UTC().Format(time.DateOnly)+", "+k.Size
			if !r.Current {
				result += ", by other code"
			}
		}
		if paper == "" {
			paper = "ours"
		}
		rows = append(rows, r)
		t.row(e.Name, paper, took, result, e.Short)
	}
	if wantJSON(cmd) {
		return printJSON(cmd, map[string]any{"experiments": rows})
	}
	return t.print(cmd.OutOrStdout())
}
