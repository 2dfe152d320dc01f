package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/chart"
	"gleaner/input"
	"gleaner/lab"
	"gleaner/lab/colocation"
	"gleaner/lab/compute"
	labcurator "gleaner/lab/curator"
	"gleaner/lab/extrapolate"
	"gleaner/lab/scc"
	labstorage "gleaner/lab/storage"
)

// experiments are all experiments, in the order they are listed and run.
func experiments() []lab.Experiment {
	all := append(colocation.Experiments(), compute.Experiments()...)
	all = append(all, labstorage.Experiments()...)
	return append(all, labcurator.Experiment(), scc.Experiment(), extrapolate.Experiment())
}

func newReproduce() *cobra.Command {
	var o lab.Options
	var out string
	var names []string
	for _, e := range experiments() {
		names = append(names, fmt.Sprintf("  %-16s %s", e.Name, e.Short))
	}
	cmd := &cobra.Command{
		Use:   "reproduce [NAME...]",
		Short: "Rerun the papers' tables and figures, paper and ours side by side",
		Long: `Reproduce reruns the papers' experiments and prints their numbers beside ours. The
same options give the same tables, except for fig10, fig11, fig12, micro and
extrapolate, which measure this machine. Without a name, all experiments are rerun
except extrapolate, which needs a real engine.

Experiments:
` + strings.Join(names, "\n"),
		Example: `  # All of them, small, with pictures:
  gleaner reproduce --quick --out out

  # One, as large as the paper:
  gleaner reproduce fig15 --full --seeds 5

  # From traces of a real etcd to the scale at which it gives in:
  gleaner reproduce extrapolate --target etcd --quick --out out`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Quick && o.Full {
				return input.Errorf("--quick", "excludes --full")
			}
			if o.Seeds < 1 || o.Seeds > 1000 {
				return input.Errorf("--seeds", "%d is not from 1 to 1000", o.Seeds)
			}
			if o.Days < 0 || o.Days > 365 {
				return input.Errorf("--days", "%d is not from 1 to 365", o.Days)
			}
			chosen, err := chooseExperiments(args)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(chosen, func(e lab.Experiment) bool { return e.Engine }) {
				if flag, ok := given(cmd, "target", "traces"); ok {
					return input.Errorf(flag, "is for extrapolate only, which is not rerun here")
				}
			}
			if out != "" { // a mistake is reported before anything runs
				if err := os.MkdirAll(out, 0o755); err != nil {
					return input.Errorf("--out", "%v", err)
				}
			}
			return reproduce(cmd, chosen, o, out)
		},
	}
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "less to show, in seconds")
	cmd.Flags().BoolVar(&o.Full, "full", false, "as large as the paper, however long it takes")
	cmd.Flags().IntVar(&o.Seeds, "seeds", 1, "repetitions with different seeds")
	cmd.Flags().IntVar(&o.Days, "days", 0, "days to simulate in experiments with jobs (default: depends on the size)")
	cmd.Flags().StringVar(&o.Target, "target", "", "the `ENGINE` of an experiment that has several (extrapolate: etcd, namenode, resourcemanager)")
	cmd.Flags().StringVar(&o.Traces, "traces", "", "a `DIR` of recordings, for targets that are not recorded here (extrapolate: namenode, resourcemanager)")
	cmd.Flags().StringVar(&out, "out", "", "save tables as CSV and figures as pictures to `DIR`")
	return cmd
}

func chooseExperiments(args []string) ([]lab.Experiment, error) {
	all := experiments()
	if len(args) == 0 {
		return slices.DeleteFunc(all, func(e lab.Experiment) bool { return e.Engine }), nil
	}
	var out []lab.Experiment
	var known []string
	for _, e := range all {
		known = append(known, e.Name)
	}
	for _, name := range args {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, input.Errorf("NAME", "there is no experiment %q; there are %s", name, strings.Join(known, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func reproduce(cmd *cobra.Command, chosen []lab.Experiment, o lab.Options, dir string) error {
	if dir != "" { // some experiments take an hour: a mistake is reported before
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return input.Errorf("--out", "%v", err)
		}
	}
	var all []lab.Table
	for _, e := range chosen {
		bar := newProgress(cmd, e.Name, 0)
		o.Progress = bar.set
		tables, figures, err := e.Run(cmd.Context(), o)
		bar.finish()
		if err != nil {
			return fmt.Errorf("reproduce %s: %w", e.Name, err)
		}
		all = append(all, tables...)
		if !wantJSON(cmd) {
			for _, t := range tables {
				if err := t.WriteText(cmd.OutOrStdout()); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout())
			}
		}
		if dir != "" {
			if err := saveExperiment(filepath.Join(dir, e.Name), tables, figures); err != nil {
				return err
			}
		}
	}
	if wantJSON(cmd) {
		return printJSON(cmd, tablesJSON(all))
	}
	return nil
}

func saveExperiment(dir string, tables []lab.Table, figures []chart.Figure) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, t := range tables {
		var buf bytes.Buffer
		if err := t.WriteCSV(&buf); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, t.Name+".csv"), buf.Bytes(), 0o644); err != nil {
			return fmt.Errorf("reproduce: %w", err)
		}
	}
	for _, f := range figures {
		if _, err := f.Save(dir); err != nil {
			return err
		}
	}
	return nil
}

func tablesJSON(tables []lab.Table) any {
	type table struct {
		Name    string     `json:"name"`
		Title   string     `json:"title"`
		Columns []string   `json:"columns"`
		Rows    [][]string `json:"rows"`
		Notes   []string   `json:"notes"`
	}
	out := []table{}
	for _, t := range tables {
		out = append(out, table{t.Name, t.Title, t.Columns, t.Rows, append([]string{}, t.Notes...)})
	}
	return map[string]any{"tables": out}
}
