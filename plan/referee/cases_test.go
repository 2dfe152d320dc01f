package referee

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gleaner/plan"
	"gleaner/plan/spec"
)

func read(t testing.TB, app, hw, sla string) plan.Input {
	var in plan.Input
	var err error
	get := func(f string) []byte {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if in.App, err = spec.ReadApplication(app, get(app)); err != nil {
		t.Fatal(err)
	}
	if in.HW, err = spec.ReadHardware(hw, get(hw)); err != nil {
		t.Fatal(err)
	}
	if in.SLA, err = spec.ReadSLA(sla, get(sla), in.App); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestTen(t *testing.T) {
	dir := "/work/shared/data/plan-cases/"
	for _, c := range [][4]string{
		{"false-optimum/app.xml", "false-optimum/hw.xml", "false-optimum/sla.xml", "c"},
		{"larger-server/app.xml", "larger-server/hw.xml", "larger-server/sla.xml", ""},
		{"larger-server/app.xml", "larger-server/hw2.xml", "larger-server/sla.xml", ""},
		{"shares/e.xml", "shares/hwn.xml", "3", ""},
		{"shares/e.xml", "shares/hwn.xml", "3.9", ""},
		{"shares/e.xml", "shares/hwn.xml", "4.1", ""},
		{"shares/e.xml", "shares/hwn.xml", "5", ""},
		{"shares/e.xml", "shares/hwn.xml", "9", ""},
		{"shares/b.xml", "shares/hwn.xml", "shares/s1.xml", ""},
		{"shares/b.xml", "shares/hwn.xml", "shares/s2.xml", ""},
		{"shares/b.xml", "shares/hwn.xml", "shares/s4.xml", ""},
		{"shares/b.xml", "shares/hwn.xml", "shares/s5.xml", ""},
		{"shares/b.xml", "shares/hwn.xml", "shares/s10.xml", ""},
		{"shares/b.xml", "shares/hwn.xml", "shares/s.xml", ""},
		{"shares/a.xml", "shares/hwn.xml", "shares/s1.xml", ""},
		{"shares/a2.xml", "shares/hwn.xml", "shares/s1.xml", ""},
		{"shares/c.xml", "shares/hw.xml", "shares/s1.xml", ""},
		{"shares/c.xml", "shares/hw.xml", "shares/s.xml", ""},
		{"hosts/a.xml", "hosts/h.xml", "hosts/s.xml", ""},
		{"hosts/a.xml", "hosts/h1.xml", "hosts/s.xml", ""},
		{"hosts/a.xml", "hosts/h2.xml", "hosts/s.xml", ""},
		{"hosts/a2.xml", "hosts/h2.xml", "hosts/s.xml", ""},
		{"hosts/a2.xml", "hosts/h2.xml", "hosts/s2.xml", ""},
		{"hosts/a2.xml", "hosts/h2.xml", "hosts/s3.xml", ""},
		{"hosts/a2.xml", "hosts/h.xml", "hosts/s.xml", ""},
		{"local-data/app.xml", "local-data/hw.xml", "local-data/sla.xml", ""},
		{"local-data/app4.xml", "local-data/hw.xml", "local-data/sla.xml", ""},
		{"memory-per-instance/a.xml", "local-data/hw.xml", "memory-per-instance/s.xml", ""},
		{"units-per-core/a.xml", "units-per-core/h.xml", "units-per-core/s.xml", ""},
		{"units-per-core/a2.xml", "units-per-core/h.xml", "units-per-core/s.xml", ""},
		{"units-per-core/a2.xml", "units-per-core/h2.xml", "units-per-core/s.xml", ""},
		{"mixed-servers/app.xml", "mixed-servers/hw.xml", "mixed-servers/sla.xml", ""},
	} {
		sla := filepath.Join(dir, c[2])
		if len(c[2]) < 5 {
			sla = filepath.Join(t.TempDir(), "s.xml")
			os.WriteFile(sla, []byte(fmt.Sprintf(`<sla task="t" rate="%s"/>`, c[2])), 0o600)
		}
		in := read(t, dir+c[0], dir+c[1], sla)
		a := model(in, c[3] == "c", nil, math.Inf(1))
		fmt.Printf("%-28s %-26s %-22s %10.2f exact %v arch %v\n", c[0], c[1], c[2], a.cost, a.exact, a.arch)
		for _, p := range a.parts {
			for i, n := range p.chosen {
				if n > 0 {
					f := p.fills[i]
					fmt.Printf("     %g x %s cost %g cpus %d units %v inst %v mem %v most %v\n", n, in.HW.Servers[f.server].Name, f.cost, f.cpus, f.units, f.instances, f.memory, f.most)
				}
			}
		}
		p, err := plan.Solve(in, plan.Options{Colocate: c[3] == "c"})
		fmt.Printf("     planner: %v %v %v\n", p.Cost, p.LowerBound, err)
	}
}
