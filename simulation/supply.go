package simulation

import (
	"context"
	"time"

	"gleaner/cluster"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
)

// Hours are those of a week, from Monday midnight UTC on.
const Hours = 7 * 24

// HourOfWeek is the hour of the week that holds t.
func HourOfWeek(t time.Time) int {
	t = t.UTC()
	return (int(t.Weekday())+6)%7*24 + t.Hour()
}

// A Supply measures how much can be harvested from a datacenter: it offers the
// datacenter more tasks than it can take, all the time.
type Supply struct {
	Policy  string
	Classes []cluster.Class // nil: learned from the datacenter's past
	Task    time.Duration   // how long a task takes
	Memory  cluster.Bytes   // that a task holds beside its core
	Seed    uint64
}

// A Harvest is what was harvested, by hour of the simulated days.
type Harvest struct {
	From  time.Time
	Hours []HarvestHour
}

// A HarvestHour is what tasks did in an hour, in core-hours. A task counts as useful in
// the hours in which it ran if it ended, and as lost if it was killed; what ran at the
// end of the days is neither.
type HarvestHour struct {
	Held, Useful, Lost float64
	Kills              int
}

// offered is the share of all cores that the tasks would keep busy: no policy
// harvests as much, since a third is the reserve.
const offered = 0.8

// Run simulates the days from the datacenter's Now on.
func (s Supply) Run(ctx context.Context, d *datacenter.Datacenter, progress func(float64) error) (Harvest, error) {
	const between = 300 // seconds from one job to the next, as jobs arrive
	tasks := max(1, int(offered*Cores(d)*between/s.Task.Seconds()))
	query := compute.Query{Name: "supply", Takes: []time.Duration{s.Task},
		Stages: []cluster.Stage{{Name: "work", Tasks: tasks, Request: cluster.Resources{CPU: cluster.Core, Memory: s.Memory}}}}
	m := &harvestMeter{out: Harvest{From: d.Now}, running: map[cluster.TaskID]running{}}
	days := d.Window.To().Sub(d.Now)
	m.out.Hours = make([]HarvestHour, (days+time.Hour-1)/time.Hour)
	run := Compute{Policy: s.Policy, Classes: s.Classes, Queries: []compute.Query{query}, Seed: s.Seed, Record: m}
	if _, err := run.Run(ctx, d, progress); err != nil {
		return Harvest{}, err
	}
	end := d.Now.Add(days)
	for _, r := range m.running {
		m.spread(r, end, func(h *HarvestHour, x float64) { h.Held += x })
	}
	return m.out, nil
}

// A harvestMeter follows tasks by the events of a simulation.
type harvestMeter struct {
	out     Harvest
	running map[cluster.TaskID]running
}

type running struct {
	since time.Time
	cores float64
}

// Event counts what a task did when it ends.
func (m *harvestMeter) Event(ev cluster.Event) error {
	switch ev.Kind {
	case cluster.TaskStarted:
		m.running[ev.Task] = running{ev.At, float64(ev.Request.CPU) / float64(cluster.Core)}
	case cluster.TaskFinished:
		m.spread(m.running[ev.Task], ev.At, func(h *HarvestHour, x float64) { h.Held += x; h.Useful += x })
		delete(m.running, ev.Task)
	case cluster.TaskKilled:
		m.spread(m.running[ev.Task], ev.At, func(h *HarvestHour, x float64) { h.Held += x; h.Lost += x })
		m.out.Hours[min(int(ev.At.Sub(m.out.From)/time.Hour), len(m.out.Hours)-1)].Kills++
		delete(m.running, ev.Task)
	}
	return nil
}

// Action is of no interest: what was done comes back as an event.
func (m *harvestMeter) Action(cluster.Action) error { return nil }

// spread adds core-hours to the hours in which a task ran.
func (m *harvestMeter) spread(r running, to time.Time, add func(*HarvestHour, float64)) {
	for at := r.since; at.Before(to); {
		k := int(at.Sub(m.out.From) / time.Hour)
		next := m.out.From.Add(time.Duration(k+1) * time.Hour)
		if next.After(to) {
			next = to
		}
		add(&m.out.Hours[k], r.cores*next.Sub(at).Hours())
		at = next
	}
}

// A Week is what can be harvested by hour of the week: cores on average, and kills
// in a core-hour.
type Week struct {
	Cores [Hours]float64
	Kills [Hours]float64
}

// Week is the mean week of a harvest. Hours of the week in which nothing was simulated are as the
// mean hour.
func (h Harvest) Week() Week {
	var held, kills, seen [Hours]float64
	all, dead := 0.0, 0.0
	for i, hour := range h.Hours {
		k := HourOfWeek(h.From.Add(time.Duration(i) * time.Hour))
		held[k] += hour.Held
		kills[k] += float64(hour.Kills)
		seen[k]++
		all += hour.Held
		dead += float64(hour.Kills)
	}
	var w Week
	for k := range w.Cores {
		if seen[k] == 0 {
			w.Cores[k] = all / float64(len(h.Hours))
			held[k], kills[k] = all, dead
		} else {
			w.Cores[k] = held[k] / seen[k]
		}
		if held[k] > 0 {
			w.Kills[k] = kills[k] / held[k]
		}
	}
	return w
}

// Total adds up all hours.
func (h Harvest) Total() HarvestHour {
	var out HarvestHour
	for _, x := range h.Hours {
		out.Held += x.Held
		out.Useful += x.Useful
		out.Lost += x.Lost
		out.Kills += x.Kills
	}
	return out
}
