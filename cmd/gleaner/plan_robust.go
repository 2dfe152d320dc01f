package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"gleaner/plan"
)

func newPlanRobust() *cobra.Command {
	var f planFlags
	var c certainFlags
	cmd := &cobra.Command{
		Use:   "robust",
		Short: "Show how far each number may move before the architecture changes",
		Long: `Robust varies every attribute of the three documents and shows the range in which
the cheapest cluster keeps its architecture, each border to 1% of the value. Then
it lowers the price of every storage unit, percent by percent, and shows what
each dataset is most sensitive to.

With --certainty, numbers of the documents may be uncertain: 200GB..300GB (every value as
likely), 200GB..220GB..300GB (a triangle) or 250GB~10% (normal, with its standard
deviation). All are drawn many times, and robust shows the cheapest plan found that meets the SLA in
that share of the draws, and what more or less certainty costs.`,
		Example: `  gleaner plan robust --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml

  # What does it cost to be 95% sure, if uploads are between 80 and 150 a second?
  gleaner plan robust --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml \
    --set sla/photoupload/rate=80..150 --certainty 0.95`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("certainty") {
				return c.run(cmd, &f)
			}
			in, o, err := f.load(cmd.Context())
			if err != nil {
				return err
			}
			base, err := plan.Solve(in, o)
			if err != nil {
				return planErr(cmd, err)
			}
			ranges, err := robustRanges(cmd, in, o, base.Needs.Architecture)
			if err != nil {
				return planErr(cmd, err)
			}
			sensitive, err := plan.Sensitivities(in, o, base.Needs.Architecture)
			if err != nil {
				return planErr(cmd, err)
			}
			if wantJSON(cmd) {
				return printJSON(cmd, robustJSON(in, base, ranges, sensitive))
			}
			return printRobust(cmd, in, base, ranges, sensitive)
		},
	}
	f.register(cmd)
	f.registerLimits(cmd)
	c.register(cmd)
	return cmd
}

func robustRanges(cmd *cobra.Command, in plan.Input, o plan.Options, base plan.Architecture) ([]plan.Range, error) {
	attributes := plan.Attributes(in)
	bar := newProgress(cmd, "varying", int64(len(attributes)))
	defer bar.finish()
	var out []plan.Range
	for _, a := range attributes {
		r, err := plan.Keeps(in, o, base, a)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
		bar.add(1)
	}
	return out, nil
}

func printRobust(cmd *cobra.Command, in plan.Input, base plan.Plan, ranges []plan.Range, sensitive []plan.Sensitivity) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s: %s\n\n", money(in.HW.Currency, base.Cost), base.Needs.Architecture.Describe(in))
	t := newTable("Attribute", "of", ">lowest", ">given", ">highest", "in")
	for _, r := range ranges {
		low, high := number(r.Low), number(r.High)
		if r.LowOpen {
			low = "any"
		}
		if r.HighOpen {
			high = "any"
		}
		t.row(r.Name, r.Of, low, number(r.Value), high, r.Unit)
	}
	if err := t.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	s := newTable("Dataset", "most sensitive to", "goes to")
	for _, x := range sensitive {
		if x.Unit < 0 {
			s.row(in.App.Datasets[x.Dataset].Name, "no price of storage", "")
			continue
		}
		s.row(in.App.Datasets[x.Dataset].Name, fmt.Sprintf("%.0f%% drop in the price of %s", 100*x.Drop, in.HW.Units[x.Unit].Name), x.To.Names(in.HW))
	}
	return s.print(w)
}

// number writes a value with four digits, large ones with a magnitude.
func number(v float64) string {
	for _, m := range []struct {
		worth float64
		mark  string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "K"}} {
		if math.Abs(v) >= m.worth {
			if m.mark == "K" {
				return fmt.Sprintf("%.4gK", v/1e3)
			}
			return fmt.Sprintf("%.4g%s", v/m.worth, m.mark)
		}
	}
	return fmt.Sprintf("%.4g", v)
}

func robustJSON(in plan.Input, base plan.Plan, ranges []plan.Range, sensitive []plan.Sensitivity) any {
	type row struct {
		Of        string   `json:"of"`
		Attribute string   `json:"attribute"`
		Unit      string   `json:"unit"`
		Low       *float64 `json:"lowest"` // null: down to 0
		Value     float64  `json:"value"`
		High      *float64 `json:"highest"` // null: as far as was tried
	}
	type drop struct {
		Dataset string  `json:"dataset"`
		Unit    string  `json:"unit"`
		Drop    float64 `json:"drop"`
		To      string  `json:"to"`
	}
	out := struct {
		Cost       float64                   `json:"cost"`
		Assignment map[string]planAssignment `json:"assignment"`
		Ranges     []row                     `json:"ranges"`
		Sensitive  []drop                    `json:"sensitive"`
	}{Cost: cents(base.Cost), Assignment: assignmentJSON(in, base.Needs.Architecture), Ranges: []row{}, Sensitive: []drop{}}
	for _, r := range ranges {
		line := row{Of: r.Of, Attribute: r.Name, Unit: r.Unit, Value: r.Value}
		if !r.LowOpen {
			line.Low = &r.Low
		}
		if !r.HighOpen {
			line.High = &r.High
		}
		out.Ranges = append(out.Ranges, line)
	}
	for _, s := range sensitive {
		if s.Unit >= 0 {
			out.Sensitive = append(out.Sensitive, drop{in.App.Datasets[s.Dataset].Name, in.HW.Units[s.Unit].Name, s.Drop, s.To.Names(in.HW)})
		}
	}
	return out
}
