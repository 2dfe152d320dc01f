package storage

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gleaner/chart"
	"gleaner/sim/datacenter"
	"gleaner/sim/storage"
)

// A Size says how large an experiment is.
type Size struct {
	Datacenters  []string
	Servers      int // of each; 0: as many as it has
	Blocks       int
	Utilisations []float64 // for accesses
	Seeds        int       // runs of everything, each with a seed of its own from 1 on
}

// Quick15 and Quick16 take seconds; Full15 and Full16 are of the paper's size.
var (
	Quick15 = Size{Datacenters: []string{"DC-0", "DC-3", "DC-9"}, Servers: 300, Blocks: 50_000, Seeds: 2}
	Full15  = Size{Datacenters: allTen(), Blocks: 4_000_000, Seeds: 5}
	Quick16 = Size{Datacenters: []string{"DC-9"}, Servers: 500, Blocks: 100_000, Seeds: 2, Utilisations: []float64{0.3, 0.4, 0.5, 0.6, 0.7, 0.8}}
	Full16  = Size{Datacenters: []string{"DC-9"}, Blocks: 4_000_000, Seeds: 5, Utilisations: levels(0.20, 0.90)}
)

// compared are the policies of both figures: the paper's two, and ours.
var compared = []string{"history", "paper", "stock"}

