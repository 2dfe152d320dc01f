package plan_test

import (
	"math"
	"testing"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// shop is one dataset and one task: 100 records of 4 KB a second. A disk of 300 does
// 8.4 ms a record (0.84 of its time), a slow one of 100 does 25 ms (so three are
// needed), an SSD of 900 does 1 ms. The server costs 500 with room for four, a core 100. Tasks have a
// server of their own: 600 in any case.
func shop(t *testing.T, settings ...string) plan.Input {
	t.Helper()
	var sets []spec.Setting
	for _, text := range settings {
		s, err := spec.ParseSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, s)
	}
	edit := spec.Set(sets)
	var in plan.Input
	var err error
	if in.App, err = spec.ReadApplication("app", []byte(`<application>
		<dataset name="d" size="1GB"/>
		<task name="t"><io op="R" dataset="d" record_size="4KB"/><compute time="1ms"/></task></application>`), edit); err != nil {
		t.Fatal(err)
	}
	if in.HW, err = spec.ReadHardware("hw", []byte(`<resources>
		<storage_unit name="slow" capacity="1TB" bus="b" rateR="10MBps" gapR="24.6ms" rateW="10MBps" gapW="24.6ms" price="100"/>
		<storage_unit name="disk" capacity="1TB" bus="b" rateR="10MBps" gapR="8ms" rateW="10MBps" gapW="8ms" price="310"/>
		<storage_unit name="SSD" capacity="1TB" bus="b" rateR="10MBps" gapR="0.6ms" rateW="10MBps" gapW="0.6ms" price="900"/>
		<cpu price="100"/><server name="s" price="500" cpus="4" BW="1Gbps"><bus name="b" slots="4" BW="1Gbps"/></server></resources>`), edit); err != nil {
		t.Fatal(err)
	}
	if in.SLA, err = spec.ReadSLA("sla", []byte(`<sla task="t" rate="100"/>`), in.App, edit); err != nil {
		t.Fatal(err)
	}
	return in
}

func costs(t *testing.T, in plan.Input, o plan.Options, want float64) plan.Plan {
	t.Helper()
	p, err := plan.Solve(in, o)
	if err != nil || math.Abs(p.Cost-want) > 1e-6 {
		t.Errorf("costs %v (%v), want %v", p.Cost, err, want)
	}
	return p
}

// A free choice takes three slow disks: 500 + 300 for data, 600 for the task.
func TestPinnedAndForbiddenMediaCostWhatTheirUnitsCost(t *testing.T) {
	in := shop(t)
	limits := func(texts ...string) (o plan.Options) {
		for _, text := range texts {
			parse := plan.ParsePin
			if text[0] == '!' {
				parse, text = plan.ParseForbid, text[1:]
			}
			l, err := parse(in, text)
			if err != nil {
				t.Fatal(err)
			}
			o.Limits = append(o.Limits, l)
		}
		return o
	}
	costs(t, in, limits(), 1400)
	costs(t, in, limits("!slow"), 1410)
	costs(t, in, limits("d=disk"), 1410)
	costs(t, in, limits("d=SSD", "!d=slow"), 2000) // no cheaper store behind the SSD as a cache
	costs(t, in, limits("d=disk+SSD"), 1410+900)
	if _, err := plan.Solve(in, limits("d=SSD", "!SSD")); err == nil {
		t.Error("a dataset that must use what is forbidden has a plan")
	}
}

// The disk costs 310 and takes the place of three that cost 300: it wins at 300. The
// SSD wins at 300 too. At twice the rate it takes five slow disks on two servers, or two
// disks: the SSD then wins at the price of two disks.
func TestWhyNotNamesThePriceAtWhichAMediumWins(t *testing.T) {
	for _, tc := range []struct {
		unit  int
		set   []string
		uses  bool
		more  float64
		price float64
	}{
		{1, nil, false, 10, 300},
		{2, nil, false, 600, 300},
		{0, nil, true, 10, 100},
		{2, []string{"sla/rate=x2"}, false, 280, 620},
		{2, []string{"storage_unit/*/price=x2"}, false, 1200, 600},
	} {
		in := shop(t, tc.set...)
		best, err := plan.Solve(in, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := plan.Why(in, plan.Options{}, best, tc.unit, []int{0})
		if err != nil {
			t.Fatal(err)
		}
		r := got[0]
		if r.Uses != tc.uses || math.Abs(r.Other.Cost-best.Cost-tc.more) > 1e-6 || math.Abs(r.Price-tc.price) > 1e-6 {
			t.Errorf("%s %v: uses %v, %v more, wins at %v; want %v, %v, %v", in.HW.Units[tc.unit].Name, tc.set, r.Uses, r.Other.Cost-best.Cost, r.Price, tc.uses, tc.more, tc.price)
		}
		if r.Uses {
			continue
		}
		at := in.Priced(tc.unit, r.Price*0.999)
		p, err := plan.Solve(at, plan.Options{})
		if err != nil || p.Needs.Architecture[0].Store != tc.unit && p.Needs.Architecture[0].Cache != tc.unit {
			t.Errorf("%s a little below its price: %v (%v)", in.HW.Units[tc.unit].Name, p.Needs.Architecture, err)
		}
	}
}
