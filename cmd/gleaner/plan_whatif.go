package main

import (
	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/spec"
)

// whatIf is what is changed against the documents.
type whatIf struct {
	set, pin, forbid []string
	harvest          string
}

func (w *whatIf) registerSet(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&w.set, "set", nil, "change an attribute: `PATH=VALUE`, such as storage_unit/SSD/price=$300, task/view/step/2/time=5ms or sla/*/rate=x2 (may be repeated)")
}

func (w *whatIf) registerLimits(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.harvest, "harvest", "", "harvested capacity that batch tasks may use: a `file` as 'gleaner plan supply' writes it")
	cmd.Flags().StringArrayVar(&w.pin, "pin", nil, "a dataset must use a storage unit: `DATASET=UNIT`, or UNIT+UNIT for a store and its cache (may be repeated)")
	cmd.Flags().StringArrayVar(&w.forbid, "forbid", nil, "a dataset must not use a storage unit: `[DATASET=]UNIT` (may be repeated)")
}

// settings is the edit of the documents.
func (w *whatIf) settings() (spec.Edit, error) {
	var out []spec.Setting
	for _, text := range w.set {
		s, err := spec.ParseSetting(text)
		if err != nil {
			return nil, input.Errorf("--set", "%v", err)
		}
		out = append(out, s)
	}
	return spec.Set(out), nil
}

// fieldsAsFlags names the flags of mistakes in fields, which are settings.
func fieldsAsFlags(all input.Errors) input.Errors {
	for _, e := range all {
		if e.Field != "" {
			e.Where, e.Field = "--"+e.Field, ""
		}
	}
	return all
}

func (w *whatIf) limits(in plan.Input) ([]plan.Limit, error) {
	var out []plan.Limit
	for _, kind := range []struct {
		flag  string
		texts []string
		parse func(plan.Input, string) (plan.Limit, error)
	}{{"--pin", w.pin, plan.ParsePin}, {"--forbid", w.forbid, plan.ParseForbid}} {
		for _, text := range kind.texts {
			l, err := kind.parse(in, text)
			if err != nil {
				return nil, input.Errorf(kind.flag, "%v", err)
			}
			out = append(out, l)
		}
	}
	return out, nil
}
