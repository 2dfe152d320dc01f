package referee

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// A statement is one architecture's problem as in the docs, sentence by sentence, for
// numbered servers: nothing is listed or computed beforehand. It is written in the LP
// format for an integer program solver.
type statement struct {
	in              plan.Input
	loads           []load
	colocate        bool
	cost, rows      []string
	whole, yes      []string   // integer and binary variables
	shares          [][]string // of each load
	servers, phases int
	caps            []sum // what all servers count in each limit
}

// state writes a problem with up to most[s] servers of type s.
func state(in plan.Input, arch []choice, colocate bool, how course, most []int) string {
	in, _ = hurried(in, arch, colocate)
	s := &statement{in: in, loads: demand(in, arch, how), colocate: colocate}
	s.phases = len(s.loads[0].cpu)
	s.shares = make([][]string, len(s.loads))
	s.caps = make([]sum, len(caps(in)))
	for t, n := range most {
		for i := range n {
			s.server(t)
			if i > 0 {
				s.row("b%d - b%d <= 0", s.servers-1, s.servers-2)
			}
		}
	}
	for i, c := range caps(in) {
		t := s.caps[i]
		if c.least {
			for k := range t.factors {
				t.factors[k] *= -1
			}
			c.number *= -1
		}
		s.atMost(t, c.number)
	}
	for _, x := range s.shares {
		s.row("%s >= %.12g", strings.Join(x, " + "), 1-forgiven)
	}
	return fmt.Sprintf("Minimize\n cost: %s\nSubject To\n %s\nGenerals\n %s\nBinaries\n %s\nEnd\n",
		strings.Join(s.cost, "\n + "), strings.Join(s.rows, "\n "), strings.Join(s.whole, "\n "), strings.Join(s.yes, "\n "))
}

func (s *statement) row(format string, args ...any) {
	s.rows = append(s.rows, fmt.Sprintf("r%d: ", len(s.rows))+fmt.Sprintf(format, args...))
}

// integer and binary add a variable with its cost.
func (s *statement) integer(cost float64, format string, args ...any) string {
	name := fmt.Sprintf(format, args...)
	s.whole = append(s.whole, name)
	if cost > 0 {
		s.cost = append(s.cost, fmt.Sprintf("%.12g %s", cost, name))
	}
	return name
}

func (s *statement) binary(cost float64, format string, args ...any) string {
	name := s.integer(cost, format, args...)
	s.whole = s.whole[:len(s.whole)-1]
	s.yes = append(s.yes, name)
	return name
}

// A sum is a left side: each variable once, with its factor.
type sum struct {
	names   []string
	factors []float64
}

func (t *sum) add(factor float64, name string) {
	if i := slices.Index(t.names, name); i >= 0 {
		t.factors[i] += factor
	} else if factor != 0 {
		t.names, t.factors = append(t.names, name), append(t.factors, factor)
	}
}

func (s *statement) atMost(t sum, limit float64) {
	if len(t.names) == 0 {
		return
	}
	var b strings.Builder
	for i, name := range t.names {
		fmt.Fprintf(&b, "%+.12g %s ", t.factors[i], name)
	}
	s.row("%s<= %.12g", b.String(), limit)
}

