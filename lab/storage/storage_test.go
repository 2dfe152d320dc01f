package storage

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"gleaner/lab"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

func TestHistoryLosesFarFewerBlocksThanStock(t *testing.T) {
	size := Size{Datacenters: []string{"DC-1"}, Servers: 300, Blocks: 10_000, Seeds: 3}
	losses, err := Fig15(context.Background(), size)
	if err != nil {
		t.Fatal(err)
	}
	lost, rebuilt := map[string]Spread{}, map[string]Spread{}
	for _, l := range losses {
		name := l.Placement + strings.Repeat("+", l.Replicas-3)
		lost[name], rebuilt[name] = l.Lost, l.Rebuilt
	}
	if lost["stock"].Mean < 10 || lost["history"].Mean*20 > lost["stock"].Mean || lost["paper"].Mean*20 > lost["stock"].Mean ||
		lost["history+"].Max > 0 || lost["stock+"].Mean > lost["stock"].Mean {
		t.Errorf("lost: %v", lost)
	}
	if rebuilt["stock"].Min == 0 || rebuilt["paper"].Mean < 2*rebuilt["stock"].Mean ||
		rebuilt["history"].Mean > 1.5*rebuilt["stock"].Mean || rebuilt["history+"].Mean > 1.5*rebuilt["stock+"].Mean {
		t.Errorf("rebuilt: %v", rebuilt)
	}
	t.Logf("lost: %v, rebuilt: %v", lost, rebuilt)
	table := losses.Table()
	if len(table.Rows) != 6 || len(table.Rows[0]) != len(table.Columns) || len(losses.Figure().Panels) != 2 {
		t.Errorf("table %v, %d panels", table, len(losses.Figure().Panels))
	}
}

func TestHistoryDeniesFewerAccessesThanStock(t *testing.T) {
	size := Size{Datacenters: []string{"DC-9"}, Servers: 600, Blocks: 20_000, Seeds: 1, Utilisations: []float64{0.45}}
	points, err := Fig16(context.Background(), size)
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]float64{}
	for _, a := range points {
		if a.Utilisation == 0.45 && a.Replicas == 3 {
			failed[a.Placement+" "+a.Scaling] = a.Failed.Mean
		}
	}
	if failed["stock linear"] < 100 || failed["paper linear"] > failed["stock linear"] || failed["history linear"] > failed["paper linear"]/2 {
		t.Errorf("failed at 45%%: %v", failed)
	}
	t.Logf("failed at 45%%: %v", failed)
	for _, row := range points.Firsts().Rows {
		if at := row[4]; (at == "none") != (row[3] == "history" || row[3] == "paper") {
			t.Errorf("first failed access: %v", row)
		}
	}
	table := points.Table()
	if len(table.Rows) != 12 || len(table.Rows[0]) != len(table.Columns) || len(points.Figure().Panels) != 2 || len(points.Figure().Panels[0].Lines) != 6 {
		t.Errorf("table %v", table)
	}
}

// On every datacenter, and with other seeds than those by which the rule was chosen.

func TestHistoryRebuildsLittleAndLosesNone(t *testing.T) {
	blocks, servers := 10_000, 400
	if os.Getenv("GLEANER_LONG") != "" {
		blocks, servers = 1_000_000, 0
	}
	for i, p := range datacenter.Profiles() {
		seed := uint64(100 + i)
		d := datacenter.Generate(p, datacenter.Options{Servers: servers, Past: 31, Seed: seed})
		results := map[string]simulation.StorageResult{}
		for _, policy := range []string{"stock", "history"} {
			run := simulation.Storage{Placement: policy, Blocks: blocks, Replicas: 3, Days: 365, Seed: seed}
			result, err := run.Run(d, nil)
			if err != nil {
				t.Fatal(err)
			}
			results[policy] = result
		}
		stock, history := results["stock"], results["history"]
		if history.Lost > 0 || 2*history.Rebuilt > 3*stock.Rebuilt {
			t.Errorf("%s seed %d: history lost %d and rebuilt %d, stock %d", p.Name, seed, history.Lost, history.Rebuilt, stock.Rebuilt)
		}
		// Replicas leave the tenants that are reimaged most, and do not come back.
		if all := 3 * blocks; history.Ended[2] > all/5 || history.Ended[2] > history.Placed[2] || history.Placed[0]+history.Placed[1]+history.Placed[2] != all {
			t.Errorf("%s seed %d: replicas by column %v, at the end %v", p.Name, seed, history.Placed, history.Ended)
		}
		t.Logf("%s seed %d: history lost %d, rebuilt %d, columns %v to %v; stock lost %d, rebuilt %d, columns %v to %v", p.Name, seed,
			history.Lost, history.Rebuilt, history.Placed, history.Ended, stock.Lost, stock.Rebuilt, stock.Placed, stock.Ended)
	}
}

func TestExperimentsCanBeStopped(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for _, e := range Experiments() {
		if _, _, err := e.Run(ctx, lab.Options{Quick: true, Seeds: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
