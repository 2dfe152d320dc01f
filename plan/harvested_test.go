package plan_test

import (
	"fmt"
	"math"
	"testing"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/spec"
)

// nightly is a job of 7,200 records within an hour, a second of CPU for each: two cores
// busy. A server costs 500 and a core 100; a disk of 50 takes 0.4 s for a
// record, and the disk's server has a core only if it has work.
func nightly(t *testing.T, harvested, task string) plan.Input {
	t.Helper()
	var in plan.Input
	var err error
	if in.App, err = spec.ReadApplication("app", fmt.Appendf(nil, `<application>
		<dataset name="d" size="1GB"/>
		<task name="map" consumes="1" %s><io op="R" dataset="d" record_size="1B"/><compute time="1s"/></task></application>`, task)); err != nil {
		t.Fatal(err)
	}
	if in.HW, err = spec.ReadHardware("hw", []byte(`<resources>
		<storage_unit name="disk" capacity="1TB" bus="b" rateR="1GBps" gapR="0.4s" rateW="1GBps" gapW="0.4s" price="50"/>
		<cpu price="100"/><server name="s" price="500" cpus="4" BW="1Gbps"><bus name="b" slots="4" BW="1Gbps"/></server></resources>`)); err != nil {
		t.Fatal(err)
	}
	if in.SLA, err = spec.ReadSLA("sla", []byte(`<sla job="7200" time="1h" start="Tue 03:00"/>`), in.App); err != nil {
		t.Fatal(err)
	}
	if harvested != "" {
		h, err := spec.ReadHarvested("harvest", []byte(`<harvested BW="1Gbps" `+harvested+`/>`))
		if err != nil {
			t.Fatal(err)
		}
		in.Harvested = &h
	}
	return in
}

// Kills of 0.5 in a core-hour that cost half an hour each take a quarter of what is harvested, so
// that all work is done 4/3 times. The disk is read as often.
func TestHarvestedCoresTakeWorkFromBoughtOnes(t *testing.T) {
	const dear = 550 + 500 + 200 // one disk; two cores
	for _, tc := range []struct {
		name, harvested, task string
		cost, share           float64
	}{
		{"nothing is harvested", "", `harvest="1h"`, dear, 0},
		{"the task may not be", `cores="100"`, "", dear, 0},
		{"half of it, without kills", `cores="1"`, `harvest="1h"`, dear - 100, 0.5},
		{"half of it, with what kills cost", `cores="1.3333333333" kills="0.5"`, `harvest="1h"`, dear - 100, 0.5},
		{"the same as measured", `cores="1.3333333333" kills="0.5" task="30min" lost="15min"`, `harvest="1h"`, dear - 100, 0.5},
		{"a shorter task loses no less than measured", `cores="1.3333333333" kills="0.5" task="2h" lost="30min"`, `harvest="1h"`, dear - 100, 0.5},
		{"a little less leaves two cores to buy", `cores="1.33" kills="0.5"`, `harvest="1h"`, dear, 0.49875},
		{"all of it, without a kill, needs one disk", `cores="2"`, `harvest="1h"`, 550, 1},
		{"all of it, with kills, needs two disks", `cores="3" kills="0.5"`, `harvest="1h"`, 600, 1},
		{"tasks that never end", `cores="100" kills="2"`, `harvest="1h"`, dear, 0},
		{"a core with memory for half the task", `cores="2" memory="500MB"`, `harvest="1h" memory="1GB"`, 0, 0.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := nightly(t, tc.harvested, tc.task)
			needs := plan.NeedsOf(in, plan.Architecture{{Store: 0, Cache: plan.NoCache}}, []float64{3600})
			share := 0.0
			for _, h := range needs.Harvest {
				share = h.Share
			}
			if math.Abs(share-tc.share) > 1e-6 {
				t.Errorf("a share of %v is harvested, want %v", share, tc.share)
			}
			if tc.cost > 0 {
				costs(t, in, plan.Options{}, tc.cost)
			}
		})
	}
}

