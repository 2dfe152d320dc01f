package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gleaner/plan"
	"gleaner/plan/spec"
)

// printPlan writes a plan for people: what it costs, where data lies, what to
// buy, each kind of server with what is in its slots, and the runner-up.
func printPlan(w io.Writer, in plan.Input, p plan.Plan) error {
	fmt.Fprintf(w, "%s, %s: %s.\n\n", money(in.HW.Currency, p.Cost), p.Proven(), servers(in, p))
	if err := printNeeds(w, in, p); err != nil {
		return err
	}
	if err := printDay(w, in, p); err != nil {
		return err
	}
	bill := newTable("To buy", ">count", ">each", ">together")
	for _, l := range p.Bill(in) {
		bill.row(l.What, fmt.Sprint(l.Count), fmt.Sprintf("%.2f", l.Each), fmt.Sprintf("%.2f", l.Each*float64(l.Count)))
	}
	if err := bill.print(w); err != nil {
		return err
	}
	for _, s := range p.Servers(in) {
		fmt.Fprintln(w)
		drawServer(w, in, s)
	}
	fmt.Fprintln(w)
	if p.Second != nil {
		more := p.Second.Cost - p.Cost
		fmt.Fprintf(w, "Second best: %s, for %s more (%.1f%%).\n", differences(in, p.Needs.Architecture, p.Second.Architecture),
			money(in.HW.Currency, more), 100*more/p.Cost)
	}
	if energy := p.Energy(in); energy > 0 {
		fmt.Fprintf(w, "Of the cost, %s is purchase and %s energy.\n", money(in.HW.Currency, p.Cost-energy), money(in.HW.Currency, energy))
	}
	if month := monthly(in, p); month > 0 {
		fmt.Fprintf(w, "Over %s years, it is %s a month.\n", plan.Figure(in.HW.Years), money(in.HW.Currency, month))
	}
	if most := in.SLA.Budget.Power; most > 0 {
		fmt.Fprintf(w, "Power: %s W of %s W.\n", plan.Figure(p.Power(in)), plan.Figure(most))
	} else if watts := p.Power(in); watts > 0 {
		fmt.Fprintf(w, "Power: %s W.\n", plan.Figure(watts))
	}
	if most := in.SLA.Budget.RackUnits; most > 0 {
		fmt.Fprintf(w, "Height: %s of %s rack units.\n", plan.Figure(p.RackUnits(in)), plan.Figure(most))
	}
	if z := in.SLA.Zones; z.Number > 0 {
		fmt.Fprintf(w, "There are %d zones, with a part of each kind of server in each; any %d of them may fail.\n", z.Number, z.Failed)
	}
	for _, a := range p.Needs.Answers {
		r := in.SLA.Rates[a.Rate]
		fmt.Fprintf(w, "Of %s, %.6g%% take %s ms or less: %s ms each alone, and nothing they wait for is more than %.3g%% busy.\n", in.App.Tasks[r.Task].Name, 100*r.Percentile, plan.Figure(1000*r.Latency), plan.Figure(1000*a.Seconds), 100*a.Busy)
	}
	if len(p.Needs.Answers) > 0 {
		fmt.Fprintln(w, "The bound of latencies is cautious, so that a cheaper cluster may do, and leaves out networks and buses: 'gleaner plan check' measures them.")
	}
	for _, name := range idleTasks(in, p) {
		fmt.Fprintf(w, "Task %s is left out: no SLA asks for it, and no task that runs invokes it.\n", name)
	}
	how := "Searched all of %s."
	if p.Gap() > 0 {
		how = "Of %s, all that are cheaper by more than that were ruled out."
	}
	if p.Stopped {
		how = "The search of %s was stopped; with more time there may be a cheaper cluster."
	}
	_, err := fmt.Fprintf(w, how+"\n", architectures(p.Space))
	return err
}

// monthly is what a plan costs in a month of its years; 0 if these are no more than a month.
func monthly(in plan.Input, p plan.Plan) float64 {
	if months := 12 * in.HW.Years; months > 1+1e-9 {
		return p.Cost / months
	}
	return 0
}

// count writes a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// servers writes how many there are, and how many of them not all day.
func servers(in plan.Input, p plan.Plan) string {
	most, always := p.Most(in), 0
	for _, s := range p.Servers(in) {
		if s.Hours == nil {
			always += s.Count
		}
	}
	if len(in.SLA.Day) == 0 || always == most {
		return count(most, "server")
	}
	return fmt.Sprintf("%s at the busiest time, %d all day", count(most, "server"), always)
}

