package check_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/check"
)

// What a plan promises of latencies is so, whatever else runs: tasks that compute longer, large records on the
// same units, many at a time. Networks are fast, because the promise is not about them.
func TestPromisedLatenciesHold(t *testing.T) {
	planned := 0
	for seed := range uint64(16) {
		in, words := mixed(t, rand.New(rand.NewPCG(seed, 0)))
		p, err := plan.Solve(in, plan.Options{Colocate: seed%3 == 0, Gap: 0.1, Nodes: 20})
		if input.Is(err) {
			continue // nothing is fast enough
		}
		if err != nil {
			t.Fatal(err)
		}
		planned++
		r := check.Run(in, check.Of(in, p), seeded(seed))
		if len(r.Slow) > 0 || len(r.Latencies) == 0 && r.Share >= check.Enough {
			t.Errorf("seed %d: %v\n%s\n%+v", seed, r.Slow, words, r)
		}
	}
	if planned < 6 {
		t.Errorf("%d of 16 could be planned, which are too few to tell", planned)
	}
}

// mixed is an application with a task that has a goal and others that have none, or a longer one.
func mixed(t *testing.T, rng *rand.Rand) (plan.Input, string) {
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	step := func(record, compute string) string {
		return fmt.Sprintf(`<io op="%s" dataset="d" record_size="%s" num_records="%s" parallel="%s" blocking="%s"/><compute time="%s"/>`,
			pick("R", "R", "W"), record, pick("1", "1", "3", "20"), pick("0", "1"), pick("1", "1", "0"), compute)
	}
	app := `<application><dataset name="d" size="10GB" cpu_per_op="` + pick("0", "0.02ms", "0.5ms") + `"/>
		<task name="fast">` + step(pick("4KB", "100KB"), pick("0.2ms", "1ms", "5ms")) + pick(``, `<dependency task="inside" num_invocations="4" parallel="1"/>`, `<dependency task="inside" blocking="0" num_invocations="4"/>`) + `</task>
		<task name="inside"><compute time="` + pick("0.1ms", "20ms") + `"/></task>
		<task name="slow">` + step(pick("4KB", "1MB", "20MB"), pick("0.2ms", "20ms", "200ms")) + `</task></application>`
	hw := `<resources>
		<storage_unit name="flash" capacity="100GB" bus="S" rateR="2GBps" gapR="0.05ms" rateW="1GBps" gapW="0.05ms" price="100"/>
		<storage_unit name="disk" capacity="1000GB" bus="S" rateR="200MBps" gapR="5ms" rateW="200MBps" gapW="5ms" price="50"/>
		<cpu price="20"/>
		<server name="box" price="500" cpus="` + pick("1", "4", "16") + `" BW="1000GBps"><bus name="S" slots="8" BW="1000GBps"/></server></resources>`
	sla := `<slas><sla task="fast" rate="` + pick("10", "60") + `" latency="` + pick("20ms", "100ms", "500ms", "3s") + `" percentile="` + pick("0.9", "0.99") + `"/>
		<sla task="slow" rate="` + pick("3", "10") + `"/></slas>`
	return read(t, app, hw, sla), app + sla
}
