package check_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/check"
	"gleaner/plan/examples"
	"gleaner/plan/spec"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func published(t *testing.T, app string) (plan.Input, check.Config) {
	t.Helper()
	in, err := examples.Load(app+".xml", "server1.xml", app+"-sla.xml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Solve(in, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return in, check.Of(in, p)
}

// The chosen cluster meets the SLA, and with any one piece less it does not.
func TestPhotoShareHasNoSuperfluousPiece(t *testing.T) {
	in, c := published(t, "photoshare")
	for seed := range uint64(3) {
		if r := check.Run(in, c, seeded(seed)); !r.Meets() {
			t.Errorf("seed %d: the chosen cluster meets %.4f of the SLA: %+v", seed, r.Share, r)
		}
	}
	neighbours := check.Neighbours(in, c)
	if len(neighbours) != 11 {
		t.Errorf("%d neighbours, want 11", len(neighbours))
	}
	for _, n := range neighbours {
		if r := check.Run(in, n.Config, seeded(1)); r.Meets() {
			t.Errorf("%s meets the SLA too", n.Change)
		}
		if saved := c.Cost(in) - n.Config.Cost(in); math.Abs(saved-n.Saves) > 1e-9 {
			t.Errorf("%s saves %v, said %v", n.Change, saved, n.Saves)
		}
	}
}

func TestTerasortPhases(t *testing.T) {
	in, c := published(t, "terasort")
	r := check.Run(in, c, seeded(1))
	if !r.Meets() || math.Abs(r.Seconds-1500) > 5 {
		t.Errorf("takes %v s of 1500", r.Seconds)
	}
	// All servers run both phases: half of the cores take twice the time.
	for i := range c.Servers {
		c.Servers[i].CPUs = 2
	}
	if r := check.Run(in, c, seeded(1)); math.Abs(r.Seconds-3000) > 10 {
		t.Errorf("with half of the cores it takes %v s, want 3000", r.Seconds)
	}
}

// A dumb twin: if one station is the bottleneck, the share of the SLA that is met is
// the capacity of that station over its load.
func TestOneBottleneck(t *testing.T) {
	hw, err := spec.ReadHardware("hw", []byte(`<resources>
		<storage_unit name="disk" capacity="100GB" bus="SAS" rateR="100MBps" gapR="10ms" rateW="100MBps" gapW="10ms" price="100"/>
		<storage_unit name="memory" capacity="100GB" bus="DDR" rateR="10GBps" gapR="0" rateW="10GBps" gapW="0" price="20"/>
		<cpu price="50"/>
		<server name="box" price="1000" cpus="4" BW="1Gbps"><bus name="SAS" slots="4" BW="6Gbps"/><bus name="DDR" slots="8" BW="20GBps"/></server>
	</resources>`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, app, rate, unit string
		cpus                  int
		want                  float64
	}{
		{"disk", `<io op="R" dataset="d" record_size="1MB"/>`, "100", "disk", 1, 0.5},                                    // 20 ms each
		{"network", `<io op="R" dataset="d" record_size="1MB"/>`, "250", "memory", 1, 0.5},                               // 125 MB/s
		{"cores", `<io op="R" dataset="d" record_size="1KB"/><compute time="20ms"/>`, "200", "memory", 3, 0.75},          // 3 of 4 cores
		{"probability", `<io op="R" dataset="d" record_size="1MB" probability="0.25"/>`, "400", "disk", 1, 0.5},          // 100 a second
		{"enough", `<io op="R" dataset="d" record_size="1MB"/><compute time="1ms"/>`, "40", "disk", 1, 1},                // 80%
		{"pieces of a large record", `<io op="R" dataset="d" record_size="100MB" blocking="0"/>`, "2", "disk", 1, 0.495}, // 1.01 s each
	} {
		app, err := spec.ReadApplication("app", []byte(`<application><dataset name="d" size="1GB"/><task name="serve">`+tc.app+`</task></application>`))
		if err != nil {
			t.Fatal(err)
		}
		in := plan.Input{App: app, HW: hw}
		if in.SLA, err = spec.ReadSLA("sla", []byte(`<sla task="serve" rate="`+tc.rate+`"/>`), app); err != nil {
			t.Fatal(err)
		}
		c := check.Config{Assignment: map[string]check.Assignment{"d": {Store: tc.unit}}, Servers: []check.Server{
			{Type: "box", Count: 1, CPUs: tc.cpus, Tasks: map[string]int{"serve": 1}},
			{Type: "box", Count: 1, CPUs: 1, Units: map[string]int{tc.unit: 1}, Datasets: map[string]map[string]int{"d": {tc.unit: 1}}},
		}}
		if r := check.Run(in, c, seeded(7)); math.Abs(r.Share-tc.want) > 0.02 {
			t.Errorf("%s: meets %.3f of the SLA, want %.3f; %+v", tc.name, r.Share, tc.want, r)
		}
	}
}

func TestSameSeedSameResult(t *testing.T) {
	in, c := published(t, "photoshare")
	in.SLA = in.SLA.Scaled(1.1)
	if a, b := check.Run(in, c, seeded(4)), check.Run(in, c, seeded(4)); !reflect.DeepEqual(a, b) {
		t.Errorf("one seed, two results:\n%+v\n%+v", a, b)
	}
}

// A configuration survives being written and read, and nonsense is refused with all
// its mistakes.
func TestReadConfig(t *testing.T) {
	in, c := published(t, "photoshare")
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := check.Read("c", text, in)
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("%v: %+v became %+v", err, c, back)
	}
	for _, text := range []string{``, `{}`, `[]`, `{"servers":[{"type":"Server1","count":-1}]}`,
		`{"servers":[{"type":"Server1","count":1,"datasets":{"photos":{"SSD":-1}}}]}`,
		`{"servers":[{"type":"Server1","count":1,"tasks":{"dance":1}}]}`} {
		if _, err := check.Read("c", []byte(text), in); !input.Is(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	in, err := examples.Load("photoshare.xml", "server1.xml", "photoshare-sla.xml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"assignment":{"photos":{"store":"SSD"},"thumbnails":{"store":"SSD"},"tags":{"store":"SSD","cache":"DRAM"}},
		"servers":[{"type":"Server1","count":1,"cpus":1,"units":{"SSD":1},"tasks":{"photoview":1},"datasets":{"tags":{"SSD":1}}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := check.Read("c", text, in)
		if err == nil {
			check.Shortages(in, c)
			c.Cost(in)
		} else if !input.Is(err) {
			t.Fatal(err)
		}
	})
}

// Cores that a server needs to boot do no work: with 4 of 14, ten are left for tasks, and with
// 4 of 11 seven. Half a core makes the others slower by as much.
func TestBootingTakesCores(t *testing.T) {
	for _, tc := range []struct {
		boot string
		cpus int
		want float64
	}{{"0", 10, 1}, {"4", 14, 1}, {"4", 11, 0.7}, {"0.5", 10, 0.95}, {"4", 4, 0}} {
		in := read(t, `<application><dataset name="d" size="1GB"/>
			<task name="get"><io op="R" dataset="d" record_size="4KB"/><compute time="1ms"/></task></application>`,
			`<resources>
			<storage_unit name="disk" capacity="100GB" bus="SAS" rateR="1GBps" gapR="0" rateW="1GBps" gapW="0" price="100"/>
			<cpu price="50"/>
			<server name="box" price="1000" cpus="32" BW="25Gbps" boot_cpus="`+tc.boot+`"><bus name="SAS" slots="4" BW="6GBps"/></server>
			</resources>`, `<sla task="get" rate="10000"/>`)
		c := check.Config{Assignment: map[string]check.Assignment{"d": {Store: "disk"}}, Servers: []check.Server{
			{Type: "box", Count: 1, CPUs: tc.cpus, Tasks: map[string]int{"get": 10}},
			{Type: "box", Count: 1, CPUs: 4, Units: map[string]int{"disk": 1}, Datasets: map[string]map[string]int{"d": {"disk": 1}}},
		}}
		if r := check.Run(in, c, seeded(7)); math.Abs(r.Share-tc.want) > 0.02 || r.Meets() != (tc.want == 1) {
			t.Errorf("%d cores, %s of them to boot: %.3f of the SLA, want %v; %+v", tc.cpus, tc.boot, r.Share, tc.want, r)
		}
	}
}

// read reads three documents.
func read(t *testing.T, app, hw, sla string) plan.Input {
	t.Helper()
	var in plan.Input
	var err error
	if in.App, err = spec.ReadApplication("app", []byte(app)); err != nil {
		t.Fatal(err)
	}
	if in.HW, err = spec.ReadHardware("hw", []byte(hw)); err != nil {
		t.Fatal(err)
	}
	if in.SLA, err = spec.ReadSLA("sla", []byte(sla), in.App); err != nil {
		t.Fatal(err)
	}
	return in
}

// failing is an application of which servers may fail, and a cluster of boxes: tasks with the cores
// given, and three replicas on the servers given.
func failing(t *testing.T, survive string, cores []int, data ...int) (plan.Input, check.Config) {
	in := read(t, `<application><dataset name="d" size="1GB" replicas="3"/>
		<task name="get"><io op="R" dataset="d" record_size="4KB"/><compute time="12ms"/></task></application>`,
		`<resources>
		<storage_unit name="disk" capacity="100GB" bus="SAS" rateR="1GBps" gapR="0" rateW="1GBps" gapW="0" price="100"/>
		<cpu price="50"/>
		<server name="box" price="1000" cpus="32" BW="25Gbps"><bus name="SAS" slots="4" BW="6GBps"/></server>
		</resources>`, `<slas><sla task="get" rate="100"/>`+survive+`</slas>`)
	c := check.Config{Assignment: map[string]check.Assignment{"d": {Store: "disk"}}}
	for _, n := range cores {
		c.Servers = append(c.Servers, check.Server{Type: "box", Count: 1, CPUs: n, Tasks: map[string]int{"get": n}})
	}
	for _, n := range data {
		c.Servers = append(c.Servers, check.Server{Type: "box", Count: n, Units: map[string]int{"disk": 1}, Datasets: map[string]map[string]int{"d": {"disk": 1}}})
	}
	return in, c
}

// Any two servers may fail, also of different kinds: what is one kind in a plan may be
// written as several.
func TestServersOfSeveralKindsFail(t *testing.T) {
	for _, tc := range []struct {
		cores, data []int
		sets        int
		meets       bool
	}{
		{[]int{2, 2, 2}, []int{3}, 3 + 3 + 1, true},
		{[]int{2, 2}, []int{3}, 1 + 2 + 1, false},                 // no task is left
		{[]int{2, 2, 2}, []int{1, 1, 1}, 15, true},                // one of three replicas is left
		{[]int{1, 1, 1}, []int{3}, 7, false},                      // a core is not enough
		{[]int{2, 2, 2}, []int{1, 1, 1, 1, 1, 1, 1, 1}, 55, true}, // not all are tried
		{[]int{2, 2}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1}, 55, false},
	} {
		in, c := failing(t, `<survive servers="2"/>`, tc.cores, tc.data...)
		r := check.Run(in, c, seeded(1))
		if r.Meets() != tc.meets || r.Failures.Sets != tc.sets || r.Failures.Tried > 50 || r.Failures.Tried < min(tc.sets, 2) {
			t.Errorf("tasks on %v cores, data on %v: %+v", tc.cores, tc.data, r)
		}
	}
}

// The servers that are left keep the headroom and the latencies that the SLA asks for.
func TestServersThatAreLeftKeepTargets(t *testing.T) {
	for _, tc := range []struct {
		survive string
		cores   int
		meets   bool
	}{
		{`<survive servers="1"/>`, 2, true},
		{`<survive servers="1"/><utilisation cpu="60%"/>`, 2, true},
		{`<survive servers="1"/><utilisation cpu="50%"/>`, 2, false},
		{`<survive servers="1"/><utilisation cpu="50%"/>`, 3, true},
	} {
		in, c := failing(t, tc.survive, []int{tc.cores, tc.cores}, 3)
		if r := check.Run(in, c, seeded(1)); r.Meets() != tc.meets {
			t.Errorf("%s, %d cores: %+v", tc.survive, tc.cores, r)
		}
	}
}
