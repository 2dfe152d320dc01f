package compute_test

import (
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/control/worldtest"
	"gleaner/sim/compute"
)

// use is what the primaries of servers of four cores use now.
type use func() cluster.Resources

func (u use) CPU(int, int) float32 { return float32(u().CPU) / float32(4*cluster.Core) }

func TestWorld(t *testing.T) {
	worldtest.Run(t, func(_ *testing.T, scene worldtest.Scene) control.World {
		cfg := compute.Config{Primaries: use(scene.Primary),
			Window: cluster.Window{From: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), Step: 2 * time.Minute, Len: 10_000}}
		for _, id := range []cluster.ServerID{"s1", "s2"} {
			cfg.Servers = append(cfg.Servers, cluster.Server{ID: id, CPU: 4 * cluster.Core, Memory: 8 * cluster.GB})
		}
		takes := map[string]time.Duration{"short": time.Minute, "long": 10_000 * time.Hour}
		for i, j := range scene.Jobs {
			cfg.Arrivals = append(cfg.Arrivals, compute.Arrival{At: time.Duration(i+1) * time.Second, Job: j, Takes: []time.Duration{takes[j.Stages[0].Name]}})
		}
		return compute.New(cfg)
	})
}
