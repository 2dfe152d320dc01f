package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gleaner/chart"
	"gleaner/input"
	"gleaner/trace/mine"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/program"
)

// plotTrace draws what was learned: counts against scale with their formulas,
// and the program as a diagram (DOT) of node types, calls and flows.
func plotTrace(cmd *cobra.Command, dir string, model *mine.Model) error {
	fig := chart.Figure{Name: "counts", Columns: 3, Width: 4.5, Height: 2.6}
	for i, c := range model.Curves() {
		if i == 12 {
			break
		}
		fig.Panels = append(fig.Panels, countPanel(c))
	}
	var figures []chart.Figure
	if len(fig.Panels) > 0 {
		figures = append(figures, fig)
	}
	diagram := filepath.Join(dir, "program.dot")
	if err := cmp.Or(os.MkdirAll(dir, 0o755), os.WriteFile(diagram, []byte(model.Diagram()), 0o644)); err != nil {
		return input.Errorf("--plot", "%v", err)
	}
	return saveFigures(cmd, dir, figures, diagram)
}

func countPanel(c mine.Curve) chart.Panel {
	how := "about"
	if c.Exact {
		how = "exactly"
	}
	fitted := chart.Line{Name: fmt.Sprintf("%s %s", how, brief(c.Formula.String(), 30)), Dashed: true}
	top := c.N[len(c.N)-1]
	for n := 1.0; n <= 2*top; n++ {
		fitted.X, fitted.Y = append(fitted.X, n), append(fitted.Y, c.Formula.Eval(program.Vars{program.N: n}))
	}
	return chart.Panel{Title: brief(c.Name, 48), X: "scale n", Y: "calls", Lines: []chart.Line{fitted, {Name: "recorded", X: c.N, Y: c.V, Dots: true}}}
}

// plotIntervals draws the predicted intervals of a checked run against the
// recorded ones.
func plotIntervals(cmd *cobra.Command, dir string, model *mine.Model, run *corpus.Recording) error {
	predicted, recorded := model.Intervals(run)
	if len(recorded) == 0 {
		return nil
	}
	fig := chart.Figure{Name: "intervals", Width: 6, Height: 5, Panels: []chart.Panel{{
		Title: "intervals between calls of a sender", X: "predicted, ms", Y: "recorded, ms", LogX: true, LogY: true,
		Lines: []chart.Line{{X: predicted, Y: recorded, Dots: true}, {Name: "as predicted", X: []float64{0.1, 1e5}, Y: []float64{0.1, 1e5}, Dashed: true}},
	}}}
	return saveFigures(cmd, dir, []chart.Figure{fig})
}
