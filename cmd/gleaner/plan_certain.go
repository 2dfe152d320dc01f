package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/spec"
)

// certainFlags are about uncertain numbers.
type certainFlags struct {
	level float64
	draws int
	seed  uint64

	redrawn int // draws whose numbers make no sense together, as a part that is larger than the whole
}

// mostRedrawn is how often a draw is drawn again at most: documents that hardly ever make sense are wrong.
const mostRedrawn = 100

func (c *certainFlags) register(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&c.level, "certainty", 0.95, "plan for uncertain numbers: the SLA is met in this share of all draws")
	cmd.Flags().IntVar(&c.draws, "draws", 1000, "how often uncertain numbers are drawn")
	cmd.Flags().Uint64Var(&c.seed, "seed", 1, "seed of the draws")
}

// certainLevels are shown beside the one that is asked for.
var certainLevels = []float64{0.5, 0.8, 0.9, 0.95, 0.99, 1}

func (c *certainFlags) run(cmd *cobra.Command, f *planFlags) error {
	switch {
	case !(c.level > 0 && c.level <= 1):
		return input.Errorf("--certainty", "%g is not a share above 0 and up to 1", c.level)
	case c.draws < 1 || c.draws > 100_000:
		return input.Errorf("--draws", "%d is not from 1 to 100000", c.draws)
	case f.harvest != "":
		return input.Errorf("--harvest", "has no place in --certainty: its cores are a mean, not drawn")
	}
	u, o, numbers, err := c.draw(cmd, f)
	if err != nil {
		return err
	}
	median, err := plan.Solve(u.Median, o)
	if err != nil {
		return planErr(cmd, err)
	}
	levels := append(slices.Clone(certainLevels), c.level)
	slices.Sort(levels)
	levels = slices.Compact(levels)
	bar := newProgress(cmd, "drawing", int64(c.draws))
	rows, err := plan.Certainties(u, o, levels, bar.set)
	bar.finish()
	if err != nil {
		return planErr(cmd, err)
	}
	if wantJSON(cmd) {
		return printJSON(cmd, certainJSON(u.Median, median, rows, c, numbers))
	}
	return printCertain(cmd, u.Median, median, rows, c, numbers)
}

// draw reads the documents again for every draw.
func (c *certainFlags) draw(cmd *cobra.Command, f *planFlags) (u plan.Uncertain, o plan.Options, numbers int, err error) {
	read := func(at func(spec.Number) float64) (plan.Input, error) {
		in, _, err := f.load(cmd.Context(), spec.Drawn(at))
		return in, err
	}
	u.Median, o, err = f.load(cmd.Context(), spec.Drawn(func(spec.Number) float64 { numbers++; return 0.5 }))
	if err != nil {
		return u, o, 0, err
	}
	if numbers == 0 {
		return u, o, 0, input.Errorf("--certainty", "no number of the documents is uncertain; write one as 200..300, 200..220..300 or 250~10%%")
	}
	for i := range c.draws {
		chance := rand.New(rand.NewPCG(c.seed, uint64(i)))
		in, err := read(func(spec.Number) float64 { return chance.Float64() })
		for again := 0; input.Is(err) && again < mostRedrawn; again++ {
			c.redrawn++
			in, err = read(func(spec.Number) float64 { return chance.Float64() })
		}
		if err != nil {
			return u, o, 0, err
		}
		u.Draws = append(u.Draws, in)
	}
	u.Worse = func(q float64) (plan.Input, error) {
		return read(func(n spec.Number) float64 { return 0.5 + (q-0.5)*float64(plan.Worse(n)) })
	}
	return u, o, numbers, nil
}

func printCertain(cmd *cobra.Command, in plan.Input, median plan.Plan, rows []plan.Certain, c *certainFlags, numbers int) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s drawn %s. At their median: %s, %s.\n\n", counted(numbers, "uncertain number"), counted(c.draws, "time"),
		money(in.HW.Currency, median.Cost), median.Needs.Architecture.Describe(in))
	if c.redrawn > 0 {
		fmt.Fprintf(w, "%s whose numbers make no sense together were drawn again.\n\n", counted(c.redrawn, "draw"))
	}
	t := newTable(">Certainty", ">cost", ">more", ">met", ">at least", "servers", "where data lies")
	for _, r := range rows {
		level := fmt.Sprintf("%.4g%%", 100*r.Level)
		if r.Level == c.level {
			level = "* " + level
		}
		if r.Plan == nil {
			t.row(level, "none found", "", "", atLeast(in, r), "", "")
			continue
		}
		t.row(level, money(in.HW.Currency, r.Plan.Cost), byPercent(median.Cost, r.Plan.Cost), fmt.Sprintf("%.1f%%", 100*r.Met), atLeast(in, r),
			fmt.Sprint(r.Plan.Most(in)), r.Plan.Needs.Architecture.Describe(in))
	}
	return t.print(w)
}

// atLeast is what any plan of that certainty costs at least.
func atLeast(in plan.Input, r plan.Certain) string {
	if r.Bound > 1e30 {
		return "no plan"
	}
	return money(in.HW.Currency, r.Bound)
}

func certainJSON(in plan.Input, median plan.Plan, rows []plan.Certain, c *certainFlags, numbers int) any {
	type row struct {
		Level      float64                   `json:"certainty"`
		Cost       *float64                  `json:"cost"` // null: none found
		Met        float64                   `json:"met"`
		Bound      *float64                  `json:"lower_bound"` // null: no plan is so certain
		Servers    []planServer              `json:"servers"`
		Assignment map[string]planAssignment `json:"assignment"`
	}
	out := struct {
		Numbers int     `json:"uncertain_numbers"`
		Draws   int     `json:"draws"`
		Redrawn int     `json:"redrawn,omitempty"` // because their numbers make no sense together
		Seed    uint64  `json:"seed"`
		Asked   float64 `json:"asked"`
		Median  float64 `json:"median_cost"`
		Levels  []row   `json:"levels"`
	}{numbers, c.draws, c.redrawn, c.seed, c.level, cents(median.Cost), []row{}}
	for _, r := range rows {
		line := row{Level: r.Level, Met: r.Met, Servers: []planServer{}, Assignment: map[string]planAssignment{}}
		if r.Bound < 1e30 {
			line.Bound = &r.Bound
		}
		if r.Plan != nil {
			cost := cents(r.Plan.Cost)
			line.Cost = &cost
			all := planJSON(in, *r.Plan, 0)
			line.Servers, line.Assignment = all.Servers, all.Assignment
		}
		out.Levels = append(out.Levels, line)
	}
	return out
}
