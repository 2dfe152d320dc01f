package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan"
)

func newPlanCompare() *cobra.Command {
	return &cobra.Command{
		Use:   "compare CONFIG CONFIG",
		Short: "Show two plans side by side",
		Long: `Compare shows what two clusters cost, where they keep each dataset, and what each is
made of. Both are the output of 'gleaner plan --json', of the same documents or of different ones.`,
		Example: `  gleaner plan --app app.yaml --hw hw.yaml --sla sla.yaml --json > a.json
  gleaner plan --app app.yaml --hw hw.yaml --sla sla.yaml --forbid DRAM --json > b.json
  gleaner plan compare a.json b.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return input.Errorf("", "name two configurations, as 'gleaner plan --json' prints them; see 'gleaner plan compare --help'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var plans [2]planResult
			for i, file := range args {
				data, err := readSpec("CONFIG", file)
				if err != nil {
					return err
				}
				if err := json.Unmarshal(data, &plans[i]); err != nil {
					return input.Errorf(file, "not a plan, as 'gleaner plan --json' prints it: %v", err)
				}
				if len(plans[i].Servers) == 0 || plans[i].Currency == "" {
					return input.Errorf(file, "not a plan, as 'gleaner plan --json' prints it: it has no servers")
				}
			}
			if a, b := plans[0].Currency, plans[1].Currency; a != b {
				return input.Errorf(args[1], "in %s, and %s is in %s", b, args[0], a)
			}
			rows := compared(plans[0], plans[1])
			if wantJSON(cmd) {
				return printJSON(cmd, map[string]any{"rows": rows})
			}
			t := newTable("", ">"+args[0], ">"+args[1], ">change")
			for _, r := range rows {
				t.row(r.What, r.First, r.Second, r.Change)
			}
			return t.print(cmd.OutOrStdout())
		},
	}
}

// A comparedRow is one thing that both plans have, or one of them.
type comparedRow struct {
	What   string `json:"what"`
	First  string `json:"first"`
	Second string `json:"second"`
	Change string `json:"change"`
}

func compared(a, b planResult) []comparedRow {
	out := []comparedRow{
		{"cost", money(a.Currency, a.Cost), money(b.Currency, b.Cost), byPercent(a.Cost, b.Cost)},
		{"at least", money(a.Currency, a.LowerBound), money(b.Currency, b.LowerBound), ""},
	}
	for _, r := range []struct {
		what string
		of   func(planResult) float64
		text func(string, float64) string
	}{
		{"cost a month", func(p planResult) float64 { return p.Monthly }, money},
		{"purchase", func(p planResult) float64 { return p.Cost - p.Energy }, money},
		{"energy", func(p planResult) float64 { return p.Energy }, money},
		{"power in W", func(p planResult) float64 { return p.Power }, plainly},
		{"rack units", func(p planResult) float64 { return p.RackUnits }, plainly},
	} {
		if x, y := r.of(a), r.of(b); x != 0 || y != 0 {
			out = append(out, comparedRow{r.what, r.text(a.Currency, x), r.text(b.Currency, y), byPercent(x, y)})
		}
	}
	for _, d := range keysOf(a.Assignment, b.Assignment) {
		x, y := a.Assignment[d].words(), b.Assignment[d].words()
		change := ""
		if x != y {
			change = "moves"
		}
		out = append(out, comparedRow{d, x, y, change})
	}
	first, second := a.pieces(), b.pieces()
	for _, what := range keysOf(first, second) {
		x, y := first[what], second[what]
		change := ""
		if x != y {
			change = fmt.Sprintf("%+d", y-x)
		}
		out = append(out, comparedRow{what, fmt.Sprint(x), fmt.Sprint(y), change})
	}
	return out
}

// plainly writes a number that is no money.
func plainly(_ string, v float64) string { return plan.Figure(v) }

func (a planAssignment) words() string {
	switch {
	case a.Store == "":
		return "-"
	case a.Cache == "":
		return a.Store
	}
	return a.Store + " + " + a.Cache
}

// pieces counts what a cluster is made of, and the instances it runs.
func (p planResult) pieces() map[string]int {
	out := map[string]int{}
	for _, s := range p.Servers {
		if s.Hours != "" { // it comes and goes with all that is in it
			out["server "+s.Type+", "+s.Hours+" h"] += s.Count
			continue
		}
		out["server "+s.Type] += s.Count
		out["CPU cores"] += s.CPUs * s.Count
		for unit, n := range s.Units {
			out["unit "+unit] += n * s.Count
		}
		for task, n := range s.Tasks {
			out["instances of "+task] += n * s.Count
		}
	}
	return out
}

// keysOf are the keys of both, in order.
func keysOf[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// byPercent writes a change: +9.2%, or nothing if there is none.
func byPercent(from, to float64) string {
	if from == to || from <= 0 || math.IsInf(to/from, 0) {
		return ""
	}
	return fmt.Sprintf("%+.1f%%", 100*(to/from-1))
}
