package page

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"gleaner/chart"
	"gleaner/control/loads"
	"gleaner/dilation"
)

// slowdownData is what the view of slow-downs shows.
type slowdownData struct {
	Machine dilation.Machine
	Stages  []stageRow
	Chart   drawing // predicted against measured
	Mixed   int     // tasks in the mix
	More    int     // stages that are not listed
}

// A stageRow is a stage with its part in the mix.
type stageRow struct {
	loads.Learned
	Count  int     // tasks in the mix
	Factor float64 // by how much each is stretched there
}

// Most that is shown: stages, and tasks of one in the mix.
const (
	shownStages = 50
	mostMixed   = 64
)

func (s *Site) slowdown(w http.ResponseWriter, r *http.Request) {
	learned, machine := s.Learned()
	d := slowdownData{Machine: machine, More: max(len(learned)-shownStages, 0)}
	for _, l := range learned[:len(learned)-d.More] {
		n, err := strconv.Atoi(r.URL.Query().Get("n-" + l.Stage))
		if err != nil {
			n = 1
		}
		d.Stages = append(d.Stages, stageRow{Learned: l, Count: min(max(n, 0), mostMixed)})
	}
	d.mix()
	if len(d.Stages) > 0 {
		var err error
		if d.Chart, err = draw(d.provenPanel(), full, 3.2); err != nil {
			failed(w, err)
			return
		}
	}
	show(w, http.StatusOK, "slowdown", view{Title: "Slow-down", At: "/slowdown", Data: d})
}

// mix predicts by how much each task is stretched when all of the mix run together.
func (d *slowdownData) mix() {
	total := d.Machine.Sum()
	for _, st := range d.Stages {
		d.Mixed += st.Count
		for range st.Count {
			total.Add(st.Load)
		}
	}
	for i, st := range d.Stages {
		if st.Count > 0 {
			d.Stages[i].Factor = d.Machine.Factor(st.Load, total)
		}
	}
}

// provenPanel shows each run that was observed: on the line, the prediction was right.
func (d *slowdownData) provenPanel() chart.Panel {
	runs, right := chart.Line{Name: "runs", Dots: true}, chart.Line{Name: "equal", Dashed: true}
	for _, st := range d.Stages {
		runs.X, runs.Y = append(runs.X, st.Predicted...), append(runs.Y, st.Measured...)
	}
	if len(runs.X) > 0 {
		ends := []float64{1, max(slices.Max(runs.X), 1.01)}
		right.X, right.Y = ends, ends
	}
	return chart.Panel{Title: "Predicted against measured", X: "predicted (× alone)", Y: "measured (× alone)", Lines: []chart.Line{runs, right}}
}

// Field is the name of the stage's number in the form.
func (r stageRow) Field() string { return "n-" + r.Stage }

// Shares are the parts of its time on each resource, as text.
func (r stageRow) Shares() (all []string) {
	for _, share := range r.Load {
		all = append(all, fmt.Sprintf("%.0f%%", 100*share))
	}
	return all
}