// printDay writes the rates of each level of a day, and the servers that are there.
func printDay(w io.Writer, in plan.Input, p plan.Plan) error {
	if len(in.SLA.Day) == 0 {
		return nil
	}
	head := []string{"Hours"}
	for _, r := range in.SLA.Rates {
		head = append(head, ">"+in.App.Tasks[r.Task].Name+" a second")
	}
	types := map[string]bool{}
	for _, s := range p.Servers(in) {
		types[s.Type] = true
	}
	for _, s := range in.HW.Servers {
		if types[s.Name] {
			head = append(head, ">"+s.Name)
		}
	}
	day := newTable(head...)
	for l, level := range in.SLA.Day {
		row := []string{level.Name}
		for _, r := range in.SLA.Rates {
			row = append(row, plan.Figure(r.Levels[l]))
		}
		there := map[string]int{}
		for _, s := range p.Servers(in) {
			if s.Hours == nil || s.Hours.Name == level.Name {
				there[s.Type] += s.Count
			}
		}
		for _, s := range in.HW.Servers {
			if types[s.Name] {
				row = append(row, fmt.Sprint(there[s.Name]))
			}
		}
		day.row(row...)
	}
	if err := day.print(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func architectures(n float64) string {
	if n < 1e6 {
		return count(int(n), "architecture")
	}
	return fmt.Sprintf("%.2g architectures", n)
}

func printNeeds(w io.Writer, in plan.Input, p plan.Plan) error {
	units := map[int]string{}
	note := func(dataset int, unit, text string) {
		if units[dataset] != "" {
			units[dataset] += ", "
		}
		units[dataset] += text + " " + unit
	}
	for _, t := range p.Needs.Tiers {
		note(t.Dataset, in.HW.Units[t.Unit].Name, fmt.Sprint(t.Units))
	}
	for _, r := range p.Needs.Roles {
		for _, l := range r.Locals {
			text := "shared by server:"
			if l.Each > 0 {
				text = fmt.Sprintf("%d for each instance", l.Each)
			}
			note(l.Dataset, in.HW.Units[l.Unit].Name, text)
		}
	}
	data := newTable("Dataset", "on", "units")
	for i, c := range p.Needs.Architecture {
		data.row(in.App.Datasets[i].Name, c.Names(in.HW), units[i])
	}
	if err := data.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if len(p.Needs.Tasks) > 0 { // none are bought for if all are harvested
		if err := printTaskNeeds(w, in, p); err != nil {
			return err
		}
	}
	for i, s := range p.Needs.Seconds {
		fmt.Fprintf(w, "Phase %s takes %.0f s.\n", p.Needs.Phases[i], s)
	}
	printHarvest(w, in, p)
	_, err := fmt.Fprintln(w)
	return err
}

func printTaskNeeds(w io.Writer, in plan.Input, p plan.Plan) error {
	tasks := newTable("Task", ">a second", ">seconds each", ">instances")
	for _, t := range p.Needs.Tasks {
		tasks.row(in.App.Tasks[t.Task].Name, plan.Figure(t.Rate), plan.Figure(t.Runtime), fmt.Sprint(t.Instances))
	}
	return tasks.print(w)
}

// drawServer draws what is in a server, slot by slot:
//
//	3 x Server1, $2,893 each
//	│ CPU        ■■··                      1.76 of 2 cores busy
//	│ SAS        [photos 15KDisk] x4
func drawServer(w io.Writer, in plan.Input, s plan.Server) {
	var kind spec.Server
	for _, k := range in.HW.Servers {
		if k.Name == s.Type {
			kind = k
		}
	}
	when := ""
	if s.Hours != nil {
		when = fmt.Sprintf(" for %s h", s.Hours.Name)
	}
	fmt.Fprintf(w, "%d x %s%s, %s each: %s\n", s.Count, s.Type, when, money(in.HW.Currency, s.Cost), holds(s))
	wide := 10
	for _, bus := range kind.Buses {
		wide = max(wide, utf8.RuneCountInString(bus.Name))
	}
	fmt.Fprintf(w, "  │ %-*s %s\n", wide, "CPU", sockets(s.CPUs, kind.CPUs))
	for _, bus := range kind.Buses {
		var cells []string
		used := 0
		cell := func(label string, n int) {
			if n > 0 {
				cells = append(cells, repeated("["+label+"]", n))
				used += n
			}
		}
		for _, u := range in.HW.Units {
			if u.Bus != bus.Name {
				continue
			}
			for _, d := range in.App.Datasets {
				cell(d.Name+" "+u.Name, s.Datasets[d.Name][u.Name])
			}
			cell("memory "+u.Name, s.Memory[u.Name])
		}
		if free := bus.Slots - used; free > 0 {
			cells = append(cells, repeated("[ ]", free))
		}
		fmt.Fprintf(w, "  │ %-*s %s\n", wide, bus.Name, strings.Join(cells, " "))
	}
	var loads []string
	for _, l := range s.Loads[1:min(len(s.Loads), 4)] {
		loads = append(loads, fmt.Sprintf("%s %.0f%%", l.What, 100*l.Share()))
	}
	first := s.Loads[0]
	line := fmt.Sprintf("bottleneck: %s, %s of %s", first.What, plan.Figure(first.Used), plan.Figure(first.Have))
	if first.Most < 1 {
		line += fmt.Sprintf(" (at most %.4g%%)", 100*first.Most)
	}
	if len(loads) > 0 {
		line += "; then " + strings.Join(loads, ", ")
	}
	fmt.Fprintf(w, "  └ %s\n", line)
}

func holds(s plan.Server) string {
	var parts []string
	for _, name := range plan.Sorted(s.Tasks) {
		parts = append(parts, fmt.Sprintf("%d %s", s.Tasks[name], name))
	}
	if len(parts) == 0 && len(s.Datasets) == 0 {
		return "empty"
	}
	if len(parts) == 0 {
		return "data"
	}
	return strings.Join(parts, ", ")
}

func sockets(used, have int) string {
	if have > 32 {
		return fmt.Sprintf("%d of %d cores", used, have)
	}
	return strings.Repeat("■", used) + strings.Repeat("·", have-used)
}

func repeated(cell string, n int) string {
	if n == 1 {
		return cell
	}
	return fmt.Sprintf("%s x%d", cell, n)
}

// differences lists where b puts datasets elsewhere than a.
func differences(in plan.Input, a, b plan.Architecture) string {
	var parts []string
	for i := range a {
		if a[i] != b[i] {
			parts = append(parts, in.App.Datasets[i].Name+" on "+b[i].Names(in.HW))
		}
	}
	return strings.Join(parts, ", ")
}
