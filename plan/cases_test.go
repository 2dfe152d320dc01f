package plan_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// readCase reads documents of testdata/cases; an SLA that begins with < is
// the document itself.
func readCase(t *testing.T, app, hw, sla string) plan.Input {
	t.Helper()
	read := func(name string) []byte {
		if strings.HasPrefix(name, "<") {
			return []byte(name)
		}
		text, err := os.ReadFile(filepath.Join("testdata", "cases", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var in plan.Input
	var err error
	if in.App, err = spec.ReadApplication(app, read(app)); err != nil {
		t.Fatal(err)
	}
	if in.HW, err = spec.ReadHardware(hw, read(hw)); err != nil {
		t.Fatal(err)
	}
	if in.SLA, err = spec.ReadSLA("sla", read(sla), in.App); err != nil {
		t.Fatal(err)
	}
	return in
}

// Small cases on which the planner was once wrong because of minimal counts of units
// and instances, a fraction below the tolerance, or the needs of local data. The
// costs were computed by hand.
func TestCases(t *testing.T) {
	for _, tc := range []struct {
		name, app, hw, sla string
		colocate           bool
		cost               float64
	}{
		{"presence of a storage system", "false-optimum/app.xml", "false-optimum/hw.xml", "false-optimum/sla.xml", true, 800},
		{"a larger server is also on sale", "larger-server/app.xml", "larger-server/hw.xml", "larger-server/sla.xml", false, 700},
		{"and without it", "larger-server/app.xml", "larger-server/hw2.xml", "larger-server/sla.xml", false, 700},
		{"two datasets share slots, 3/s", "shares/e.xml", "shares/hwn.xml", `<sla task="t" rate="3"/>`, false, 2600},
		{"3.9/s", "shares/e.xml", "shares/hwn.xml", `<sla task="t" rate="3.9"/>`, false, 2600},
		{"4.1/s", "shares/e.xml", "shares/hwn.xml", `<sla task="t" rate="4.1"/>`, false, 2700},
		{"5/s", "shares/e.xml", "shares/hwn.xml", `<sla task="t" rate="5"/>`, false, 2800},
		{"9/s", "shares/e.xml", "shares/hwn.xml", `<sla task="t" rate="9"/>`, false, 5400},
		{"private data over more instances", "shares/b.xml", "shares/hwn.xml", `<sla task="t" rate="5"/>`, false, 2600},
		{"cores on one server, network on another", "hosts/a.xml", "hosts/h.xml", `<sla task="t" rate="10000"/>`, false, 4800},
		{"only cores", "hosts/a.xml", "hosts/h1.xml", `<sla task="t" rate="10000"/>`, false, 6800},
		{"a core a unit", "hosts/a2.xml", "hosts/h.xml", `<sla task="t" rate="10000"/>`, false, 2650},
		{"memory of a storage system beside local data", "local-data/app.xml", "local-data/hw.xml", `<sla task="t" rate="1"/>`, false, 1140},
		{"CPU of local data", "local-data/app4.xml", "local-data/hw.xml", `<sla task="t" rate="1"/>`, false, 1250},
		{"memory of each of three instances", "memory-per-instance/a.xml", "local-data/hw.xml", `<sla task="t0" rate="1"/><sla task="t1" rate="2.9"/>`, false, 1370},
		{"memory, a unit a core", "units-per-core/a2.xml", "units-per-core/h.xml", `<sla task="t" rate="3500"/>`, false, 2240},
		{"with larger memory on sale", "units-per-core/a2.xml", "units-per-core/h2.xml", `<sla task="t" rate="3500"/>`, false, 2240},
		{"one server has the network, another the slots", "mixed-servers/app.xml", "mixed-servers/hw.xml", "mixed-servers/sla.xml", false, 2679.704},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := readCase(t, tc.app, tc.hw, tc.sla)
			p, err := plan.Solve(in, plan.Options{Colocate: tc.colocate})
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(p.Cost-tc.cost) > 0.01 || p.Gap() != 0 {
				t.Errorf("%v, no cheaper than %v; want %v", p.Cost, p.LowerBound, tc.cost)
			}
			checkPlan(t, in, p)
		})
	}
}

// A task that is never invoked is reported.
func TestIdleTasks(t *testing.T) {
	app, err := spec.ReadApplication("app", []byte(`<application><dataset name="d" size="1GB"/>
		<task name="serve"><dependency task="inner"/><io op="R" dataset="d" record_size="1KB"/></task>
		<task name="inner"><compute time="1ms"/></task>
		<task name="forgotten"><dependency task="far"/></task>
		<task name="far"><compute time="1ms"/></task></application>`))
	if err != nil {
		t.Fatal(err)
	}
	in := load(t, "photoshare", "server1", "photoshare")
	in.App = app
	if in.SLA, err = spec.ReadSLA("sla", []byte(`<sla task="serve" rate="1"/>`), app); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Solve(in, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range p.Needs.Idle {
		names = append(names, app.Tasks[i].Name)
	}
	if got := strings.Join(names, " "); got != "forgotten far" {
		t.Errorf("idle: %q, want forgotten and far", got)
	}
}

// Free servers are no reason to fail, though little can be proven about them.
func TestFreeServers(t *testing.T) {
	in := load(t, "photoshare", "server1", "photoshare")
	in.HW.Servers[0].Price = spec.Price{}
	p, err := plan.Solve(in, plan.Options{Nodes: 50})
	if err != nil {
		t.Fatal(err)
	}
	if p.LowerBound > p.Cost || p.Cost > 7324 {
		t.Errorf("%v >= %v; with servers that cost something it is 7324", p.Cost, p.LowerBound)
	}
	checkPlan(t, in, p)
}