// Requests are never harvested, and neither are tasks whose data is on their servers.
func TestServicesAreNotHarvested(t *testing.T) {
	in := nightly(t, `cores="100"`, `harvest="1h"`)
	in.SLA.Job, in.SLA.Rates = nil, []spec.Rate{{Task: 0, PerSecond: 2}}
	costs(t, in, plan.Options{}, 550+700)
	in = nightly(t, `cores="100"`, `harvest="1h"`)
	in.App.Datasets[0].Remote = false
	if n := plan.NeedsOf(in, plan.Architecture{{Store: 0, Cache: plan.NoCache}}, []float64{3600}); len(n.Harvest) > 0 || len(n.Roles) != 1 {
		t.Errorf("harvested beside local data: %+v", n.Harvest)
	}
}

// A job gets the hours of its week: 10 cores on Tuesday from 3 to 4, and 2 at all other times.
func TestAJobGetsTheHoursInWhichItRuns(t *testing.T) {
	var h spec.Harvested
	for k := range h.Cores {
		h.Cores[k], h.Kills[k] = 2, 0.1
	}
	h.Cores[27], h.Kills[27] = 10, 0.4
	for _, tc := range []struct{ start, hours, mean, least, kills float64 }{
		{27, 1, 10, 10, 0.4},
		{26.5, 1, 6, 2, (0.5*2*0.1 + 0.5*10*0.4) / 6},
		{0, 1, 2, 2, 0.1},
		{167, 168 * 2, (167*2 + 10) / 168.0, 2, (167*2*0.1 + 10*0.4) / (167*2 + 10)},
		{167.5, 28.5, (27.5*2 + 10) / 28.5, 2, (27.5*2*0.1 + 10*0.4) / 65},
	} {
		mean, least, kills := h.Window(tc.start, tc.hours)
		for i, pair := range [][2]float64{{mean, tc.mean}, {least, tc.least}, {kills, tc.kills}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("from %v for %v h: figure %d is %v, want %v", tc.start, tc.hours, i, pair[0], pair[1])
			}
		}
	}
}

// More cores never cost more; more kills never cost less.
func TestMoreSupplyNeverCostsMore(t *testing.T) {
	solve := func(cores, kills float64) float64 {
		p, err := plan.Solve(nightly(t, fmt.Sprintf(`cores="%g" kills="%g"`, cores, kills), `harvest="1h"`), plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Cost
	}
	for _, kills := range []float64{0, 0.2, 0.5, 1, 1.9} {
		before := math.Inf(1)
		for _, cores := range []float64{0, 0.3, 0.9, 1.2, 1.6, 2} {
			now := solve(cores, kills)
			if now > before+1e-6 {
				t.Errorf("%v cores with %v kills cost %v, and fewer %v", cores, kills, now, before)
			}
			if least := solve(cores, 0); now < least-1e-6 {
				t.Errorf("%v cores with %v kills cost %v, and without kills %v", cores, kills, now, least)
			}
			before = now
		}
	}
}

// A job that runs wholly on harvested cores buys no server, unless the SLA asks for some: harvested
// cores are not counted among them.
func TestAHarvestedJobBuysTheLeastServers(t *testing.T) {
	for least, want := range []float64{0, 500, 1000} {
		in := nightly(t, `cores="2"`, `harvest="1h"`)
		in.App.Datasets, in.App.Tasks[0].Path = nil, in.App.Tasks[0].Path[1:] // it computes, and reads nothing
		in.SLA.Least = least
		p, err := plan.Solve(in, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p.Gap() != 0 || math.Abs(p.Cost-want) > 1e-6 || p.Packing.Servers() != least || len(p.Needs.Harvest) != 1 || p.Needs.Harvest[0].Share != 1 {
			t.Errorf("%d servers at least: %d for %v, want %v: %+v", least, p.Packing.Servers(), p.Cost, want, p.Needs.Harvest)
		}
	}
	in := nightly(t, `cores="2"`, `harvest="1h"`)
	in.App.Datasets, in.App.Tasks[0].Path = nil, in.App.Tasks[0].Path[1:]
	in.SLA.Least, in.HW.Servers[0].Stock = 3, 2
	if p, err := plan.Solve(in, plan.Options{}); !input.Is(err) {
		t.Errorf("2 in stock, 3 at least: %v for %v", p.Packing.Servers(), err)
	}
}
