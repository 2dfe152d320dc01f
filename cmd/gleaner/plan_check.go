package main

import (
	"errors"
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
cheapest, every one of them misses.

The exit code is 1 if the cluster misses the SLA or cannot run, also with --json.`,
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
				err = printJSON(cmd, r)
			} else {
				err = r.print(cmd, in)
			}
			if err == nil && !r.Meets {
				err = errors.New("the cluster does not meet the SLA")
			}
			return err
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
	Offered    float64          `json:"busiest_at,omitempty"` // times the SLA's rates
	Shortages  []string         `json:"shortages"`
	Over       []string         `json:"over_target"`
	Lost       []string         `json:"lost_servers"`
	Failures   *checkFailures   `json:"failures,omitempty"`
	Latencies  []checkLatency   `json:"latencies,omitempty"`
	Slow       []string         `json:"too_slow,omitempty"`
	Neighbours []checkNeighbour `json:"neighbours"`
}

// checkFailures are the sets of servers that may fail at once: how many there are, and how many
// were taken away.
type checkFailures struct {
	Sets  int `json:"sets"`
	Tried int `json:"tried"`
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
	if r.Failures.Sets > 0 {
		out.Failures = &checkFailures{r.Failures.Sets, r.Failures.Tried}
	}
	for _, l := range r.Latencies {
		out.Latencies = append(out.Latencies, checkLatency(l))
	}
	for _, t := range r.Tasks {
		out.Tasks = append(out.Tasks, checkTask{t.Task, t.Required, t.Sustained})
	}
	if len(r.Busiest) > 0 && in.SLA.Job == nil {
		out.Offered = check.Offered
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
		fmt.Fprintf(w, "  %s: %s a second of %s\n", t.Task, plan.Figure(min(t.Sustained, t.Required)), plan.Figure(t.Required))
	}
	for _, l := range r.Latencies {
		fmt.Fprintf(w, "  %s: %.6g%% within %s ms of %s ms\n", l.Task, 100*l.Percentile, plan.Figure(1000*l.Seconds), plan.Figure(1000*l.Goal))
	}
	if r.Seconds > 0 {
		fmt.Fprintf(w, "  the job takes %.0f s of %.0f s\n", r.Seconds, in.SLA.Job.Time)
	}
	if r.Offered > 0 {
		fmt.Fprintf(w, "  The busiest, at %.4g times the rates:\n", r.Offered)
	}
	for _, b := range r.Busiest {
		fmt.Fprintf(w, "  %s is %.0f%% busy\n", b.Station, 100*b.Share)
	}
	if f := r.Failures; f != nil && in.SLA.Survive > 0 {
		fmt.Fprintf(w, "  %s may fail: %s\n", count(in.SLA.Survive, "server"), f.words())
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

// words say how many sets of servers were taken away.
func (f checkFailures) words() string {
	if f.Tried < f.Sets {
		return fmt.Sprintf("of %s that can be chosen by kind, the %s were tried that have most of each task and dataset", count(f.Sets, "set"), count(f.Tried, "set"))
	}
	return fmt.Sprintf("%s tried, which are all by kind", count(f.Tried, "set"))
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
