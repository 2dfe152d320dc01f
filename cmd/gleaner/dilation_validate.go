package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	lab "gleaner/lab/dilation"
)

func newDilationValidate() *cobra.Command {
	var quick bool
	var cores int
	o := lab.Options{}
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Run real jobs side by side and compare with the prediction",
		Long: `Validate runs mixes of real jobs on this machine: standard jobs, a compression of
files, a workload that mostly reads files and one that mostly writes them, and one
of fio if that is installed. It prints how long each job took, and the predictions of
the D-factor and the linear sum (PEVA'16 Figures 3 to 5).

The loading vectors come from other runs than those they are compared with. Jobs
share one core, as in the paper, or more with --cores; the model then assumes that
each job spreads over them evenly. Use a machine that does nothing else.`,
		Example: `  gleaner dilation validate --quick
  gleaner dilation validate --json > validate.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Length, o.Repeat = 800*time.Millisecond, 3
			if quick {
				o.Length, o.Repeat = 400*time.Millisecond, 1
			}
			b, finish, err := newBench(cmd, cores, o.Dir, "running mixes")
			if err != nil {
				return err
			}
			defer finish()
			v, err := b.Validate(cmd.Context(), o)
			if err != nil {
				return err
			}
			finish()
			if wantJSON(cmd) {
				return printJSON(cmd, v)
			}
			return printValidation(cmd.OutOrStdout(), v)
		},
	}
	cmd.Flags().BoolVar(&quick, "quick", false, "shorter jobs, once: under a minute")
	cmd.Flags().IntVar(&cores, "cores", 1, "how many cores the jobs share; 0 for all")
	addBenchDir(cmd, &o.Dir)
	return cmd
}

func printValidation(out io.Writer, v *lab.Validation) error {
	t := newTable("fig", "mix", "job", ">alone s", ">measured s", ">D-factor s", ">off", ">linear sum s", ">off")
	for _, m := range v.Mixes {
		figure, name := m.Figure, m.Name()
		for _, r := range m.Jobs {
			t.row(figure, name, r.Job, twoPlaces(r.Alone), twoPlaces(r.Measured), twoPlaces(r.DFactor), onePlace(r.DFactorOff), twoPlaces(r.Linear), onePlace(r.LinearOff))
			figure, name = "", ""
		}
		t.row("", "", "mean", "", "", "", onePlace(m.DFactorOff), "", onePlace(m.LinearOff))
	}
	if err := t.print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	t = newTable("profiled", "by", ">cpu", ">io", ">rounds", "certain")
	for _, name := range slices.Sorted(maps.Keys(v.Profiles)) {
		p := v.Profiles[name]
		t.row(name, p.Method, wholePercent(p.Load[0].Share), wholePercent(p.Load[1].Share), strconv.Itoa(p.Rounds), yesNo(p.Tight))
	}
	if err := t.print(out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nmean error %s, linear sum %s (paper: 7%%); the D-factor is closer in %d of %d mixes\n%s; others used the machine in %d of %d measurements\n",
		onePlace(v.DFactorOff), onePlace(v.LinearOff), v.Better, len(v.Mixes), "jobs shared "+counted(v.Cores, "core"), v.Disturbed, v.Rounds)
	return err
}

func twoPlaces(s lab.Seconds) string { return fmt.Sprintf("%.2f", float64(s)) }

func onePlace(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