func (s *statement) server(kind int) {
	hw, i := s.in.HW, s.servers
	s.servers++
	server := hw.Servers[kind]
	bought := s.binary(server.Cost(), "b%d", i)
	rented := s.rented(server, bought) // by level
	cpus := ""
	if server.Rent == 0 {
		cpus = s.integer(hw.CPU.Cost(), "c%d", i)
		s.row("%s - %d %s <= 0", cpus, server.CPUs, bought)
	}
	s.count(kind, bought, cpus, rented)
	forTasks, forLong := "", s.binary(0, "l%d", i)
	if !s.colocate {
		forTasks = s.binary(0, "t%d", i)
	}

	slots := map[string]*sum{}
	cpu, net, memory := make([]sum, s.phases), make([]sum, s.phases), make([]sum, s.phases)
	for ph := range s.phases {
		for _, there := range append([]string{bought}, s.at(rented, ph)...) {
			cpu[ph].add(server.BootCPUs, there)
			memory[ph].add(server.BootMemory/1e9, there)
			memory[ph].add(-target(s.in.SLA.Targets.Memory)*server.Memory/1e9, there)
			if server.Rent > 0 {
				cpu[ph].add(-target(s.in.SLA.Targets.CPU)*float64(server.CPUs), there)
			}
		}
	}
	traffic := map[string][]sum{}
	for _, u := range hw.Units {
		slots[u.Bus], traffic[u.Bus] = &sum{}, make([]sum, s.phases)
	}
	systems := map[string]string{}
	for j, l := range s.loads {
		x, here := fmt.Sprintf("x%d_%d", i, j), s.binary(0, "p%d_%d", i, j)
		s.shares[j] = append(s.shares[j], x)
		s.row("%s - %.12g %s <= 0", x, 1/float64(l.servers), here)
		s.row("%s - %s <= 0", here, strings.Join(append([]string{bought}, s.at(rented, l.level)...), " - "))
		switch {
		case s.colocate:
		case l.tasks != nil:
			s.row("%s - %s <= 0", here, forTasks)
		default:
			s.row("%s + %s <= 1", here, forTasks)
		}
		if disturbs(s.in, l.tasks, s.colocate) {
			s.row("%s - %s <= 0", here, forLong)
		} else {
			s.row("%s + %s <= 1", here, forLong)
		}
		instances := s.integer(0, "k%d_%d", i, j)
		s.row("%s - %s >= 0", instances, here)
		s.row("%s - %.12g %s >= 0", instances, l.instances, x)
		for c, d := range l.copies {
			unit := hw.Units[d.unit]
			n := s.integer(unit.Cost(), "u%d_%d_%d", i, j, c)
			s.row("%s - %s >= 0", n, here)
			s.row("%s - %.12g %s >= 0", n, d.units, x)
			s.row("%s - %d %s >= 0", n, d.perInstance, instances)
			slots[unit.Bus].add(1, n)
			s.countUnit(d.unit, n)
			for ph := range s.phases {
				traffic[unit.Bus][ph].add(d.traffic[ph]/1e6, x)
				cpu[ph].add(d.cpuPerUnit, n)
			}
			if d.system != "" && systems[d.system] == "" {
				systems[d.system] = s.binary(0, "y%d_%s", i, d.system)
				for ph := range memory {
					memory[ph].add(s.in.App.SystemOf(d.system).MemoryPerServer/1e9, systems[d.system])
				}
			}
			if d.system != "" {
				s.row("%s - %s >= 0", systems[d.system], here)
			}
		}
		for ph := range s.phases {
			cpu[ph].add(l.cpu[ph], x)
			net[ph].add(l.net[ph]/server.BW, x)
			memory[ph].add(l.memory[ph]/1e9, x)
			memory[ph].add(l.held[ph]/1e9, instances)
		}
	}
	for k, u := range hw.Units {
		if u.Volatile {
			n := s.integer(u.Cost(), "m%d_%d", i, k)
			slots[u.Bus].add(1, n)
			s.countUnit(k, n)
			for ph := range memory {
				memory[ph].add(-target(s.in.SLA.Targets.Memory)*u.Capacity/1e9, n)
			}
		}
	}
	for ph := range s.phases {
		if cpus != "" {
			cpu[ph].add(-target(s.in.SLA.Targets.CPU), cpus)
		}
		s.atMost(cpu[ph], 0)
		s.atMost(memory[ph], 0)
		s.atMost(net[ph], target(s.in.SLA.Targets.Network))
	}
	for name := range slots {
		has := 0
		for _, b := range server.Buses {
			if b.Name != name {
				continue
			}
			has = b.Slots
			for _, t := range traffic[name] {
				s.atMost(t, target(s.in.SLA.Targets.Bus)*b.BW/1e6)
			}
		}
		slots[name].add(-float64(has), bought)
		s.atMost(*slots[name], 0)
	}
}

// count adds a server and its CPUs to the limits, and countUnit a kind of unit: each by what one of it
// counts beyond what is there without.
func (s *statement) count(kind int, bought, cpus string, rented []string) {
	none := make([]int, len(s.in.HW.Units))
	for i, c := range caps(s.in) {
		bare := c.of(kind, 0, none)
		for _, there := range append([]string{bought}, s.at(rented, c.level)...) {
			s.caps[i].add(bare, there)
		}
		if cpus != "" {
			s.caps[i].add(c.of(kind, 1, none)-bare, cpus)
		}
	}
}

// rented adds, for a server that is for rent, whether it is there in each level without being there all day.
func (s *statement) rented(server spec.Server, bought string) []string {
	var out []string
	for l, level := range s.in.SLA.Day {
		if server.Rent > 0 {
			out = append(out, s.binary((server.Rent+server.Energy)*float64(level.Hours)/24, "r%d_%d", s.servers-1, l))
			s.row("%s + %s <= 1", out[l], bought)
		}
	}
	return out
}

