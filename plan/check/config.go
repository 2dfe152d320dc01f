// Package check simulates an application on a given cluster in virtual time and
// reports how much of the SLA it meets: requests queue for storage units, buses,
// networks, cores and task instances; batch jobs run phase by phase.
//
// It shares with package plan the time of a record or a computation, but not how a
// cluster is chosen, so that it can disagree.
package check

import (
	"encoding/json"
	"fmt"
	"slices"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/spec"
)

// A Config is a cluster: what 'gleaner plan --json' prints, or the part of it
// that matters here.
type Config struct {
	Assignment map[string]Assignment `json:"assignment"`
	Servers    []Server              `json:"servers"`
	// Seconds of each phase of a job; if not given, all are equal.
	Phases map[string]float64 `json:"phase_seconds,omitempty"`

	left map[string]float64 // share of a dataset's replicas that is left; all if not given
}

// An Assignment names the storage units a dataset lies on.
type Assignment struct {
	Store string `json:"store"`
	Cache string `json:"cache"`
}

// A Server is one kind of server, Count times.
type Server struct {
	Type     string                    `json:"type"`
	Count    int                       `json:"count"`
	CPUs     int                       `json:"cpus"`
	Units    map[string]int            `json:"units"`
	Tasks    map[string]int            `json:"tasks"`
	Datasets map[string]map[string]int `json:"datasets"`
	// Shares of a task's executions, of a remote dataset's records and of those
	// of its cache ("tags cache") that one such server takes. What has no shares on
	// any server is spread evenly over instances and units.
	Shares map[string]float64 `json:"shares,omitempty"`
	// Hours of the day in which it is rented, as levels are named; "" if it stands all day.
	Hours string `json:"hours,omitempty"`
	// ByHours are the tasks whose shares change over the day.
	ByHours map[string]plan.Work `json:"by_hours,omitempty"`

	number int // of the server that it was before it was changed; 0 if it was not
}

// number is how a server is called.
func (c Config) number(i int) int {
	if n := c.Servers[i].number; n > 0 {
		return n
	}
	return i + 1
}

// Of is the configuration of a plan.
func Of(in plan.Input, p plan.Plan) Config {
	c := Config{Assignment: map[string]Assignment{}}
	for i, choice := range p.Needs.Architecture {
		a := Assignment{Store: in.HW.Units[choice.Store].Name}
		if choice.Cache != plan.NoCache {
			a.Cache = in.HW.Units[choice.Cache].Name
		}
		c.Assignment[in.App.Datasets[i].Name] = a
	}
	for i, seconds := range p.Needs.Seconds {
		if c.Phases == nil {
			c.Phases = map[string]float64{}
		}
		c.Phases[p.Needs.Phases[i]] = seconds
	}
	for _, s := range p.Servers(in) {
		out := Server{Type: s.Type, Count: s.Count, CPUs: s.CPUs, Units: s.Units, Tasks: s.Tasks, Datasets: s.Datasets, Shares: s.Shares, ByHours: s.ByHours}
		if s.Hours != nil {
			out.Hours = s.Hours.Name
		}
		c.Servers = append(c.Servers, out)
	}
	return c
}

// Read reads a configuration from JSON and checks that all names in it are of the
// application and the hardware.
func Read(file string, data []byte, in plan.Input) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return c, input.Errorf(file, "not a configuration: %v", err)
	}
	return c, c.validate(file, in)
}

