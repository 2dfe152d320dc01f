package storage

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gleaner/chart"
	"gleaner/lab"
	"gleaner/sim/datacenter"
	"gleaner/sim/storage"
	"gleaner/simulation"
)

// An Availability is how many accesses fail at one utilisation.
type Availability struct {
	Datacenter  string
	Scaling     string
	Placement   string
	Replicas    int
	Utilisation float64
	Accesses    int
	Failed      Spread
}

// Availabilities are the points of Figure 16.
type Availabilities []Availability

// Fig16 counts the accesses that fail because all replicas are on busy servers,
// as the servers' utilisation grows, by both ways of scaling it. The past that
// policies learn from is scaled like the month that is simulated.
func Fig16(ctx context.Context, size Size) (Availabilities, error) {
	failed := map[Availability][]float64{}
	var points []Availability // in order
	ran, runs := 0, len(size.Datacenters)*size.Seeds*len(datacenter.Scalings)*len(size.Utilisations)
	for _, name := range size.Datacenters {
		p, err := datacenter.Find(name)
		if err != nil {
			return nil, err
		}
		for seed := range uint64(size.Seeds) {
			d := datacenter.Generate(p, datacenter.Options{Servers: size.Servers, Past: 31, Days: 31, Seed: seed + 1})
			for _, scaling := range datacenter.Scalings {
				for _, u := range size.Utilisations {
					scaled, err := d.Scaled(scaling, u)
					if err != nil {
						return nil, err
					}
					point := Availability{Datacenter: name, Scaling: scaling, Utilisation: u, Accesses: size.Blocks}
					err = point.each(ctx, scaled, seed+1, func(point Availability, n int) {
						if failed[point] == nil {
							points = append(points, point)
						}
						failed[point] = append(failed[point], float64(n))
					})
					if err != nil {
						return nil, err
					}
					ran++
					size.ran(ran, runs)
				}
			}
		}
	}
	for i, point := range points {
		points[i].Failed = spread(failed[point])
	}
	return points, nil
}

// each counts the failed accesses of every policy and number of replicas at one point.
func (a Availability) each(ctx context.Context, d *datacenter.Datacenter, seed uint64, found func(Availability, int)) error {
	known := simulation.Learn(d)
	for _, a.Replicas = range []int{3, 4} {
		for _, a.Placement = range compared {
			if err := ctx.Err(); err != nil {
				return err
			}
			placer, err := known.Placer(a.Placement, 0)
			if err != nil {
				return err
			}
			store, err := storage.Fill(placer, len(d.Servers), a.Accesses, a.Replicas, rand.New(rand.NewPCG(seed, 1)))
			if err != nil {
				return err
			}
			found(a, store.Access(d, d.SlotAt(d.Now), d.Window.Len, a.Accesses, rand.New(rand.NewPCG(seed, 2))))
		}
	}
	return nil
}

// first returns the lowest utilisation at which some access fails in some run; 0 if none does.
func (all Availabilities) first(like Availability) float64 {
	first := 0.0
	for _, a := range all {
		same := a.Datacenter == like.Datacenter && a.Scaling == like.Scaling && a.Placement == like.Placement && a.Replicas == like.Replicas
		if same && a.Failed.Max > 0 && (first == 0 || a.Utilisation < first) {
			first = a.Utilisation
		}
	}
	return first
}

// Firsts returns the lowest utilisation with a failed access of each policy.
func (all Availabilities) Firsts() lab.Table {
	t := lab.Table{Name: "fig16-first", Title: "Lowest utilisation with a failed access",
		Columns: []string{"datacenter", "scaling", "replicas", "placement", "first at", "paper"}}
	seen := map[Availability]bool{}
	for _, a := range all {
		line := Availability{Datacenter: a.Datacenter, Scaling: a.Scaling, Replicas: a.Replicas, Placement: a.Placement}
		if seen[line] {
			continue
		}
		seen[line] = true
		at, paper := "none", ""
		if first := all.first(line); first > 0 {
			at = fmt.Sprintf("%.0f%%", 100*first)
		}
		if a.Placement == "paper" {
			paper = map[string]string{"linear": "above ~40%", "root": "above 50%"}[a.Scaling]
		}
		t.Add(a.Datacenter, a.Scaling, a.Replicas, a.Placement, at, paper)
	}
	return t
}

// Table returns the failed accesses at every utilisation.
func (all Availabilities) Table() lab.Table {
	t := lab.Table{Name: "fig16", Title: "Failed accesses by utilisation (OSDI'16, Figure 16)",
		Columns: []string{"datacenter", "scaling", "replicas", "placement", "utilisation", "failed (min)", "failed (mean)", "failed (max)", "paper"},
		Notes:   []string{"an access fails when all servers that hold the block use more than 66% of their CPU"}}
	for _, a := range all {
		n := float64(a.Accesses)
		t.Add(a.Datacenter, a.Scaling, a.Replicas, a.Placement, fmt.Sprintf("%.0f%%", 100*a.Utilisation),
			share(a.Failed.Min, n), share(a.Failed.Mean, n), share(a.Failed.Max, n), a.paper())
	}
	return t
}

// paper is what OSDI'16 §6.4 says about this point.
func (a Availability) paper() string {
	none := 0.401
	if a.Scaling == "root" {
		none = 0.501
	}
	switch {
	case a.Placement == "paper" && a.Utilisation < none:
		return "none"
	case a.Placement == "paper" && a.Utilisation < 0.501:
		return "low"
	case a.Placement == "stock" && a.Utilisation > 0.499 && a.Utilisation < 0.501:
		return "relatively high"
	}
	return ""
}

// Figure draws the failed accesses against utilisation in DC-9; the tables have
// the others.
func (all Availabilities) Figure() chart.Figure {
	fig := chart.Figure{Name: "fig16", Columns: 2}
	for _, scaling := range datacenter.Scalings {
		panel := chart.Panel{Title: scaling + " scaling", X: "average utilisation (%)", Y: "failed accesses (%)"}
		lines := map[string]int{}
		for _, a := range all {
			if a.Scaling != scaling || a.Datacenter != "DC-9" {
				continue
			}
			name := fmt.Sprintf("%s, %d replicas", a.Placement, a.Replicas)
			i, ok := lines[name]
			if !ok {
				i = len(panel.Lines)
				lines[name] = i
				panel.Lines = append(panel.Lines, chart.Line{Name: name})
			}
			panel.Lines[i].X = append(panel.Lines[i].X, 100*a.Utilisation)
			panel.Lines[i].Y = append(panel.Lines[i].Y, 100*a.Failed.Mean/float64(a.Accesses))
		}
		fig.Panels = append(fig.Panels, panel)
	}
	return fig
}