// at is what says whether a rented server is there in a level; none if it is all day.
func (s *statement) at(rented []string, level int) []string {
	if rented == nil || level == always {
		return nil
	}
	return rented[level : level+1]
}

func (s *statement) countUnit(unit int, n string) {
	units := make([]int, len(s.in.HW.Units))
	for i, c := range caps(s.in) {
		bare := c.of(0, 0, units)
		units[unit] = 1
		s.caps[i].add(c.of(0, 0, units)-bare, n)
		units[unit] = 0
	}
}

// cbc solves a problem; ok is false when it could not in the time.
func cbc(t testing.TB, problem string) (cost float64, ok bool) {
	dir := t.TempDir()
	file, solution := filepath.Join(dir, "p.lp"), filepath.Join(dir, "solution")
	if err := os.WriteFile(file, []byte(problem), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("cbc", file, "-ratio", "0", "-allow", "0", "-sec", "20", "-solve", "-solu", solution).CombinedOutput()
	if err != nil {
		t.Fatalf("cbc: %v\n%s", err, out)
	}
	text, err := os.ReadFile(solution)
	if err != nil {
		t.Fatalf("cbc: %v\n%s\n%s", err, out, problem)
	}
	head, _, _ := strings.Cut(string(text), "\n")
	if strings.HasPrefix(head, "Infeasible") || strings.HasPrefix(head, "Integer infeasible") {
		return math.Inf(1), true
	}
	if _, err := fmt.Sscanf(head, "Optimal - objective value %g", &cost); err != nil {
		return 0, false
	}
	return cost, true
}

// The model is itself checked: cbc, given each architecture as in the docs, finds
// nothing cheaper, and for the model's choice the same cost.
func TestModelAgainstSolver(t *testing.T) {
	if _, err := exec.LookPath("cbc"); err != nil {
		t.Skip("cbc is not on PATH")
	}
	from, to := seeds(t, 12, 300)
	asked, late, days := 0, 0, 0
	for seed := from; seed <= to; seed++ {
		d := documentsOf(seed, 1)
		if seed%3 == 0 && len(d.sla.all("hours")) == 0 {
			day(seed, d, 1)
		}
		in, err := parse(d.files())
		if err != nil {
			t.Fatal(err)
		}
		if len(bySpeed(in)) > 1 { // an integer program a speed
			continue
		}
		how := split(in, plan.Plan{})
		m := model(in, d.colocate, how, math.Inf(1))
		most, total := mostServers(in, m)
		if math.IsInf(m.cost, 1) || total > 8 || len(architectures(in)) > 12 {
			continue
		}
		began := time.Now()
		days += btoi(comeAndGo(in))
		for _, arch := range architectures(in) {
			if bound := relaxed(in, arch, d.colocate, how, map[string]*cover{}).cost; bound > m.cost*(1+tolerance) {
				continue
			}
			cost, ok := cbc(t, state(in, arch, d.colocate, how, most))
			if !ok {
				late++
				continue
			}
			asked++
			same := fmt.Sprint(arch) == fmt.Sprint(m.arch)
			if cost < m.cost*(1-tolerance) || same && cost > m.cost*(1+tolerance) {
				t.Errorf("seed %d: architecture %v: cbc has %.2f, the model %.2f", seed, arch, cost, m.cost)
				keep(t, seed, d.files(), d.colocate)
			}
		}
		t.Logf("seed %d: %v", seed, time.Since(began))
	}
	t.Logf("%d architectures compared, %d not solved in time; %d with a day", asked, late, days)
}

// mostServers is how many servers of each type may be part of a cluster. Of those that come and go there
// are very many at that price: one more than the model has will do.
func mostServers(in plan.Input, m answer) (most []int, total int) {
	for i, s := range in.HW.Servers {
		n := int(min(1000, m.cost*(1+tolerance)/s.Cost()))
		if s.Rent > 0 && comeAndGo(in) {
			n = 1
			for _, c := range m.parts {
				for k, times := range c.chosen {
					n += int(times) * btoi(c.fills[k].server == i)
				}
			}
		}
		if s.Stock > 0 {
			n = min(n, s.Stock)
		}
		most = append(most, n)
		total += n
	}
	return most, total
}
