package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	all = append(all, labcurator.Experiments()...)
	return append(all, scc.Experiment(), extrapolate.Experiment())
}

func newReproduce() *cobra.Command {
	var o lab.Options
	var out string
	var again bool
	var names []string
	for _, e := range experiments() {
		names = append(names, fmt.Sprintf("  %-16s %s", e.Name, e.Short))
	}
	cmd := &cobra.Command{
		Use:   "reproduce [all | NAME...]",
		Short: "Rerun the papers' tables and figures, paper and ours side by side",
		Long: `Reproduce reruns the papers' experiments and prints their numbers beside ours. The
same options give the same tables, except for fig10, fig11, fig12, reserve, micro and
extrapolate, which measure this machine. Without a name, it lists all experiments with
their papers, and when each was last run. 'all' reruns all of them: extrapolate builds
a real engine first, once, which takes Go; if that fails, the others are run all the same.

Results are kept in the user's cache by this binary's code and the options, and are
not computed twice; --again computes them anew. With --out, DIR gets index.html and
index.json beside the tables and pictures.

Experiments:
` + strings.Join(names, "\n"),
		Example: `  # All of them, small, with pictures:
  gleaner reproduce all --quick --out out

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
			results, err := openCache()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if flag, some := given(cmd, "quick", "full", "seeds", "days", "target", "traces", "bitbrains", "out", "again"); some {
					return input.Errorf(flag, "is for running: name experiments, or 'all'")
				}
				return listExperiments(cmd, results)
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
			for _, month := range []string{"2013-07.csv.gz", "2013-08.csv.gz"} {
				if _, err := os.Stat(filepath.Join(o.Bitbrains, month)); err != nil && o.Bitbrains != "" {
					return input.Errorf("--bitbrains", "%v", err)
				}
			}
			if out != "" { // some experiments take an hour: a mistake is reported before
				if err := os.MkdirAll(out, 0o755); err != nil {
					return input.Errorf("--out", "%v", err)
				}
			}
			return (&reproduction{cmd: cmd, options: o, results: results, dir: out, again: again}).run(chosen)
		},
	}
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "less to show, in seconds")
	cmd.Flags().BoolVar(&o.Full, "full", false, "as large as the paper, however long it takes")
	cmd.Flags().IntVar(&o.Seeds, "seeds", 1, "repetitions with different seeds")
	cmd.Flags().IntVar(&o.Days, "days", 0, "days to simulate in experiments with jobs (default: depends on the size)")
	cmd.Flags().StringVar(&o.Target, "target", "", "the `ENGINE` of an experiment that has several (extrapolate: etcd, namenode, resourcemanager, apiserver)")
	cmd.Flags().StringVar(&o.Traces, "traces", "", "a `DIR` of recordings, for targets that are not recorded here (extrapolate: namenode, resourcemanager, apiserver)")
	cmd.Flags().StringVar(&o.Bitbrains, "bitbrains", "", "a `DIR` with 2013-07.csv.gz and 2013-08.csv.gz, the Bitbrains traces (GWA-T-12, Rnd) as history files (bitbrains, supply)")
	cmd.Flags().StringVar(&out, "out", "", "save tables as CSV, figures as pictures and an index to `DIR`")
	cmd.Flags().BoolVar(&again, "again", false, "compute anew what is in the cache")
	return cmd
}

func chooseExperiments(args []string) ([]lab.Experiment, error) {
	all := experiments()
	if slices.Equal(args, []string{"all"}) {
		return all, nil
	}
	var out []lab.Experiment
	var known []string
	for _, e := range all {
		known = append(known, e.Name)
	}
	for _, name := range args {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, input.Errorf("NAME", "there is no experiment %q; there are %s; 'all', alone, runs them", name, strings.Join(known, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// A reproduction is one run of several experiments.
type reproduction struct {
	cmd     *cobra.Command
	options lab.Options
	results cache
	dir     string // "" if nothing is saved
	again   bool
	done    []reproduced
}

// run runs the experiments. If one of several fails, the others are run before that is
// reported.
func (r *reproduction) run(chosen []lab.Experiment) error {
	var failed error
	for _, e := range chosen {
		err := r.one(e)
		if r.cmd.Context().Err() != nil {
			return r.cmd.Context().Err()
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("reproduce %s: %w", e.Name, err))
			r.done[len(r.done)-1].Failed = err.Error()
		}
	}
	if r.dir != "" {
		if err := saveIndex(r.dir, r.done); err != nil {
			return err
		}
	}
	if wantJSON(r.cmd) && failed == nil {
		tables := []tableOut{}
		for _, d := range r.done {
			tables = append(tables, d.Tables...)
		}
		return printJSON(r.cmd, map[string]any{"tables": tables, "experiments": r.done})
	}
	return failed
}

// one runs one experiment, or takes its result from the cache; it prints and saves it.
func (r *reproduction) one(e lab.Experiment) error {
	r.done = append(r.done, reproduced{Name: e.Name, Title: e.Short, Paper: e.Paper, Command: r.command(e.Name), Size: sizeOf(r.options), Files: []string{}, Tables: []tableOut{}})
	out := &r.done[len(r.done)-1]
	result, cached := r.results.get(e.Name, out.Size)
	if cached = cached && !r.again; !cached {
		var err error
		if result, err = r.compute(e); err != nil {
			return err
		}
	}
	out.At, out.Seconds, out.Cached, out.Tables, out.figures = result.At, result.Seconds, cached, tablesOf(result.Tables), result.Figures
	if !wantJSON(r.cmd) {
		for _, t := range result.Tables {
			if err := t.WriteText(r.cmd.OutOrStdout()); err != nil {
				return err
			}
			fmt.Fprintln(r.cmd.OutOrStdout())
		}
		if cached {
			fmt.Fprintf(r.cmd.ErrOrStderr(), "%s was computed on %s; --again computes it anew\n", e.Name, clock(result.At))
		}
	}
	if r.dir == "" {
		return nil
	}
	return out.save(r.dir, result)
}

func (r *reproduction) compute(e lab.Experiment) (kept, error) {
	begun := time.Now()
	bar := newProgress(r.cmd, e.Name, 0)
	defer bar.finish()
	o := r.options
	o.Progress = bar.set
	tables, figures, err := e.Run(r.cmd.Context(), o)
	if err != nil {
		return kept{}, err
	}
	k := kept{Code: r.results.code, Size: sizeOf(r.options), Command: r.command(e.Name), At: begun, Seconds: time.Since(begun).Seconds(), Tables: tables, Figures: figures}
	return k, r.results.put(e.Name, k)
}

// command is the command line that makes the same.
func (r *reproduction) command(name string) string {
	words := []string{"gleaner", "reproduce", name}
	r.cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "out", "again", "json":
		case "quick", "full":
			words = append(words, "--"+f.Name)
		default:
			words = append(words, "--"+f.Name, f.Value.String())
		}
	})
	return shellLine(words)
}

// save writes an experiment's tables and pictures to a directory of its own.
func (r *reproduced) save(dir string, result kept) error {
	own := filepath.Join(dir, r.Name)
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	for _, t := range result.Tables {
		if err := writeFile(filepath.Join(own, t.Name+".csv"), t.WriteCSV); err != nil {
			return fmt.Errorf("reproduce: %w", err)
		}
		r.Files = append(r.Files, r.Name+"/"+t.Name+".csv")
	}
	for _, f := range result.Figures {
		paths, err := f.Save(own)
		if err != nil {
			return err
		}
		for _, path := range paths {
			r.Files = append(r.Files, r.Name+"/"+filepath.Base(path))
		}
	}
	return nil
}
