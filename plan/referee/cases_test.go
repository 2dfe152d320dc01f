package referee

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gleaner/plan"
)

// Cases on which the planner was once wrong: a false optimum, a larger server
// that made everything dearer, hardware that was refused though it was enough,
// and local data whose memory and CPU cost nothing.
var cases = []struct {
	app, hw, sla string // an SLA is a file, or the rate of task t
	colocate     bool
	want         float64 // +Inf when nothing meets the SLA
}{
	{"false-optimum/app", "false-optimum/hw", "false-optimum/sla", true, 800},
	{"larger-server/app", "larger-server/hw", "larger-server/sla", false, 700},
	{"larger-server/app", "larger-server/hw2", "larger-server/sla", false, 700},
	{"shares/e", "shares/hwn", "3", false, 2600},
	{"shares/e", "shares/hwn", "3.9", false, 2600},
	{"shares/e", "shares/hwn", "4.1", false, 2700},
	{"shares/e", "shares/hwn", "5", false, 2800},
	{"shares/e", "shares/hwn", "9", false, 5400},
	{"shares/b", "shares/hwn", "1", false, 1200},
	{"shares/b", "shares/hwn", "4", false, 2500},
	{"shares/b", "shares/hwn", "20.1", false, 8100},
	{"shares/a", "shares/hwn", "1", false, 2600},
	{"shares/a2", "shares/hwn", "1", false, 2700},
	{"shares/c", "shares/hw", "1", false, 3380},
	{"hosts/a", "hosts/h", "10000", false, 4800},
	{"hosts/a", "hosts/h1", "10000", false, 6800},
	{"hosts/a", "hosts/h2", "10000", false, 7000},
	{"hosts/a2", "hosts/h", "10000", false, 2650},
	{"hosts/a2", "hosts/h2", "1950", false, 3400},
	{"hosts/a2", "hosts/h2", "2050", false, 4600},
	{"local-data/app", "local-data/hw", "1", false, 1140},
	{"local-data/app4", "local-data/hw", "1", false, 1250},
	{"memory-per-instance/a", "local-data/hw", "memory-per-instance/s", false, 1370},
	{"units-per-core/a", "units-per-core/h", "3500", false, math.Inf(1)},
	{"units-per-core/a2", "units-per-core/h", "3500", false, 2240},
	{"units-per-core/a2", "units-per-core/h2", "3500", false, 2240},
	{"mixed-servers/app", "mixed-servers/hw", "mixed-servers/sla", false, 2679.704},
}

func TestCases(t *testing.T) {
	for _, c := range cases {
		t.Run(c.app+" "+c.hw+" "+c.sla, func(t *testing.T) {
			var files [3][2]string
			for i, name := range []string{c.app, c.hw, c.sla} {
				data, err := os.ReadFile(filepath.Join("testdata", name+".xml"))
				if i == 2 && err != nil {
					data, err = fmt.Appendf(nil, `<sla task="t" rate="%s"/>`, name), nil
				}
				if err != nil {
					t.Fatal(err)
				}
				files[i] = [2]string{name, string(data)}
			}
			in, err := parse(files)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Solve(in, plan.Options{Colocate: c.colocate})
			if wrong := judge(in, c.colocate, p, err); wrong != nil {
				t.Error(wrong)
			}
			if met := !math.IsInf(c.want, 1); met != (err == nil) || met && (!proven(p) || math.Abs(p.Cost-c.want) > tolerance*c.want) {
				t.Errorf("planned for %g with a bound of %g (%v), want %g", p.Cost, p.LowerBound, err, c.want)
			}
		})
	}
}
