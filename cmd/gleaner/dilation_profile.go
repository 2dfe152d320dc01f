package main

import (
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/input"
	lab "gleaner/lab/dilation"
)

func newDilationProfile() *cobra.Command {
	o := lab.ProfileOptions{}
	var cores int
	var dir string
	cmd := &cobra.Command{
		Use:   "profile [flags] -- COMMAND [ARGUMENT]...",
		Short: "Find a job's loading vector from the times it takes",
		Long: `Profile runs a command again and again, alone and beside other jobs, and finds from
its times what share of its time it spends on a core and on the disk:

  identical   beside copies of itself. Two vectors explain the times equally
              well; the kernel's account of what the job waits for decides.
  probe       beside standard jobs that keep only cores, or only the disk, busy.
  regression  both, and the vector that explains all of it best.

It goes on until the bounds of the vector (95% confidence) are within --tolerance,
or reports that they are not. Measurements in which others use the machine are
repeated. The command must do the same work every time it is run.`,
		Example: `  gleaner dilation profile -- gzip -kf big.log
  gleaner dilation profile --method identical --copies 3 -- ./report.sh
  gleaner dilation profile --json -- ./report.sh > report.json    # for 'predict'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkProfile(cmd, o, args); err != nil {
				return err
			}
			b, finish, err := newBench(cmd, cores, dir, "profiling")
			if err != nil {
				return err
			}
			defer finish()
			p, err := b.Profile(cmd.Context(), args, o)
			if err != nil {
				return err
			}
			finish()
			if wantJSON(cmd) {
				return printJSON(cmd, p)
			}
			return printProfile(cmd.OutOrStdout(), p, o.Tolerance, b.Disturbed)
		},
	}
	cmd.Flags().StringVar(&o.Method, "method", lab.Probe, "how: "+strings.Join(lab.Methods(), ", "))
	cmd.Flags().IntVar(&o.Copies, "copies", 2, "of the command at once, for identical and regression")
	cmd.Flags().Float64Var(&o.Tolerance, "tolerance", 0.05, "how far the bounds of a share may be from it")
	cmd.Flags().IntVar(&o.Least, "least", 3, "rounds at least")
	cmd.Flags().IntVar(&o.Most, "most", 12, "rounds at most")
	cmd.Flags().IntVar(&cores, "cores", 1, "how many cores the jobs share; 0 for all")
	addBenchDir(cmd, &dir)
	return cmd
}

func checkProfile(cmd *cobra.Command, o lab.ProfileOptions, args []string) error {
	switch {
	case len(args) == 0:
		return input.Errorf("", "'%s' needs a command to run, after --", cmd.CommandPath())
	case !slices.Contains(lab.Methods(), o.Method):
		return input.Errorf("--method", "there is no %q; there are %s", o.Method, strings.Join(lab.Methods(), ", "))
	case o.Copies < 2 || o.Copies > 64:
		return input.Errorf("--copies", "%d is not between 2 and 64", o.Copies)
	case !(o.Tolerance > 0):
		return input.Errorf("--tolerance", "%g is not more than 0", o.Tolerance)
	case o.Least < 1:
		return input.Errorf("--least", "%d is less than 1", o.Least)
	case o.Most < o.Least:
		return input.Errorf("--most", "%d is less than --least %d", o.Most, o.Least)
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return input.Errorf("", "there is no command %q", args[0])
	}
	return nil
}

func printProfile(out io.Writer, p *lab.Profile, tolerance float64, disturbed int) error {
	fmt.Fprintf(out, "alone it takes %.3f s (%s, on %s)\n\n", float64(p.Alone), counted(p.Rounds, "round"), counted(p.Cores, "core"))
	t := newTable("resource", ">share of its time", ">at least", ">at most")
	for _, s := range p.Load {
		t.row(s.Resource, wholePercent(s.Share), wholePercent(s.Low), wholePercent(s.High))
	}
	if err := t.print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if p.IO >= 0 {
		fmt.Fprintf(out, "alone, the kernel saw it on a core for %s of its time, and the machine stalled for the disk for %s\n", wholePercent(p.CPU), wholePercent(p.IO))
	}
	if p.Other != nil {
		told := "decided by " + p.Told
		if p.Told == "" {
			told = "nothing decides between them: use --method probe"
		}
		fmt.Fprintf(out, "a share of cpu of %s explains the times as well; %s\n", wholePercent(*p.Other), told)
	}
	if !p.Tight {
		fmt.Fprintf(out, "NOT CERTAIN: after %s the bounds are still wider than %g\n", counted(p.Rounds, "round"), tolerance)
	}
	if disturbed > 0 {
		fmt.Fprintf(out, "others used the machine in %s\n", counted(disturbed, "measurement"))
	}
	return nil
}

func wholePercent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