func allTen() (names []string) {
	for _, p := range datacenter.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// levels go from one utilisation to another in steps of 5%.
func levels(from, to float64) (out []float64) {
	for u := from; u < to+0.001; u += 0.05 {
		out = append(out, u)
	}
	return out
}

// A Spread is the least, mean and most of several runs.
type Spread struct{ Min, Mean, Max float64 }

func spread(values []float64) Spread {
	s := Spread{Min: values[0], Max: values[0]}
	for _, v := range values {
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
		s.Mean += v / float64(len(values))
	}
	return s
}

// A Loss is how many blocks of one datacenter a year destroys.
type Loss struct {
	Datacenter string
	Placement  string
	Replicas   int
	Blocks     int
	Lost       Spread
}

// Losses are the bars of Figure 15.
type Losses []Loss

// Fig15 counts the blocks that a year of reimages destroys, for three and four
// replicas. It calls progress, if there is one, with the share that is done.
func Fig15(ctx context.Context, size Size, progress func(float64)) (Losses, error) {
	var out Losses
	total := len(size.Datacenters) * 2 * len(compared) * size.Seeds
	done := 0
	for _, name := range size.Datacenters {
		p, err := datacenter.Find(name)
		if err != nil {
			return nil, err
		}
		for _, replicas := range []int{3, 4} {
			for _, policy := range compared {
				var lost []float64
				for seed := range size.Seeds {
					d := datacenter.Generate(p, datacenter.Options{Servers: size.Servers, Past: 31, Seed: uint64(seed + 1)})
					run := Run{Placement: policy, Blocks: size.Blocks, Replicas: replicas, Days: 365, Seed: uint64(seed + 1)}
					result, err := run.Do(d, func(share float64) error {
						tell(progress, (float64(done)+share)/float64(total))
						return ctx.Err()
					})
					if err != nil {
						return nil, err
					}
					done++
					lost = append(lost, float64(result.Lost))
				}
				out = append(out, Loss{name, policy, replicas, size.Blocks, spread(lost)})
			}
		}
	}
	return out, nil
}

func tell(progress func(float64), share float64) {
	if progress != nil {
		progress(share)
	}
}

// Table gives the losses as text, header first, the paper's figures beside ours.
func (all Losses) Table() (header []string, rows [][]string) {
	header = []string{"datacenter", ">replicas", "placement", ">lost (min)", ">lost (mean)", ">lost (max)", ">share", "paper"}
	for _, l := range all {
		rows = append(rows, []string{l.Datacenter, fmt.Sprint(l.Replicas), l.Placement, fmt.Sprintf("%.0f", l.Lost.Min),
			fmt.Sprintf("%.1f", l.Lost.Mean), fmt.Sprintf("%.0f", l.Lost.Max), fmt.Sprintf("%.5f%%", 100*l.Lost.Mean/float64(l.Blocks)), l.paper()})
	}
	return header, rows
}

// paper is what OSDI'16 §6.4 says of these bars.
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

// Figure draws the losses as the paper does, on a logarithmic scale; where there
// is no bar there is no loss.
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
// as the servers' utilisation grows, by both ways of scaling it.
func Fig16(ctx context.Context, size Size, progress func(float64)) (Availabilities, error) {
	var out Availabilities
	total := len(size.Datacenters) * len(datacenter.Scalings) * len(size.Utilisations) * size.Seeds
	done := 0
	for _, name := range size.Datacenters {
		p, err := datacenter.Find(name)
		if err != nil {
			return nil, err
		}
		failed := map[Availability][]float64{}
		var keys []Availability
		for seed := range size.Seeds {
			d := datacenter.Generate(p, datacenter.Options{Servers: size.Servers, Past: 31, Days: 31, Seed: uint64(seed + 1)})
			stores, err := fillAll(d, size.Blocks, uint64(seed+1))
			if err != nil {
				return nil, err
			}
			for _, scaling := range datacenter.Scalings {
				for _, u := range size.Utilisations {
					scaled, err := d.Scaled(scaling, u)
					if err != nil {
						return nil, err
					}
					for _, s := range stores {
						if err := ctx.Err(); err != nil {
							return nil, err
						}
						n := s.store.Access(scaled, d.SlotAt(d.Now), d.Window.Len, size.Blocks, rand.New(rand.NewPCG(uint64(seed+1), 2)))
						key := Availability{name, scaling, s.policy, s.replicas, u, size.Blocks, Spread{}}
						if failed[key] == nil {
							keys = append(keys, key)
						}
						failed[key] = append(failed[key], float64(n))
					}
					done++
					tell(progress, float64(done)/float64(total))
				}
			}
		}
		for _, key := range keys {
			a := key
			a.Failed = spread(failed[key])
			out = append(out, a)
		}
	}
	return out, nil
}

type filled struct {
	store    *storage.Store
	policy   string
	replicas int
}

// fillAll places the blocks once by each policy and number of replicas.
func fillAll(d *datacenter.Datacenter, blocks int, seed uint64) (out []filled, err error) {
	for _, replicas := range []int{3, 4} {
		for _, policy := range compared {
			placer, err := Placer(policy, d, 0)
			if err != nil {
				return nil, err
			}
			store, err := storage.Fill(placer, len(d.Servers), blocks, replicas, rand.New(rand.NewPCG(seed, 1)))
			if err != nil {
				return nil, err
			}
			out = append(out, filled{store, policy, replicas})
		}
	}
	return out, nil
}

// First gives the lowest utilisation at which some access fails in some run; 0 if none does.
func (all Availabilities) First(datacenter, scaling, placement string, replicas int) float64 {
	first := 0.0
	for _, a := range all {
		same := a.Datacenter == datacenter && a.Scaling == scaling && a.Placement == placement && a.Replicas == replicas
		if same && a.Failed.Max > 0 && (first == 0 || a.Utilisation < first) {
			first = a.Utilisation
		}
	}
	return first
}

// Table gives the failed accesses as text, header first.
func (all Availabilities) Table() (header []string, rows [][]string) {
	header = []string{"datacenter", "scaling", ">replicas", "placement", ">utilisation", ">failed (min)", ">failed (mean)", ">failed (max)", "paper"}
	for _, a := range all {
		rows = append(rows, []string{a.Datacenter, a.Scaling, fmt.Sprint(a.Replicas), a.Placement, fmt.Sprintf("%.0f%%", 100*a.Utilisation),
			a.share(a.Failed.Min), a.share(a.Failed.Mean), a.share(a.Failed.Max), a.paper()})
	}
	return header, rows
}

func (a Availability) share(n float64) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%.5f%%", 100*n/float64(a.Accesses))
}

// paper is what OSDI'16 §6.4 says of this point.
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

// Figure draws the failed accesses against utilisation.
func (all Availabilities) Figure() chart.Figure {
	fig := chart.Figure{Name: "fig16", Columns: 2}
	for _, scaling := range datacenter.Scalings {
		panel := chart.Panel{Title: scaling + " scaling", X: "average utilisation (%)", Y: "failed accesses (%)"}
		lines := map[string]int{}
		for _, a := range all {
			if a.Scaling != scaling {
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
