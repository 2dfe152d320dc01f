package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/input"
	"gleaner/simulation"
)

// supplyFlags are a datacenter as 'gleaner simulate compute' takes it, and the tasks that
// are offered to it.
type supplyFlags struct {
	computeFlags
	task   time.Duration
	memory int
	bw     string
	label  string
	margin float64
}

func newPlanSupply() *cobra.Command {
	f := supplyFlags{}
	f.run.Load = simulation.Load
	cmd := &cobra.Command{
		Use:   "supply [--datacenter NAME | --history FILE --servers FILE]",
		Short: "Measure what can be harvested, as a document for 'gleaner plan --harvest'",
		Long: `Supply simulates the last days of a history with more batch tasks than its servers can
take beside their primaries, and writes what was harvested: cores by hour of the week
(UTC), kills in a core-hour, and the work that a kill cost. 'gleaner plan --harvest FILE'
plans batch tasks on it.

Classes are learned from --teach or, without it, from the days before the simulated ones.`,
		Example: `  gleaner plan supply --history july.csv.gz --servers servers.csv --days 16 > supply.yaml
  gleaner plan --app app.yaml --hw hw.yaml --sla job.yaml --harvest supply.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.measure(cmd) },
	}
	f.register(cmd, "server,environment,function,rack,cores,memory_mb,…")
	cmd.Flags().StringArrayVar(&f.history, "history", nil, "history files (time,server,cpu), whose last --days are simulated; may be given again")
	cmd.Flags().StringArrayVar(&f.teach, "teach", nil, "history files to learn the classes from, up to the simulated days; may be given again")
	cmd.Flags().StringVar(&f.run.Policy, "policy", "history", strings.Join(harvest.PolicyNames(), ", "))
	cmd.Flags().IntVar(&f.days, "days", 14, "days to simulate")
	cmd.Flags().Uint64Var(&f.run.Seed, "seed", 1, "seed of all random numbers")
	cmd.Flags().DurationVar(&f.task, "task", time.Hour, "how long a task runs")
	cmd.Flags().IntVar(&f.memory, "memory-mb", 2048, "memory that a task holds beside its core")
	cmd.Flags().StringVar(&f.bw, "bandwidth", "100Mbps", "network that a task may use, as plan documents write it")
	cmd.Flags().Float64Var(&f.margin, "margin", 0.1, "share of what was harvested that is not promised")
	cmd.Flags().StringVar(&f.label, "name", "harvested", "what the capacity is called")
	return cmd
}

func (f *supplyFlags) measure(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.task < time.Minute || f.task > 24*time.Hour {
		return input.Errorf("--task", "%v is not between 1m and 24h", f.task)
	}
	if !(f.margin >= 0 && f.margin < 1) {
		return input.Errorf("--margin", "%g is not a share, from 0 to 1", f.margin)
	}
	if f.memory < 1 {
		return input.Errorf("--memory-mb", "%d is not positive", f.memory)
	}
	d, err := f.prepare(cmd)
	if err != nil {
		return err
	}
	bar := newProgress(cmd, "days", int64(f.days))
	defer bar.finish()
	s := simulation.Supply{Policy: f.run.Policy, Classes: f.run.Classes, Task: f.task, Memory: cluster.Bytes(f.memory) << 20, Seed: f.run.Seed}
	got, err := s.Run(cmd.Context(), d, func(share float64) error {
		bar.add(int64(share*float64(f.days)) - bar.done)
		return cmd.Context().Err()
	})
	if err != nil {
		return err
	}
	bar.finish()
	if wantJSON(cmd) {
		return printJSON(cmd, f.json(got))
	}
	return f.write(cmd.OutOrStdout(), got)
}

// promise is the mean week, less the margin.
func (f *supplyFlags) promise(got simulation.Harvest) simulation.Week {
	week := got.Week()
	for k := range week.Cores {
		week.Cores[k] *= 1 - f.margin
	}
	return week
}

// lost is the work that a kill cost on average.
func lost(h simulation.HarvestHour) time.Duration {
	if h.Kills == 0 {
		return 0
	}
	return time.Duration(h.Lost / float64(h.Kills) * float64(time.Hour)).Round(time.Second)
}

// write writes the document.
func (f *supplyFlags) write(w io.Writer, got simulation.Harvest) error {
	all, week := got.Total(), f.promise(got)
	fmt.Fprintf(w, "# What tasks of %v could harvest in %d hours from %s on, scheduled by %s:\n", f.task, len(got.Hours), clock(got.From), f.run.Policy)
	fmt.Fprintf(w, "# %.0f core-hours, %.0f of them of tasks that ended, %d kills.\n", all.Held, all.Useful, all.Kills)
	fmt.Fprintf(w, "# Of the cores, %.4g%% are promised: weeks differ.\n", 100*(1-f.margin))
	fmt.Fprintf(w, "# 'gleaner plan --harvest' reads it. Hours are those of a week, from Monday 00:00 UTC on.\n")
	fmt.Fprintf(w, "harvested:\n  name: %q\n  memory: %dMiB # beside each core\n  BW: %s # beside each core; not measured\n", f.label, f.memory, f.bw)
	fmt.Fprintf(w, "  task: %gs # how long the tasks ran, of which a kill cost:\n  lost: %gs\n", f.task.Seconds(), lost(all).Seconds())
	_, err := fmt.Fprintf(w, "  cores: >-\n%s  kills: >- # in a core-hour\n%s", byDay(week.Cores, "%.1f"), byDay(week.Kills, "%.4f"))
	return err
}

// byDay writes numbers of a week, a day a line.
func byDay(week [simulation.Hours]float64, format string) string {
	var b strings.Builder
	for k, x := range week {
		if k%24 == 0 {
			b.WriteString("   ")
		}
		fmt.Fprintf(&b, " "+format, x)
		if k%24 == 23 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

func (f *supplyFlags) json(got simulation.Harvest) any {
	all, week := got.Total(), f.promise(got)
	return map[string]any{"name": f.label, "policy": f.run.Policy, "from": got.From, "hours": len(got.Hours), "task_seconds": f.task.Seconds(),
		"core_hours": all.Held, "useful_core_hours": all.Useful, "lost_core_hours": all.Lost, "kills": all.Kills, "lost_seconds": lost(all).Seconds(),
		"cores": week.Cores, "kills_in_a_core_hour": week.Kills}
}
