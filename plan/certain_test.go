package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// uncertain is a task of 10 ms without data, on servers of 500 with four cores of 100, at
// a rate that is drawn.
func uncertain(t *testing.T, rate, time string, draws int) plan.Uncertain {
	t.Helper()
	read := func(at func(spec.Number) float64) (in plan.Input, err error) {
		edit := spec.Drawn(at)
		if in.App, err = spec.ReadApplication("app", fmt.Appendf(nil, `<application><task name="t"><compute time="%s"/></task></application>`, time), edit); err != nil {
			return in, err
		}
		if in.HW, err = spec.ReadHardware("hw", []byte(`<resources>
			<storage_unit name="disk" capacity="1TB" bus="b" rateR="1GBps" gapR="0" rateW="1GBps" gapW="0" price="50"/>
			<cpu price="80..120"/><server name="s" price="500" cpus="4" BW="1Gbps"><bus name="b" slots="4" BW="1Gbps"/></server></resources>`), edit); err != nil {
			return in, err
		}
		in.SLA, err = spec.ReadSLA("sla", fmt.Appendf(nil, `<sla task="t" rate="%s"/>`, rate), in.App, edit)
		return in, err
	}
	must := func(in plan.Input, err error) plan.Input {
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	u := plan.Uncertain{Median: must(read(func(spec.Number) float64 { return 0.5 }))}
	for i := range draws {
		chance := rand.New(rand.NewPCG(3, uint64(i)))
		u.Draws = append(u.Draws, must(read(func(spec.Number) float64 { return chance.Float64() })))
	}
	u.Worse = func(q float64) (plan.Input, error) {
		return read(func(n spec.Number) float64 { return 0.5 + (q-0.5)*float64(plan.Worse(n)) })
	}
	return u
}

// A core carries 100 requests a second. Of rates from 1 to 400, 20% are below 81: one core; 45% below
// 181: two; 70% below 281: three; all others take four.
func TestCertaintyCostsTheCoresOfTheRatesItCovers(t *testing.T) {
	u := uncertain(t, "1..400", "10ms", 1000)
	got, err := plan.Certainties(u, plan.Options{}, []float64{0.2, 0.45, 0.7, 0.95, 1}, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{600, 700, 800, 900, 900} {
		c := got[i]
		if c.Plan == nil || math.Abs(c.Plan.Cost-want) > 1e-6 || math.Abs(c.Bound-want) > 1e-6 || c.Met < c.Level {
			t.Errorf("%v sure: %+v costs %v, want %v proven", c.Level, c, c.Plan.Cost, want)
		}
	}
	if share := got[1].Met; math.Abs(share-0.5) > 0.04 { // 2 cores carry 200 of 1..400
		t.Errorf("two cores carry %v of the draws", share)
	}
}

// More certainty never costs less, no plan costs less than its bound, and each meets what it
// says in draws that are counted here.
func TestMoreCertaintyNeverCostsLess(t *testing.T) {
	u := uncertain(t, "200~40%", "5ms..8ms..30ms", 300)
	levels := []float64{0.1, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 1}
	got, err := plan.Certainties(u, plan.Options{}, levels, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	before := 0.0
	for i, c := range got {
		if c.Plan == nil {
			t.Fatalf("%v sure: no plan", c.Level)
		}
		if c.Plan.Cost < before || c.Plan.Cost < c.Bound-1e-6 {
			t.Errorf("%v sure costs %v with a bound of %v, and %v less sure %v", c.Level, c.Plan.Cost, c.Bound, levels[max(0, i-1)], before)
		}
		before = c.Plan.Cost
		cores, met := 0.0, 0
		for _, s := range c.Plan.Servers(u.Median) {
			cores += float64(s.CPUs * s.Count)
		}
		for _, d := range u.Draws {
			if d.SLA.Rates[0].PerSecond*d.App.Tasks[0].Path[0].Compute <= cores*(1+1e-9) {
				met++
			}
		}
		if int(math.Round(c.Met*300)) > met || c.Met < c.Level {
			t.Errorf("%v sure meets %v of the draws, and its %v cores carry %d of 300", c.Level, c.Met, cores, met)
		}
	}
}

// A job of 7,200 core-seconds within a time from one to four hours takes two cores, or one if it has two hours, as
// two draws of three have.
func TestATimeThatIsUncertain(t *testing.T) {
	u := uncertain(t, "1", "1s", 0)
	u.Median.App.Tasks[0].Consumes = 1
	with := func(hours float64) plan.Input {
		in := u.Median
		in.SLA.Rates, in.SLA.Job = nil, &spec.Job{Records: 7200, Time: hours * 3600, Start: spec.AnyTime}
		return in
	}
	for i := range 300 {
		u.Draws = append(u.Draws, with(1+3*(float64(i)+0.5)/300))
	}
	u.Median, u.Worse = with(2.5), func(q float64) (plan.Input, error) { return with(1 + 3*(1-q)), nil }
	got, err := plan.Certainties(u, plan.Options{}, []float64{0.6, 0.66, 0.67, 1}, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{600, 600, 700, 700} {
		if c := got[i]; c.Plan == nil || math.Abs(c.Plan.Cost-want) > 1e-6 || math.Abs(c.Bound-want) > 1e-6 || c.Met < c.Level {
			t.Errorf("%v sure: %+v, want %v", c.Level, c, want)
		}
	}
}