func (c Config) validate(file string, in plan.Input) error {
	var mistakes input.Errors
	wrong := func(format string, args ...any) {
		mistakes = append(mistakes, &input.Error{Where: file, Msg: fmt.Sprintf(format, args...)})
	}
	if len(c.Servers) == 0 {
		wrong("no servers")
	}
	for _, d := range in.App.Datasets {
		a, ok := c.Assignment[d.Name]
		if !ok {
			wrong("assignment: dataset %q is missing", d.Name)
			continue
		}
		if unitOf(in.HW, a.Store) < 0 {
			wrong("assignment of %q: store: there is no storage_unit %q", d.Name, a.Store)
		}
		if a.Cache != "" && unitOf(in.HW, a.Cache) < 0 {
			wrong("assignment of %q: cache: there is no storage_unit %q", d.Name, a.Cache)
		}
	}
	for i, s := range c.Servers {
		if in.HW.Server(s.Type) == nil {
			wrong("servers[%d]: type: there is no server %q", i, s.Type)
		}
		if s.Count < 0 || s.CPUs < 0 || s.Count > 1e6 {
			wrong("servers[%d]: count and cpus must not be negative", i)
		}
		works := map[string]plan.Work{"": {Tasks: s.Tasks, Shares: s.Shares}}
		for hours, work := range s.ByHours {
			works[hours] = work
			if levelOf(in.SLA, hours) == nil {
				wrong("servers[%d]: by_hours: the SLA has no hours %q", i, hours)
			}
		}
		for hours, work := range works {
			for _, name := range plan.Sorted(work.Tasks) {
				if _, err := in.App.Task(name); err != nil || work.Tasks[name] < 0 || work.Tasks[name] > 1e6 {
					wrong("servers[%d]: %stasks: %d of %q", i, inHours(hours), work.Tasks[name], name)
				}
			}
			for name, x := range work.Shares {
				if !(x >= 0 && x <= 1+1e-6) {
					wrong("servers[%d]: %sshares: %v of %q is no share", i, inHours(hours), x, name)
				}
			}
		}
		if s.Hours != "" && levelOf(in.SLA, s.Hours) == nil {
			wrong("servers[%d]: hours: the SLA has no hours %q", i, s.Hours)
		} else if kind := in.HW.Server(s.Type); s.Hours != "" && kind != nil && !kind.Rented() {
			wrong("servers[%d]: hours: a server %q is not rented by the hour", i, s.Type)
		}
		for _, name := range plan.Sorted(s.Units) {
			if unitOf(in.HW, name) < 0 || s.Units[name] < 0 {
				wrong("servers[%d]: units: %d of %q", i, s.Units[name], name)
			}
		}
		for name, units := range s.Datasets {
			if !slices.ContainsFunc(in.App.Datasets, func(d spec.Dataset) bool { return d.Name == name }) {
				wrong("servers[%d]: datasets: there is no dataset %q", i, name)
			}
			for unit, n := range units {
				if unitOf(in.HW, unit) < 0 || n < 0 || n > 1e6 {
					wrong("servers[%d]: datasets: %d %q for %q", i, n, unit, name)
				}
			}
		}
	}
	for _, phase := range in.App.Phases() {
		if seconds, ok := c.Phases[phase]; c.Phases != nil && !(ok && seconds > 0) {
			wrong("phase_seconds: phase %q has none", phase)
		}
	}
	if len(mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(mistakes, func(a, b *input.Error) int { return compare(a.Msg, b.Msg) })
	return mistakes
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func unitOf(h spec.Hardware, name string) int {
	return slices.IndexFunc(h.Units, func(u spec.Unit) bool { return u.Name == name })
}

// levelOf is the level of an SLA's day named, or nil.
func levelOf(s spec.SLA, hours string) *spec.Level {
	for i := range s.Day {
		if s.Day[i].Name == hours {
			return &s.Day[i]
		}
	}
	return nil
}

func inHours(hours string) string {
	if hours == "" {
		return ""
	}
	return fmt.Sprintf("by_hours %q: ", hours)
}

// architecture is the assignment by index.
func (c Config) architecture(in plan.Input) plan.Architecture {
	var out plan.Architecture
	for _, d := range in.App.Datasets {
		a := c.Assignment[d.Name]
		choice := plan.Choice{Store: unitOf(in.HW, a.Store), Cache: plan.NoCache}
		if a.Cache != "" {
			choice.Cache = unitOf(in.HW, a.Cache)
		}
		out = append(out, choice)
	}
	return out
}

// Cost is what the configuration costs.
func (c Config) Cost(in plan.Input) float64 {
	sum := 0.0
	for _, s := range c.Servers {
		sum += s.cost(in) * float64(s.Count)
	}
	return sum
}

// cost is what one such server costs. The CPUs of a rented one come with it.
func (s Server) cost(in plan.Input) float64 {
	kind := in.HW.Server(s.Type)
	sum := kind.Cost()
	if s.Hours != "" {
		sum = kind.RentFor(levelOf(in.SLA, s.Hours).Hours)
	}
	if !kind.Rented() {
		sum += float64(s.CPUs) * in.HW.CPU.Cost()
	}
	for name, n := range s.Units {
		sum += float64(n) * in.HW.Units[unitOf(in.HW, name)].Cost()
	}
	return sum
}

// ownCPUs are the cores that a server needs to boot and that its storage units keep busy all the time.
func (s Server) ownCPUs(in plan.Input) float64 {
	sum := in.HW.Server(s.Type).BootCPUs
	for _, d := range in.App.Datasets {
		for _, n := range s.Datasets[d.Name] {
			sum += float64(n) * d.CPUPerUnit
		}
	}
	return sum
}

// memory is how many units of a volatile kind a server has for tasks and storage
// systems: those not taken by datasets.
func (s Server) memory(u spec.Unit) int {
	if !u.Volatile {
		return 0
	}
	n := s.Units[u.Name]
	for _, units := range s.Datasets {
		n -= units[u.Name]
	}
	return n
}

// shared reports whether any server has a share of name.
func (c Config) shared(name string) bool {
	return slices.ContainsFunc(c.Servers, func(s Server) bool { return s.Shares[name] > 0 })
}
