package fabric

import (
	"context"
	"fmt"
	gomaps "maps"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/maps"
	"gleaner/fabric/registry"
	"gleaner/fabric/upkeep"
	"gleaner/placement"
)

// A Habit is what the past says of a tenant (OSDI'16 §4.2).
type Habit struct {
	Reimages float64 // per server and month
	Peak     float64 // highest utilisation to expect, 0 to 1
	// Hours is the mean utilisation in each hour of the day, in UTC; all 0 if it is not known.
	Hours [24]float64
}

// HoursOf gives the mean utilisation in each hour of the day. Where samples are missing in all days, it is the mean of all.
func HoursOf(w cluster.Window, cpu []float32) (hours [24]float64) {
	var sums, counts [25]float64 // the last is for all
	for i, use := range cpu {
		if use != use { // there is no sample
			continue
		}
		hour := w.From.Add(time.Duration(i) * w.Step).UTC().Hour()
		for _, n := range []int{hour, 24} {
			sums[n] += float64(use)
			counts[n]++
		}
	}
	for n := range hours {
		of := n
		if counts[n] == 0 {
			of = 24
		}
		hours[n] = sums[of] / max(1, counts[of])
	}
	return hours
}

// even is how much the hours of a day may differ and still be alike.
const even = 0.05

// load is how much a tenant uses its servers in an hour of the day, between its least hour and its most. Where hours are alike, or not known, it is as usual.
func (h Habit) load(hour int) float64 {
	least, most := slices.Min(h.Hours[:]), slices.Max(h.Hours[:])
	if most-least < even {
		return upkeep.Usual
	}
	return (h.Hours[hour] - least) / (most - least)
}

// Learn has replicas placed by what a history says of tenants, in place of what it said before. Of the reimages that a history knows
// and those that the front has seen itself, those count that are more.
func (f *Front) Learn(history map[cluster.TenantID]Habit) {
	f.pool.learn(func(h *habits) { h.history = gomaps.Clone(history) })
}

// habits is what is known of the tenants.
type habits struct {
	history map[cluster.TenantID]Habit
	seen    map[cluster.TenantID]float64 // reimages per server and month, of the tenants that have data servers
}

func (h *habits) of(t cluster.TenantID) Habit {
	known := h.history[t]
	known.Reimages = max(known.Reimages, h.seen[t])
	return known
}

// wishes are the rules that need to know the tenants. As long as nothing is known, all cells of the grid are alike. As long as most tenants were
// never reimaged, the half that is reimaged least is any half of those.
func (h *habits) wishes() (rules placement.RuleSet) {
	reimaged := 0
	for t := range h.seen {
		switch known := h.of(t); {
		case known.Reimages > 0:
			reimaged++
			rules |= placement.Cells
		case known.Peak > 0:
			rules |= placement.Cells
		}
	}
	if 2*reimaged > len(h.seen) {
		rules |= placement.Seldom
	}
	return rules
}

// A memory is what a front remembers of data servers. It is not safe for concurrent use.
type memory struct {
	maps    *maps.Maps
	servers map[cluster.ServerID]maps.Server
	noticed bool // once at least
}

func (f *Front) remembered(ctx context.Context) (*memory, error) {
	m := &memory{maps: f.maps, servers: map[cluster.ServerID]maps.Server{}}
	for s, err := range f.maps.Servers(ctx) {
		if err != nil {
			return nil, err
		}
		m.servers[s.Name] = s
	}
	return m, nil
}

// notice remembers the servers as they are now. It gives the disks that were wiped since, with their servers, and whether anything is new, as it is at first.
func (m *memory) notice(ctx context.Context, entries []registry.Server, now time.Time) (wiped map[cluster.DiskID]cluster.ServerID, news bool, err error) {
	wiped = map[cluster.DiskID]cluster.ServerID{}
	news, m.noticed = !m.noticed, true
	listed := map[cluster.DiskID]bool{}
	for _, e := range entries {
		for _, d := range e.Disks {
			listed[cluster.DiskID(d.ID)] = true
		}
	}
	for _, e := range entries {
		was, known := m.servers[cluster.ServerID(e.Name)]
		s := maps.Server{Name: cluster.ServerID(e.Name), Since: was.Since, Reimages: was.Reimages, Disks: map[string]cluster.DiskID{}}
		for _, d := range e.Disks {
			s.Disks[d.Path] = cluster.DiskID(d.ID)
		}
		if known && gomaps.Equal(was.Disks, s.Disks) {
			continue
		}
		if !known {
			s.Since = now.UTC().Truncate(time.Second)
		}
		lost := replaced(was.Disks, s.Disks, listed)
		if len(lost) > 0 {
			s.Reimages++
		}
		if err := m.maps.SetServer(ctx, s); err != nil {
			return wiped, news, fmt.Errorf("fabric: server %s: %w", e.Name, err)
		}
		m.servers[s.Name], news = s, true
		for _, d := range lost {
			wiped[d] = s.Name
		}
	}
	return wiped, news, nil
}

// replaced gives the disks of a server that were wiped: where each was is another now, and it is at no server any more.
func replaced(was, is map[string]cluster.DiskID, listed map[cluster.DiskID]bool) (lost []cluster.DiskID) {
	for path, id := range was {
		if now, still := is[path]; still && now != id && !listed[id] {
			lost = append(lost, id)
		}
	}
	return lost
}

// month is what reimages are counted by. A server that is known for less counts as known for a month: one reimage in the first hour is not a habit.
const month = 30 * 24 * time.Hour

// rates gives the reimages per server and month of the tenants of data servers.
func (m *memory) rates(entries []registry.Server, now time.Time) map[cluster.TenantID]float64 {
	reimages, months := map[cluster.TenantID]float64{}, map[cluster.TenantID]float64{}
	for _, e := range entries {
		s, t := m.servers[cluster.ServerID(e.Name)], serverOf(e).Tenant()
		reimages[t] += float64(s.Reimages)
		months[t] += max(1, float64(now.Sub(s.Since))/float64(month))
	}
	for t := range reimages {
		reimages[t] /= months[t]
	}
	return reimages
}

// serverOf is a data server as the cluster knows it.
func serverOf(e registry.Server) cluster.Server {
	return cluster.Server{ID: cluster.ServerID(e.Name), Environment: e.Environment, Function: e.Function, Rack: e.Rack}
}
