package spec

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/input"
)

// Each scenario is a document and what is said about it: its mistakes, or
// what was understood.
func TestDocuments(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "application":
				app, err := ReadApplication("a", []byte(d.Input))
				return said(err, func() string { return describeApplication(app) })
			case "hardware":
				hw, err := ReadHardware("h", []byte(d.Input))
				return said(err, func() string { return describeHardware(hw) })
			case "sla":
				sla, err := ReadSLA("s", []byte(d.Input), serving(t))
				return said(err, func() string { return describeSLA(sla) })
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func said(err error, describe func() string) string {
	if err == nil {
		return describe()
	}
	if !input.Is(err) {
		return "not the user's mistake: " + err.Error()
	}
	return err.Error() + "\n"
}

// serving is an application with a task to make SLAs for.
func serving(t testing.TB) Application {
	app, err := ReadApplication("a", []byte(`<application>
		<dataset name="d" size="1GB"/>
		<task name="serve"><io op="R" dataset="d" record_size="4KB"/></task>
		<task name="think"><compute time="1s"/></task>
	</application>`))
	if err != nil {
		t.Fatal(err)
	}
	return app
}

func describeApplication(a Application) string {
	var b strings.Builder
	for _, s := range a.Systems {
		fmt.Fprintf(&b, "system %s memory=%g\n", s.Name, s.MemoryPerServer)
		for _, r := range s.Rates {
			fmt.Fprintf(&b, "  %s read %g + %g write %g + %g\n", r.Unit, r.RateR, r.GapR, r.RateW, r.GapW)
		}
	}
	for _, d := range a.Datasets {
		fmt.Fprintf(&b, "dataset %s %g persistent=%v remote=%v partitioned=%v system=%q cpu=%g/%g cache=%g hit=%g\n",
			d.Name, d.Size, d.Persistent, d.Remote, d.Partitioned, d.System, d.CPUPerOp, d.CPUPerUnit, d.CacheSize(), d.HitRate)
	}
	for _, t := range a.Tasks {
		fmt.Fprintf(&b, "task %s phase=%s memory=%g perInstance=%v consumes=%g\n", t.Name, t.Phase, t.Memory, t.PerInstance, t.Consumes)
		for _, op := range t.Path {
			fmt.Fprintf(&b, "  p=%g blocking=%v ", op.Probability, op.Blocking)
			switch {
			case op.IO != nil:
				fmt.Fprintf(&b, "io %+v\n", *op.IO)
			case op.Call != nil:
				fmt.Fprintf(&b, "call %+v\n", *op.Call)
			default:
				fmt.Fprintf(&b, "compute %g\n", op.Compute)
			}
		}
	}
	return b.String()
}

func describeHardware(h Hardware) string {
	var b strings.Builder
	fmt.Fprintf(&b, "currency %s, cpu %.2f + %.2f\n", h.Currency, h.CPU.Price, h.CPU.Energy)
	for _, u := range h.Units {
		fmt.Fprintf(&b, "unit %s %g on %s read %g + %g write %g + %g volatile=%v cost %.2f + %.2f\n", u.Name, u.Capacity, u.Bus,
			u.RateR, u.GapR, u.RateW, u.GapW, u.Volatile, u.Price.Price, u.Energy)
	}
	for _, s := range h.Servers {
		fmt.Fprintf(&b, "server %s cost %.2f + %.2f cpus=%d BW=%g %+v\n", s.Name, s.Price.Price, s.Energy, s.CPUs, s.BW, s.Buses)
	}
	return b.String()
}

func describeSLA(s SLA) string {
	var b strings.Builder
	for _, r := range s.Rates {
		fmt.Fprintf(&b, "task %d at %g a second\n", r.Task, r.PerSecond)
		for i, x := range r.Levels {
			fmt.Fprintf(&b, "  %g for the %d hours %s\n", x, s.Day[i].Hours, s.Day[i].Name)
		}
	}
	if s.Job != nil {
		fmt.Fprintf(&b, "job of %g bytes, %g records in %g s\n", s.Job.Bytes, s.Job.Records, s.Job.Time)
	}
	return b.String()
}

func TestQuantities(t *testing.T) {
	for _, tc := range []struct {
		kind kind
		text string
		want float64
	}{
		{byteKind, "200KB", 200e3}, {byteKind, "1.6GB", 1.6e9}, {byteKind, "4 KiB", 4096}, {byteKind, "0", 0}, {byteKind, "1e3MB", 1e9},
		{rateKind, "90MBps", 90e6}, {rateKind, "1Gbps", 125e6}, {rateKind, "21.3GBps", 21.3e9}, {rateKind, "6Gbps", 750e6},
		{timeKind, "8ms", 8e-3}, {timeKind, "0.6ns", 0.6e-9}, {timeKind, "25min", 1500}, {timeKind, "3.5us", 3.5e-6},
		{powerKind, "3.5W", 3.5}, {countKind, "40K", 40e3}, {countKind, "1.6M", 1.6e6}, {freqKind, "12/min", 0.2}, {freqKind, "300", 300},
		{shareKind, "80%", 0.8},
	} {
		got, err := tc.kind.quantity(tc.text)
		if err != nil || math.Abs(got-tc.want) > 1e-12*tc.want {
			t.Errorf("%q: %v, %v; want %v", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "GB", "-1GB", "1XB", "NaNGB", "InfGB", "1e999GB", "1e300GB", "0x10GB", "1GB2", "5"} {
		if got, err := byteKind.quantity(text); err == nil {
			t.Errorf("%q is taken for %v bytes", text, got)
		}
	}
}

// What is written in YAML is the same as what is written in XML.
func TestYAMLIsTheSame(t *testing.T) {
	x, err := ReadApplication("f", []byte(`<application>
		<x-storage_system name="kv" memory_per_server="1GB"><unit name="disk" rateR="20MBps"/></x-storage_system>
		<dataset name="d" size="1GB" remote="1" x-system="kv"/>
		<task name="t" memory="1GB"><io op="R" dataset="d" record_size="4KB"/><compute time="1ms" blocking="0"/><dependency task="u"/></task>
		<task name="u"><compute time="2ms"/></task>
	</application>`))
	if err != nil {
		t.Fatal(err)
	}
	y, err := ReadApplication("f", []byte(`
application:
  storage_systems:
    - name: kv
      memory_per_server: 1GB
      units: [{name: disk, rateR: 20MBps}]
  datasets: [{name: d, size: 1GB, remote: 1, system: kv}]
  tasks:
    - name: t
      memory: 1GB
      path:
        - io: {op: R, dataset: d, record_size: 4KB}
        - compute: {time: 1ms, blocking: 0}
        - dependency: {task: u}
    - name: u
      path:
        - compute: {time: 2ms}
`))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := describeApplication(x), describeApplication(y); a != b {
		t.Errorf("XML says\n%sYAML says\n%s", a, b)
	}
}

// A hostile document is refused before it takes time or memory.
func TestHostileDocuments(t *testing.T) {
	for name, text := range map[string]string{
		"10 MB nested":     strings.Repeat("<a>", 10<<20/3),
		"deep":             strings.Repeat("<a>", 1000) + strings.Repeat("</a>", 1000),
		"10 MB attribute":  `<application name="` + strings.Repeat("x", 10<<20) + `"/>`,
		"entity expansion": `<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><application>&c;</application>`,
		"deep YAML":        "application: " + strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000),
		"YAML bomb":        "a: &a [x,x]\nb: &b [*a,*a]\napplication: {datasets: [*b,*b]}",
	} {
		if _, err := ReadApplication("f", []byte(text)); !input.Is(err) {
			t.Errorf("%s: %v, want it refused as bad input", name, err)
		}
	}
}

func TestScaled(t *testing.T) {
	s := SLA{Rates: []Rate{{PerSecond: 3}}}
	if got := s.Scaled(2).Rates[0].PerSecond; got != 6 || s.Rates[0].PerSecond != 3 {
		t.Errorf("twice 3 a second is %v, and the original %v", got, s.Rates[0].PerSecond)
	}
	j := SLA{Job: &Job{Time: 100}}
	if got := j.Scaled(4); got.Job.Time != 25 || !reflect.DeepEqual(j, SLA{Job: &Job{Time: 100}}) {
		t.Errorf("four times the load of 100 s is %v s", got.Job.Time)
	}
}

// What YAML takes for the end of a line.
var lineBreak = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

// A reader returns a document, or mistakes that name a line of it, and never neither.

func checkMistakes(t *testing.T, err error, text []byte) {
	t.Helper()
	if err == nil {
		return
	}
	if !input.Is(err) {
		t.Fatalf("not reported as the user's mistake: %v", err)
	}
	lines := len(lineBreak.FindAll(text, -1)) + 1
	mistakes, _ := err.(input.Errors)
	for _, m := range mistakes {
		if m.Line < 0 || m.Line > lines {
			t.Fatalf("line %d of %d: %v", m.Line, lines, m)
		}
	}
}

func FuzzApplication(f *testing.F) {
	f.Add([]byte(`<application><dataset name="d" size="1GB"/><task name="t"><io op="R" dataset="d" record_size="4KB"/><dependency task="t"/></task></application>`))
	f.Add([]byte("application: {datasets: [{name: d, size: 1GB}], tasks: [{name: t, path: [{compute: {time: 1s}}]}]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		app, err := ReadApplication("f", text)
		checkMistakes(t, err, text)
		if err == nil && len(app.Tasks) == 0 {
			t.Fatal("an application without tasks is no mistake")
		}
	})
}

func FuzzHardware(f *testing.F) {
	f.Add([]byte(`<resources><storage_unit name="d" capacity="1GB" bus="b" rateR="1MBps" gapR="0" rateW="1MBps" gapW="0" price="$1" power="1W"/>
		<cpu price="1"/><server name="s" price="1" cpus="1" BW="1Gbps"><bus name="b" slots="1" BW="1Gbps"/></server></resources>`))
	f.Add([]byte("resources: {years: 0.5, cpu: {price: 1}, storage_units: [{name: d, capacity: 1GB, bus: b, rateR: 1MBps, gapR: 0, rateW: 1MBps, gapW: 0, price: 1}], servers: [{name: s, hourly: $0.1, memory: 1GB, cpus: 1, BW: 1Gbps, buses: [{name: b, slots: 1, BW: 1Gbps}]}]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		hw, err := ReadHardware("f", text)
		checkMistakes(t, err, text)
		if err == nil && (len(hw.Servers) == 0 || len(hw.Units) == 0) {
			t.Fatal("hardware without servers or units is no mistake")
		}
	})
}

func FuzzSLA(f *testing.F) {
	f.Add([]byte(`<sla task="serve" rate="12/min"/><sla task="think" rate="1"/>`))
	f.Add([]byte(`<slas><sla job="50GB" time="25min"/></slas>`))
	f.Add([]byte(`<sla task="serve" rate="1"><hours from="8" to="18" rate="9..12"/><hours from="22" to="6" rate="0"/></sla><sla task="think"><hours from="0" to="24" rate="3"/></sla>`))
	app := serving(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		sla, err := ReadSLA("f", text, app)
		checkMistakes(t, err, text)
		if err == nil && len(sla.Rates) == 0 && sla.Job == nil {
			t.Fatal("an SLA that asks for nothing is no mistake")
		}
		hours := 0
		for _, l := range sla.Day {
			hours += l.Hours
		}
		for _, r := range sla.Rates {
			if err == nil && (len(r.Levels) != len(sla.Day) || hours%DayHours != 0 || !(r.PerSecond > 0)) {
				t.Fatalf("%d rates in %d levels of %d hours, %g at the busiest", len(r.Levels), len(sla.Day), hours, r.PerSecond)
			}
		}
	})
}

// What is made of a catalogue is hardware.
func FuzzCatalogue(f *testing.F) {
	head := "name,vcpus,speed,memory,network,disks,disk_size,disk_rate,disk_gap,hourly\n"
	f.Add([]byte(head + "small,2,1,4GiB,2Gbps,1,75GB,200MBps,100us,0.10\nlarge,8,1,16GiB,10Gbps,0,,,,$0.36\n"))
	f.Add([]byte(head + "00000,1,1,00,1Bps,0,,,,00")) // no memory
	f.Add([]byte("\ufeff" + head + "# none\n\"a<&\"\"b\",4,0.5,2GB,1Gbps,1,1GB,1MBps,0s,0.1\n"))
	f.Add([]byte("reserved," + head + "$0.06,small,2,1,4GiB,2Gbps,0,,,,0.10\n,large,8,1,16GiB,10Gbps,0,,,,$0.36\n0,free,8,1,16GiB,10Gbps,0,,,,\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, payment := range []Payment{{"hourly", "hourly"}, {"reserved", "hourly"}} {
			out, err := Catalogue("f", text, payment)
			checkMistakes(t, err, text)
			if err != nil {
				continue
			}
			if _, err := ReadHardware("out", out); err != nil {
				t.Fatalf("%v in\n%s", err, out)
			}
		}
	})
}
