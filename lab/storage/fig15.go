package storage

import (
	"context"
	"fmt"

	"gleaner/chart"
	"gleaner/lab"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

// A Loss is how many blocks of one datacenter are lost in a year, and how many
// replicas were rebuilt.
type Loss struct {
	Datacenter string
	Placement  string
	Replicas   int
	Blocks     int
	Lost       Spread
	Rebuilt    Spread
}

// Losses are the bars of Figure 15.
type Losses []Loss

// Fig15 counts the blocks that a year of reimages destroys, for three and four
// replicas.
func Fig15(ctx context.Context, size Size) (Losses, error) {
	var out Losses
	runs := len(size.Datacenters) * 2 * len(compared)
	for _, name := range size.Datacenters {
		p, err := datacenter.Find(name)
		if err != nil {
			return nil, err
		}
		for _, replicas := range []int{3, 4} {
			for _, policy := range compared {
				var lost, rebuilt []float64
				for seed := range uint64(size.Seeds) {
					d := datacenter.Generate(p, datacenter.Options{Servers: size.Servers, Past: 31, Seed: seed + 1})
					run := simulation.Storage{Placement: policy, Blocks: size.Blocks, Replicas: replicas, Days: 365, Seed: seed + 1}
					result, err := run.Run(d, func(float64) error { return ctx.Err() })
					if err != nil {
						return nil, err
					}
					lost, rebuilt = append(lost, float64(result.Lost)), append(rebuilt, float64(result.Rebuilt))
				}
				out = append(out, Loss{name, policy, replicas, size.Blocks, spread(lost), spread(rebuilt)})
				size.ran(len(out), runs)
			}
		}
	}
	return out, nil
}

// Table returns the losses, the paper's beside ours.
func (all Losses) Table() lab.Table {
	t := lab.Table{Name: "fig15", Title: "Blocks lost in a year of reimages (OSDI'16, Figure 15)",
		Columns: []string{"datacenter", "replicas", "placement", "lost (min)", "lost (mean)", "lost (max)", "share (mean)", "rebuilt (mean)", "rebuilt TB (mean)", "of stock's", "paper"},
		Notes: []string{
			"paper is Algorithm 2 as published; history adds a replica on a server that is never busy, and keeps to the tenants that are reimaged least while they have room",
			"rebuilt are replicas, and of stock's how many times as many as stock rebuilds",
			"the datacenters are generated: they agree with what the paper says of its own, not with its figures' values",
		}}
	for _, l := range all {
		t.Add(l.Datacenter, l.Replicas, l.Placement, l.Lost.Min, fmt.Sprintf("%.1f", l.Lost.Mean), l.Lost.Max, share(l.Lost.Mean, float64(l.Blocks)),
			fmt.Sprintf("%.0f", l.Rebuilt.Mean), fmt.Sprintf("%.1f", l.Rebuilt.Mean*simulation.BlockBytes/1e12), all.ofStock(l), l.paper())
	}
	return t
}

// ofStock compares what is rebuilt with what stock placement rebuilds.
func (all Losses) ofStock(l Loss) string {
	for _, stock := range all {
		if stock.Placement == "stock" && stock.Datacenter == l.Datacenter && stock.Replicas == l.Replicas && stock.Rebuilt.Mean > 0 {
			return fmt.Sprintf("%.2f", l.Rebuilt.Mean/stock.Rebuilt.Mean)
		}
	}
	return ""
}

// paper is what OSDI'16 §6.4 says about these bars.
func (l Loss) paper() string {
	switch {
	case l.Placement == "paper" && l.Replicas == 4:
		return "none"
	case l.Placement == "paper" && l.Datacenter == "DC-3":
		return "up to 81"
	case l.Placement == "paper":
		return "under 81"
	case l.Placement == "stock" && l.Replicas == 3:
		return "over 100 times as many"
	case l.Placement == "stock":
		return "some"
	}
	return ""
}

// Figure draws the losses as the paper does; no bar means no loss.
func (all Losses) Figure() chart.Figure {
	fig := chart.Figure{Name: "fig15", Columns: 1, Width: 8}
	for _, replicas := range []int{3, 4} {
		bars := chart.Bars{Names: compared, Values: make([][]float64, len(compared))}
		for _, l := range all {
			if l.Replicas != replicas {
				continue
			}
			for i, policy := range compared {
				if l.Placement == policy {
					bars.Values[i] = append(bars.Values[i], 100*l.Lost.Mean/float64(l.Blocks))
				}
			}
			if l.Placement == compared[0] {
				bars.Groups = append(bars.Groups, l.Datacenter)
			}
		}
		fig.Panels = append(fig.Panels, chart.Panel{Title: fmt.Sprintf("%d replicas", replicas), Y: "blocks lost in a year (%)", Bars: bars})
	}
	return fig
}
