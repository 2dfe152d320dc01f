// Package curator holds the experiments on the curator: what upkeep does for latency and
// space (NSDI'17 §3.4.2), and whether learning when to run tiering lowers latency, against
// fixed thresholds (§4.3.4, Table 1).
package curator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gleaner/chart"
	"gleaner/curator/learn"
	"gleaner/lab"
	"gleaner/sim/oltp"
)

// Experiments are curator-onoff and curator-learning.
func Experiments() []lab.Experiment {
	return []lab.Experiment{
		{Name: "curator-onoff", Short: "latency and space with upkeep and without", Paper: "NSDI'17, Section 3.4.2, Figure 6", Run: runOnOff},
		{Name: "curator-learning", Short: "latency with tiering when it is learned to pay, and by thresholds", Paper: "NSDI'17, Section 4.3.4, Table 1", Run: runLearning},
	}
}

func runLearning(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size := Size{Workloads: workloads(), Length: 3 * time.Hour, Recorded: 2, Seeds: o.Seeds, done: o.Done}
	switch {
	case o.Quick:
		size.Length, size.Recorded = time.Hour, 1
	case o.Full:
		size.Length, size.Recorded = 12*time.Hour, 10
	}
	compared, err := Learning(ctx, size)
	if err != nil {
		return nil, nil, err
	}
	return []lab.Table{compared.Table()}, nil, nil
}

// workloads are those of appendix D.
func workloads() []string { return oltp.Names()[3:] }

// A Size says how large the experiment is.
type Size struct {
	Workloads []string
	Length    time.Duration // of a workload
	Recorded  int           // runs of each workload by thresholds, to learn from first
	Seeds     int

	done func(done, of int)
}

// A Comparison is one workload, once a seed: by thresholds, learned, learned with as
// many random actions as in the paper, and without tiering.
type Comparison struct {
	Workload                          string
	Thresholds, Learned, Paper, Never []Result
}

// Comparisons are the rows of the table.
type Comparisons struct {
	Rows []Comparison
	Fit  learn.Fit // of the first seed
}

// firstRecorded is the seed of the first recorded run, far from those compared.
const firstRecorded = 1_000_000

// Learning compares thresholds with agents that have learned from recorded runs of
// all workloads, and learn on.
func Learning(ctx context.Context, size Size) (Comparisons, error) {
	var out Comparisons
	done, of := 0, len(size.Workloads)*(size.Recorded+4*size.Seeds)
	play := func(name string, seed uint64, decide decider) (Result, []learn.Recorded, error) {
		result, polls, err := run(ctx, name, size.Length, seed, decide)
		done++
		size.done(done, of)
		return result, polls, err
	}
	var recorded [][]learn.Recorded
	for _, name := range size.Workloads {
		for i := range uint64(size.Recorded) {
			_, polls, err := play(name, firstRecorded+i, thresholds)
			if err != nil {
				return out, err
			}
			recorded = append(recorded, polls)
		}
	}
	for _, name := range size.Workloads {
		c := Comparison{Workload: name}
		for seed := uint64(1); seed <= uint64(size.Seeds); seed++ {
			learned, fit, err := trained(true, recorded, seed)
			if err != nil {
				return out, err
			}
			paper, _, err := trained(false, recorded, seed)
			if err != nil {
				return out, err
			}
			for _, way := range []struct {
				decide decider
				to     *[]Result
			}{{thresholds, &c.Thresholds}, {learned, &c.Learned}, {paper, &c.Paper}, {never, &c.Never}} {
				result, _, err := play(name, seed, way.decide)
				if err != nil {
					return out, err
				}
				*way.to = append(*way.to, result)
			}
			if seed == 1 {
				out.Fit = fit
			}
		}
		out.Rows = append(out.Rows, c)
	}
	return out, nil
}

// trained is an agent that has learned from recorded runs.
func trained(even bool, recorded [][]learn.Recorded, seed uint64) (decider, learn.Fit, error) {
	cfg := learn.Default(features())
	cfg.Even = even
	agent, fit, err := learn.Pretrain(cfg, recorded, rand.New(rand.NewPCG(seed, 1)))
	if err != nil {
		return nil, fit, err
	}
	return agent.Poll, fit, nil
}

// Table lists what each workload got.
func (all Comparisons) Table() lab.Table {
	t := lab.Table{Name: "curator-learning", Title: "Tiering by thresholds and by learning (NSDI'17, Table 1)",
		Columns: []string{"workload", "latency ms", "learned", "change (min)", "change (mean)", "change (max)", "paper", "change with the paper's exploration", "without tiering",
			"SSD reads GB", "learned", "IOPS", "learned", "runs", "learned"},
		Notes: []string{
			"each first column is by thresholds, the next learned; both get the same requests",
			"the paper's exploration is a random action in every fifth poll; ours is as frequent in time while it waits as while it runs",
			fmt.Sprintf("learned from %d recorded transitions; mean square error of the predicted reward %.2f, in the test %.2f, without features %.2f",
				all.Fit.Transitions, all.Fit.Train, all.Fit.Test, all.Fit.Constant),
			"the disks are simulated: the paper's number and capacity, the speeds of FAST'12, an eightieth of the requests",
		}}
	for _, c := range all.Rows {
		low, mean, high := change(c.Thresholds, c.Learned)
		_, paper, _ := change(c.Thresholds, c.Paper)
		_, without, _ := change(c.Thresholds, c.Never)
		fixed, learned := average(c.Thresholds), average(c.Learned)
		t.Add(c.Workload, decimals(2, fixed.LatencyMS), decimals(2, learned.LatencyMS), percent(low), percent(mean), percent(high), papers(c.Workload), percent(paper), percent(without),
			decimals(1, fixed.SSDReadGB), decimals(1, learned.SSDReadGB), decimals(0, fixed.IOPS), decimals(0, learned.IOPS),
			decimals(0, fixed.Runs), decimals(0, learned.Runs))
	}
	return t
}

// papers is what §4.3.4 says of the change of latency.
func papers(workload string) string {
	switch workload {
	case "oltp-varying":
		return "-2%"
	case "oltp-skewed":
		return "-20%"
	}
	return "-2% to -20%"
}

// change is the least, mean and most relative change of latency over the seeds.
func change(from, to []Result) (low, mean, high float64) {
	for i := range to {
		by := to[i].LatencyMS/from[i].LatencyMS - 1
		if i == 0 {
			low, high = by, by
		}
		low, mean, high = min(low, by), mean+by/float64(len(to)), max(high, by)
	}
	return low, mean, high
}

func average(results []Result) (mean Result) {
	n := float64(len(results))
	for _, r := range results {
		mean.LatencyMS += r.LatencyMS / n
		mean.SSDReadGB += r.SSDReadGB / n
		mean.IOPS += r.IOPS / n
		mean.Runs += r.Runs / n
	}
	return mean
}

func decimals(n int, v float64) string { return fmt.Sprintf("%.*f", n, v) }
func percent(share float64) string     { return fmt.Sprintf("%+.1f%%", 100*share) }
