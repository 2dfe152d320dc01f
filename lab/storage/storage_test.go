package storage

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gleaner/input"
	"gleaner/lab"
	"gleaner/sim/datacenter"
)

func TestHistoryLosesFarFewerBlocksThanStock(t *testing.T) {
	size := Size{Datacenters: []string{"DC-1"}, Servers: 300, Blocks: 10_000, Seeds: 3}
	losses, err := Fig15(context.Background(), size)
	if err != nil {
		t.Fatal(err)
	}
	lost := map[string]Spread{}
	for _, l := range losses {
		lost[l.Placement+strings.Repeat("+", l.Replicas-3)] = l.Lost
	}
	if lost["stock"].Mean < 10 || lost["history"].Mean*20 > lost["stock"].Mean || lost["paper"].Mean*20 > lost["stock"].Mean ||
		lost["history+"].Max > 0 || lost["stock+"].Mean > lost["stock"].Mean {
		t.Errorf("lost: %v", lost)
	}
	t.Logf("lost: %v", lost)
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

func TestExperimentsCanBeStopped(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for _, e := range Experiments() {
		if _, _, err := e.Run(ctx, lab.Options{Quick: true, Seeds: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}

func TestUnknownPlacement(t *testing.T) {
	p, err := datacenter.Find("DC-9")
	if err != nil {
		t.Fatal(err)
	}
	d := datacenter.Generate(p, datacenter.Options{Servers: 60, Seed: 1})
	if _, err := Learn(d).Placer("best", 0); !input.Is(err) {
		t.Errorf("%v", err)
	}
}
