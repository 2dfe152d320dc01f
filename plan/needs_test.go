package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// Each scenario is an application, a load and where its data lies, and below
// the line what that needs. The hardware makes calculations easy: a disk does
// 100 MB/s with a gap of 10 ms, a flash unit 200 MB/s with 1 ms, memory 1 GB/s
// with none; servers have 4 cores, 4 slots and 1 Gbps.
func TestNeeds(t *testing.T) {
	hw, err := spec.ReadHardware("hw", []byte(`<resources>
		<storage_unit name="disk" capacity="100GB" bus="SAS" rateR="100MBps" gapR="10ms" rateW="100MBps" gapW="10ms" price="100"/>
		<storage_unit name="flash" capacity="10GB" bus="SAS" rateR="200MBps" gapR="1ms" rateW="200MBps" gapW="1ms" price="300"/>
		<storage_unit name="memory" capacity="1GB" bus="DDR" rateR="1GBps" gapR="0" rateW="1GBps" gapW="0" volatile="1" price="20"/>
		<cpu price="50"/>
		<server name="box" price="1000" cpus="4" BW="1Gbps"><bus name="SAS" slots="4" BW="6Gbps"/><bus name="DDR" slots="8" BW="20GBps"/></server>
	</resources>`))
	if err != nil {
		t.Fatal(err)
	}
	datadriven.RunTest(t, "testdata/needs", func(t *testing.T, d *datadriven.TestData) string {
		var sla string
		var on string
		d.ScanArgs(t, "sla", &sla)
		if d.HasArg("on") {
			d.ScanArgs(t, "on", &on)
		}
		app, err := spec.ReadApplication("app", []byte("<application>"+d.Input+"</application>"))
		if err != nil {
			return err.Error()
		}
		in := plan.Input{App: app, HW: hw}
		if in.SLA, err = spec.ReadSLA("sla", []byte(slaText(sla)), app); err != nil {
			return err.Error()
		}
		var seconds []float64
		if in.SLA.Job != nil {
			for range app.Phases() {
				seconds = append(seconds, in.SLA.Job.Time/float64(len(app.Phases())))
			}
		}
		return describeNeeds(in, plan.NeedsOf(in, architecture(t, hw, on), seconds))
	})
}

// slaText turns "serve:100,view:5" or "job:50GB:100s" into a document.
func slaText(s string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(s, ",") {
		words := strings.Split(part, ":")
		if words[0] == "job" {
			fmt.Fprintf(&b, `<sla job=%q time=%q/>`, words[1], words[2])
			continue
		}
		fmt.Fprintf(&b, `<sla task=%q rate=%q/>`, words[0], words[1])
	}
	return b.String()
}

// architecture reads "disk,disk+memory".
func architecture(t *testing.T, hw spec.Hardware, s string) plan.Architecture {
	unit := func(name string) int {
		for i, u := range hw.Units {
			if u.Name == name {
				return i
			}
		}
		t.Fatalf("no unit %q", name)
		return 0
	}
	var out plan.Architecture
	if s == "" {
		return out
	}
	for part := range strings.SplitSeq(s, ",") {
		store, cache, cached := strings.Cut(part, "+")
		c := plan.Choice{Store: unit(store), Cache: plan.NoCache}
		if cached {
			c.Cache = unit(cache)
		}
		out = append(out, c)
	}
	return out
}

func describeNeeds(in plan.Input, n plan.Needs) string {
	var b strings.Builder
	for _, t := range n.Tasks {
		fmt.Fprintf(&b, "task %s: %.4g/s x %.4g s (%.4g s CPU) = %d\n", in.App.Tasks[t.Task].Name, t.Rate, t.Runtime, t.CPU, t.Instances)
	}
	for _, t := range n.Tiers {
		fmt.Fprintf(&b, "%s cache=%v: %d x %s (capacity %.4g, I/O %.4g) net %.4g cores %.4g\n", in.App.Datasets[t.Dataset].Name, t.Cache, t.Units,
			in.HW.Units[t.Unit].Name, t.Capacity, t.IO, t.Net, t.CPU)
	}
	for _, r := range n.Roles {
		var names []string
		for _, t := range r.Tasks {
			names = append(names, in.App.Tasks[t].Name)
		}
		fmt.Fprintf(&b, "role %s: %.4g, cores %.4g net %.4g memory %.4g held %.4g\n", strings.Join(names, "+"), r.Instances, r.CPU, r.Net, r.Memory, r.Held)
		for _, l := range r.Locals {
			fmt.Fprintf(&b, "  %s cache=%v on %s: %d each, capacity %.4g, I/O %.4g\n", in.App.Datasets[l.Dataset].Name, l.Cache, in.HW.Units[l.Unit].Name, l.Each, l.Capacity, l.IO)
		}
	}
	return b.String()
}

// Tasks that invoke the next one twice, 22 deep, run 4 million times, and their needs
// are computed in 23 steps.
func TestDoubledDependencies(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<application><dataset name="d" size="1GB"/>`)
	const depth = 22
	for i := range depth {
		fmt.Fprintf(&b, `<task name="t%d"><dependency task="t%d"/><dependency task="t%d"/></task>`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `<task name="t%d"><io op="R" dataset="d" record_size="1KB"/><compute time="1us"/></task></application>`, depth)
	app, err := spec.ReadApplication("app", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	in := load(t, "photoshare", "server1", "photoshare")
	in.App = app
	if in.SLA, err = spec.ReadSLA("sla", []byte(`<sla task="t0" rate="1"/>`), app); err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(1, func() {
		n := plan.NeedsOf(in, plan.Architecture{{Store: 0, Cache: plan.NoCache}}, nil)
		if got, want := n.Tiers[0].Net[0], float64(1<<depth)*1000; got != want {
			t.Errorf("%v bytes a second, want %v", got, want)
		}
	})
	if allocs > 2000 {
		t.Errorf("%v allocations for %d tasks", allocs, depth+1)
	}
}
