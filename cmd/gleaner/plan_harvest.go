package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/spec"
)

// harvested reads the document of harvested capacity, if one is named.
func (w *whatIf) harvested(edits []spec.Edit) (*spec.Harvested, error) {
	if w.harvest == "" {
		return nil, nil
	}
	data, err := readSpec("--harvest", w.harvest)
	if err != nil {
		return nil, err
	}
	h, err := spec.ReadHarvested(w.harvest, data, edits...)
	var mistakes input.Errors
	if errors.As(err, &mistakes) {
		err = fieldsAsFlags(mistakes)
	}
	return &h, err
}

type planHarvest struct {
	Phase     string   `json:"phase"`
	Tasks     []string `json:"tasks"`
	Share     float64  `json:"share"`
	Cores     float64  `json:"cores"`
	CoreHours float64  `json:"core_hours"`
	Redo      float64  `json:"redo"`
}

func harvestJSON(in plan.Input, p plan.Plan) []planHarvest {
	var out []planHarvest
	for _, h := range p.Needs.Harvest {
		row := planHarvest{Phase: p.Needs.Phases[h.Phase], Share: h.Share, Cores: h.Cores, CoreHours: h.Cores * h.Hours, Redo: h.Redo}
		for _, t := range h.Tasks {
			row.Tasks = append(row.Tasks, in.App.Tasks[t].Name)
		}
		out = append(out, row)
	}
	return out
}

// printHarvest says what is planned on harvested cores, and that no task could be.
func printHarvest(w io.Writer, in plan.Input, p plan.Plan) {
	rows := harvestJSON(in, p)
	for _, h := range rows {
		fmt.Fprintf(w, "Harvested: %s cores of %s for %s core-hours take %.1f%% of %s; kills cost %.1f%% of that work again.\n",
			plan.Figure(h.Cores), in.Harvested.Name, plan.Figure(h.CoreHours), 100*h.Share, strings.Join(h.Tasks, " and "), 100*(h.Redo-1))
	}
	if in.Harvested != nil && len(rows) == 0 {
		fmt.Fprintln(w, "Harvested: nothing. Only tasks of a batch job that have harvest=, no local data and no memory of each instance may be, and requests never.")
	}
}

// refuseHarvested refuses to simulate a cluster without the cores that were
// harvested for it.
func refuseHarvested(file string, data []byte) error {
	var c struct {
		Harvested []json.RawMessage `json:"harvested"`
	}
	if json.Unmarshal(data, &c) == nil && len(c.Harvested) > 0 {
		return input.Errorf(file, "a part of this job is planned on harvested cores, which are not simulated here; 'gleaner simulate compute' does, and a plan without --harvest can be checked")
	}
	return nil
}
