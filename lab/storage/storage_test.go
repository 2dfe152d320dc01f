package storage

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gleaner/input"
	"gleaner/sim/datacenter"
)

func TestHistoryLosesFarFewerBlocksThanStock(t *testing.T) {
	size := Size{Datacenters: []string{"DC-3"}, Servers: 300, Blocks: 60_000, Seeds: 2}
	losses, err := Fig15(context.Background(), size, nil)
	if err != nil {
		t.Fatal(err)
	}
	lost := map[string]Spread{}
	for _, l := range losses {
		lost[l.Placement+strings.Repeat("+", l.Replicas-3)] = l.Lost
	}
	if lost["stock"].Min < 10 || lost["history"].Max*20 > lost["stock"].Min || lost["history+"].Max > lost["stock+"].Min {
		t.Errorf("lost: %v", lost)
	}
	header, rows := losses.Table()
	if len(rows) != 4 || len(rows[0]) != len(header) || len(losses.Figure().Panels) != 2 {
		t.Errorf("table of %d rows, %d panels", len(rows), len(losses.Figure().Panels))
	}
}

func TestHistoryDeniesFewerAccessesThanStock(t *testing.T) {
	size := Size{Datacenters: []string{"DC-9"}, Servers: 300, Blocks: 30_000, Seeds: 2, Utilisations: []float64{0.25, 0.6}}
	points, err := Fig16(context.Background(), size, nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]float64{}
	for _, a := range points {
		if a.Utilisation == 0.6 && a.Replicas == 3 {
			failed[a.Placement+" "+a.Scaling] = a.Failed.Mean
		}
	}
	if failed["stock linear"] < 100 || failed["history linear"] > failed["stock linear"]/2 {
		t.Errorf("failed at 60%%: %v", failed)
	}
	for _, scaling := range datacenter.Scalings {
		if ours, theirs := points.First("DC-9", scaling, "history", 3), points.First("DC-9", scaling, "stock", 3); ours != 0 && ours < theirs {
			t.Errorf("%s: first failure at %v by history, at %v by stock", scaling, ours, theirs)
		}
	}
	header, rows := points.Table()
	if len(rows) != 16 || len(rows[0]) != len(header) || len(points.Figure().Panels) != 2 || len(points.Figure().Panels[0].Lines) != 4 {
		t.Errorf("table of %d rows", len(rows))
	}
}

func TestExperimentsCanBeStopped(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Fig15(ctx, Quick15, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Fig15: %v", err)
	}
	if _, err := Fig16(ctx, Quick16, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Fig16: %v", err)
	}
}

func TestUnknownPlacement(t *testing.T) {
	p, err := datacenter.Find("DC-9")
	if err != nil {
		t.Fatal(err)
	}
	d := datacenter.Generate(p, datacenter.Options{Servers: 60, Seed: 1})
	if _, err := Placer("best", d, 0); !input.Is(err) {
		t.Errorf("%v", err)
	}
}
