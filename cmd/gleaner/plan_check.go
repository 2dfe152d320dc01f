package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/check"
)

func newPlanCheck() *cobra.Command {
	var f planFlags
	var seed uint64
	var neighbours bool
	cmd := &cobra.Command{
		Use:   "check CONFIG",
		Short: "Simulate a cluster and show how much of the SLA it meets",
		Long: `Check simulates the application on a given cluster in virtual time, with queues at
storage units, buses, networks, cores and task instances, and shows how much of
the SLA it meets. CONFIG is the output of 'gleaner plan --json', as it is or
changed by hand. Clusters that have one piece less are tried too: if the plan is the
cheapest, every one of them misses.`,
		Example: `  gleaner plan --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml --json > cluster.json
  gleaner plan check cluster.json --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "name one configuration, as 'gleaner plan --json' prints it; see 'gleaner plan check --help'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in, _, err := f.load(cmd.Context())
			if err != nil {
				return err
			}
			data, err := readSpec("CONFIG", args[0])
			if err != nil {
				return err
			}
			if err := refuseHarvested(args[0], data); err != nil {
				return err
			}
			c, err := check.Read(args[0], data, in)
			if err != nil {
				return err
			}
			r, err := runChecks(cmd, in, c, seed, neighbours)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, r)
			}
			return r.print(cmd, in)
		},
	}
	f.register(cmd)
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the arrivals")
	cmd.Flags().BoolVar(&neighbours, "neighbours", true, "also try clusters that have one piece less")
	return cmd
}

type checkResult struct {
	Cost       float64          `json:"cost"`
	Share      float64          `json:"share"`
	Meets      bool             `json:"meets"`
	Seconds    float64          `json:"job_seconds,omitempty"`
	Tasks      []checkTask      `json:"tasks"`
	Busiest    []checkBusy      `json:"busiest"`
	Shortages  []string         `json:"shortages"`
	Over       []string         `json:"over_target"`
	Lost       []string         `json:"lost_servers"`
	Latencies  []checkLatency   `json:"latencies,omitempty"`
	Slow       []string         `json:"too_slow,omitempty"`
	Neighbours []checkNeighbour `json:"neighbours"`
}

type checkTask struct {
	Task      string  `json:"task"`
	Required  float64 `json:"required"`
	Sustained float64 `json:"sustained"`
}

type checkLatency struct {
	Task       string  `json:"task"`
	Percentile float64 `json:"percentile"`
	Seconds    float64 `json:"seconds"`
	Goal       float64 `json:"goal_seconds"`
}

type checkBusy struct {
	Station string  `json:"station"`
	Share   float64 `json:"share"`
}

type checkNeighbour struct {
	Change    string   `json:"change"`
	Saves     float64  `json:"saves"`
	Share     float64  `json:"share"`
	Meets     bool     `json:"meets"`
	Shortages []string `json:"shortages"`
	Over      []string `json:"over_target"`
	Lost      []string `json:"lost_servers"`
	Slow      []string `json:"too_slow,omitempty"`
}

func runChecks(cmd *cobra.Command, in plan.Input, c check.Config, seed uint64, neighbours bool) (checkResult, error) {
	run := func(c check.Config) check.Result { return check.Run(in, c, rand.New(rand.NewPCG(seed, 0))) }
	r := run(c)
	out := checkResult{Cost: cents(c.Cost(in)), Share: r.Share, Meets: r.Meets(), Seconds: r.Seconds,
		Tasks: []checkTask{}, Busiest: []checkBusy{}, Shortages: append([]string{}, r.Shortages...),
		Over: append([]string{}, r.Over...), Lost: append([]string{}, r.Lost...), Slow: r.Slow, Neighbours: []checkNeighbour{}}
	for _, l := range r.Latencies {
		out.Latencies = append(out.Latencies, checkLatency(l))
	}
	for _, t := range r.Tasks {
		out.Tasks = append(out.Tasks, checkTask{t.Task, t.Required, t.Sustained})
	}
	for _, b := range r.Busiest {
		out.Busiest = append(out.Busiest, checkBusy{b.Station, b.Share})
	}
	if !neighbours {
		return out, nil
	}
	all := check.Neighbours(in, c)
	bar := newProgress(cmd, "simulating", int64(len(all)))
	defer bar.finish()
	for _, n := range all {
		if err := cmd.Context().Err(); err != nil {
			return out, err
		}
		r := run(n.Config)
		out.Neighbours = append(out.Neighbours, checkNeighbour{n.Change, n.Saves, r.Share, r.Meets(), append([]string{}, r.Shortages...), append([]string{}, r.Over...), append([]string{}, r.Lost...), r.Slow})
		bar.add(1)
	}
	return out, nil
}

func (r checkResult) print(cmd *cobra.Command, in plan.Input) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s: %s\n", money(in.HW.Currency, r.Cost), verdict(r.Share, r.Meets, r.Shortages, slices.Concat(r.Over, r.Slow, r.Lost)))
	for _, t := range r.Tasks {
		fmt.Fprintf(w, "  %s: %.4g a second of %.4g\n", t.Task, min(t.Sustained, t.Required), t.Required)
	}
	for _, l := range r.Latencies {
		fmt.Fprintf(w, "  %s: %.6g%% within %.4g ms of %.4g ms\n", l.Task, 100*l.Percentile, 1000*l.Seconds, 1000*l.Goal)
	}
	if r.Seconds > 0 {
		fmt.Fprintf(w, "  the job takes %.0f s of %.0f s\n", r.Seconds, in.SLA.Job.Time)
	}
	for _, b := range r.Busiest {
		fmt.Fprintf(w, "  %s is %.0f%% busy\n", b.Station, 100*b.Share)
	}
	if len(r.Neighbours) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable("With one piece less", ">saves", "and then")
	for _, n := range r.Neighbours {
		t.row(n.Change, money(in.HW.Currency, n.Saves), verdict(n.Share, n.Meets, n.Shortages, slices.Concat(n.Over, n.Slow, n.Lost)))
	}
	return t.print(w)
}

func verdict(share float64, meets bool, shortages, broken []string) string {
	switch {
	case len(shortages) > 0:
		return "cannot run: " + strings.Join(shortages, "; ")
	case meets:
		return "meets the SLA"
	case share >= check.Enough && len(broken) > 0:
		return "misses the SLA: " + shortened(broken)
	}
	return fmt.Sprintf("misses the SLA: %.1f%% of it", 100*share)
}

// shortened is the first of some reasons, and how many more there are.
func shortened(reasons []string) string {
	if more := len(reasons) - 1; more > 0 {
		return fmt.Sprintf("%s, and %d more", reasons[0], more)
	}
	return reasons[0]
}
