package simulation

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/control"
	"gleaner/dilation"
	"gleaner/harvest"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
)

// The batch load of a simulation. The paper multiplies its queries' lengths and
// container usage by a factor that makes enough load for a large datacenter, but
// does not state it (OSDI'16 §6.1). Here lengths are multiplied by six, and widths
// so that the work is a tenth of the datacenter's cores, about six times at the
// paper's size. A tenth fits beside 57% of primaries' use and the reserve of a
// third: queues grow long near 60% (§6.4).
const (
	Stretch = 6
	Load    = 0.10
)

// A Compute is a simulation of batch jobs on the spare cycles of a datacenter.
type Compute struct {
	Policy  string
	Classes []cluster.Class // nil: learned from the datacenter's past
	Queries []compute.Query // nil: the 52 of the paper, scaled to the datacenter
	Load    float64         // the share of its cores that they keep busy; 0: the constant of that name
	Seed    uint64
	Record  control.Recorder // nil: nothing is recorded

	// With a Machine, tasks on one server slow each other down by their
	// Loadings, which the stages of queries take in turn.
	Choice   harvest.Choice
	Machine  func(size cluster.Resources) dilation.Machine
	Loadings [][]float64
}

// Run simulates the days from the datacenter's Now on. It calls progress, if not
// nil, with the share of them that is done, and stops if that returns an error.
func (run Compute) Run(ctx context.Context, d *datacenter.Datacenter, progress func(float64) error) (compute.Result, error) {
	policy, err := harvest.PolicyNamed(run.Policy)
	if err != nil {
		return compute.Result{}, err
	}
	slot := d.SlotAt(d.Now)
	window := cluster.Window{From: d.Now, Step: d.Window.Step, Len: d.Window.Len - slot}
	world := compute.New(compute.Config{
		Servers: d.Servers, Primaries: d, Window: window, Slot: slot,
		Classes:  run.classes(d, policy),
		Arrivals: run.arrivals(d, window),
		Slow:     slow(run.Machine),
	})
	brain := control.NewBrain(harvest.Options{Policy: policy, Reserve: harvest.PaperReserve, Rand: rand.New(rand.NewPCG(run.Seed, 2)),
		Choice: run.Choice, Machine: run.Machine})
	err = control.Run(ctx, watched{world, window, progress}, brain, run.Record)
	return world.Result(), err
}

// classes are those that the policy gets: none if it does not pick classes.
func (run Compute) classes(d *datacenter.Datacenter, policy harvest.Policy) []cluster.Class {
	if _, picks := policy.(harvest.ClassPicker); !picks {
		return nil
	}
	if run.Classes != nil {
		return run.Classes
	}
	return Classes(d, run.Seed)
}

// Classes learns the classes of a datacenter's tenants from its past.
func Classes(d *datacenter.Datacenter, seed uint64) []cluster.Class {
	past := d.Window.Until(d.Now)
	if past.Len == 0 {
		return nil
	}
	return classify.Run(past, d.Series(0, past.Len), classify.Options{Seed: seed}).Classes
}

func (run Compute) arrivals(d *datacenter.Datacenter, window cluster.Window) []compute.Arrival {
	load := compute.Workload{Queries: run.Queries}
	if run.Queries == nil {
		load = compute.Workload{Queries: compute.Queries(), Stretch: Stretch, Load: cmp.Or(run.Load, Load), Cores: Cores(d)}
	}
	for i := range load.Queries {
		for k := range load.Queries[i].Stages {
			if n := len(run.Loadings); n > 0 {
				load.Queries[i].Stages[k].Loading = run.Loadings[(i+k)%n]
			}
		}
	}
	return load.Arrivals(window.To().Sub(window.From), rand.New(rand.NewPCG(run.Seed, 1)))
}

// Cores counts the cores of a datacenter.
func Cores(d *datacenter.Datacenter) float64 {
	sum := 0.0
	for _, s := range d.Servers {
		sum += float64(s.CPU) / float64(cluster.Core)
	}
	return sum
}

// slow slows down tasks on one server by the dilation model.
func slow(machine func(cluster.Resources) dilation.Machine) func(cluster.Resources, [][]float64, []float64) {
	if machine == nil {
		return nil
	}
	return func(size cluster.Resources, loadings [][]float64, factors []float64) {
		m := machine(size)
		vectors := make([]dilation.Vector, len(loadings))
		for i, l := range loadings {
			vectors[i] = l
		}
		copy(factors, m.Factors(vectors))
	}
}

// watched reports progress at each slot.
type watched struct {
	*compute.World
	window   cluster.Window
	progress func(float64) error
}

func (w watched) Next(ctx context.Context) (cluster.Event, error) {
	ev, err := w.World.Next(ctx)
	if err == nil && ev.Kind == cluster.UseReported && w.progress != nil {
		total := time.Duration(w.window.Len) * w.window.Step
		err = w.progress(float64(ev.At.Sub(w.window.From)) / float64(total))
	}
	return ev, err
}
