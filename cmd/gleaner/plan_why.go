package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan"
)

func newPlanWhy() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "why [DATASET=]UNIT",
		Short: "Show why a storage unit is not used, and the price at which it would be",
		Long: `Why answers "why not SSD?": what the cheapest cluster costs in which a dataset uses
the unit, as its store or its cache, and the highest purchase price of the unit at
which the cheapest cluster of all does. Where the unit is used already, it
shows what doing without it would cost. Without DATASET= it asks for every dataset.`,
		Example: `  gleaner plan why SSD --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "name one storage unit; see 'gleaner plan why --help'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in, o, err := f.load(cmd.Context())
			if err != nil {
				return err
			}
			asked, err := plan.ParseForbid(in, args[0])
			if err == nil && asked.Cache != plan.NoCache {
				err = fmt.Errorf("name one unit, without +")
			}
			if err != nil {
				return input.Errorf("UNIT", "%v", err)
			}
			datasets := []int{asked.Dataset}
			if asked.Dataset == plan.AllDatasets {
				datasets = nil
				for d := range in.App.Datasets {
					datasets = append(datasets, d)
				}
			}
			bar := newProgress(cmd, "planning", 0)
			defer bar.finish()
			best, err := plan.Solve(in, o)
			if err != nil {
				return planErr(cmd, err)
			}
			reasons, err := plan.Why(in, o, best, asked.Unit, datasets)
			if err != nil {
				return planErr(cmd, err)
			}
			bar.finish()
			if wantJSON(cmd) {
				return printJSON(cmd, whyJSON(in, best, reasons))
			}
			return printWhy(cmd, in, best, reasons)
		},
	}
	f.register(cmd)
	f.registerLimits(cmd)
	return cmd
}

func printWhy(cmd *cobra.Command, in plan.Input, best plan.Plan, reasons []plan.Reason) error {
	w := cmd.OutOrStdout()
	unit := in.HW.Units[reasons[0].Unit]
	fmt.Fprintf(w, "%s: %s\n%s costs %s today, energy apart.\n\n", money(in.HW.Currency, best.Cost), best.Needs.Architecture.Describe(in), unit.Name, price(in, unit.Price.Price))
	t := newTable("Dataset", "is on", "otherwise", ">costs more", unit.Name+" is used")
	for _, r := range reasons {
		other, more := "nothing else", ""
		if r.Other != nil {
			other = r.Other.Needs.Architecture[r.Dataset].Names(in.HW)
			more = price(in, r.Other.Cost-best.Cost)
		} else if !r.Uses {
			other = "not possible"
		}
		t.row(in.App.Datasets[r.Dataset].Name, best.Needs.Architecture[r.Dataset].Names(in.HW), other, more, wins(in, r))
	}
	return t.print(w)
}

// wins says at which price a unit is used.
func wins(in plan.Input, r plan.Reason) string {
	today := in.HW.Units[r.Unit].Price.Price
	switch {
	case math.IsNaN(r.Price):
		return "at no price"
	case r.Price >= today:
		return "at today's price"
	case r.Price == 0:
		return "if it is free"
	}
	return fmt.Sprintf("from %s down (%.0f%% less)", price(in, r.Price), math.Ceil(100*(1-r.Price/today)-1e-9))
}

// price writes an amount to the cent: $113.14.
func price(in plan.Input, amount float64) string {
	if in.HW.Currency == "USD" {
		return fmt.Sprintf("$%.2f", amount)
	}
	return fmt.Sprintf("%.2f %s", amount, in.HW.Currency)
}

func whyJSON(in plan.Input, best plan.Plan, reasons []plan.Reason) any {
	type other struct {
		Cost       float64                   `json:"cost"`
		More       float64                   `json:"more"`
		Assignment map[string]planAssignment `json:"assignment"`
	}
	type row struct {
		Dataset string   `json:"dataset"`
		Unit    string   `json:"unit"`
		Uses    bool     `json:"uses"`
		Other   *other   `json:"otherwise"`  // null: there is no such cluster
		Price   *float64 `json:"used_up_to"` // null: at no price
		Today   float64  `json:"price_today"`
	}
	out := struct {
		Cost       float64                   `json:"cost"`
		Assignment map[string]planAssignment `json:"assignment"`
		Reasons    []row                     `json:"reasons"`
	}{Cost: cents(best.Cost), Assignment: assignmentJSON(in, best.Needs.Architecture), Reasons: []row{}}
	for _, r := range reasons {
		line := row{Dataset: in.App.Datasets[r.Dataset].Name, Unit: in.HW.Units[r.Unit].Name, Uses: r.Uses, Today: in.HW.Units[r.Unit].Price.Price}
		if r.Other != nil {
			line.Other = &other{cents(r.Other.Cost), cents(r.Other.Cost - best.Cost), assignmentJSON(in, r.Other.Needs.Architecture)}
		}
		if !math.IsNaN(r.Price) {
			line.Price = &r.Price
		}
		out.Reasons = append(out.Reasons, line)
	}
	return out
}
