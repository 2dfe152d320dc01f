package compute

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/harvest"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
)

func env(name string, otherwise float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return v
	}
	return otherwise
}

func TestScratch(t *testing.T) {
	name := os.Getenv("DC")
	if name == "" {
		name = "DC-9"
	}
	p, err := datacenter.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	days := int(env("DAYS", 3))
	d := datacenter.Generate(p, datacenter.Options{Servers: int(env("SERVERS", 500)), Past: int(env("PAST", 7)), Days: days, Seed: 1})
	fmt.Println(name, len(d.Servers), "servers", len(d.Tenants), "tenants", time.Since(start), "mean", d.MeanCPU())
	names := strings.Fields(os.Getenv("POLICIES"))
	if len(names) == 0 {
		names = []string{"primary", "history"}
	}
	for _, method := range []string{"linear", "root"} {
		if m := os.Getenv("METHOD"); m != "" && m != method {
			continue
		}
		for u := env("FROM", 0.25); u <= env("TO", 0.6); u += env("STEP", 0.1) {
			s, err := d.Scaled(method, u)
			if err != nil {
				t.Fatal(err)
			}
			classes := fakeClasses(s)
			for _, name := range names {
				one(s, classes, name, method, u)
			}
		}
	}
}

func one(d *datacenter.Datacenter, classes []cluster.Class, name, method string, u float64) {
	policy, err := harvest.PolicyNamed(name)
	if err != nil {
		panic(err)
	}
	w := compute.Workload{Queries: compute.Queries(), Stretch: env("STRETCH", 5), Load: env("LOAD", 0.1), Cores: float64(12 * len(d.Servers))}
	slot := d.SlotAt(d.Now)
	win := cluster.Window{From: d.Now, Step: d.Window.Step, Len: d.Window.Len - slot}
	cfg := compute.Config{Servers: d.Servers, Primaries: d, Window: win, Slot: slot, Arrivals: w.Arrivals(time.Duration(win.Len)*win.Step, rand.New(rand.NewPCG(1, 2)))}
	if name != "primary" {
		cfg.Classes = classes
	}
	world := compute.New(cfg)
	brain := &control.Brain{Core: harvest.New(harvest.Options{Policy: policy, Reserve: harvest.PaperReserve, Rand: rand.New(rand.NewPCG(3, 4))}),
		Reserve: harvest.PaperReserve, Unguarded: !harvest.Guarded(policy)}
	start := time.Now()
	if err := control.Run(context.Background(), world, brain, nil); err != nil {
		panic(err)
	}
	r := world.Result()
	fmt.Printf("%s %.2f %-8s mean %6.0f p95 %6.0f jobs %d open %d started %d killed %d (%.1f%%) primary %.3f harvested %.3f wasted %.3f over %v wall %.2f\n", method, u, name, r.MeanJob.Seconds(), r.P95Job.Seconds(),
		r.Jobs, r.Unfinished, r.TasksStarted, r.TasksKilled, 100*float64(r.TasksKilled)/float64(r.TasksStarted), r.Primary, r.Harvested, r.Wasted, r.Overload, time.Since(start).Seconds())
}

// fakeClasses groups tenants by generated pattern and mean.
func fakeClasses(d *datacenter.Datacenter) []cluster.Class {
	series := d.Series(0, d.SlotAt(d.Now))
	groups := map[string]*cluster.Class{}
	var order []string
	for i, s := range series {
		mean, peak := 0.0, 0.0
		for _, v := range s.CPU {
			mean += float64(v) / float64(len(s.CPU))
			peak = max(peak, float64(v))
		}
		key := fmt.Sprintf("%s-%d", d.Tenants[i].Pattern, int(mean*8))
		c := groups[key]
		if c == nil {
			c = &cluster.Class{ID: key, Pattern: d.Tenants[i].Pattern}
			groups[key] = c
			order = append(order, key)
		}
		n := len(d.Tenants[i].Servers)
		c.Mean = (c.Mean*float64(c.Servers) + mean*float64(n)) / float64(c.Servers+n)
		c.Peak = (c.Peak*float64(c.Servers) + peak*float64(n)) / float64(c.Servers+n)
		c.Servers += n
		c.Tenants = append(c.Tenants, s.Tenant)
	}
	var out []cluster.Class
	for _, key := range order {
		out = append(out, *groups[key])
	}
	return out
}
