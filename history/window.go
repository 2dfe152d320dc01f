package history

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"gleaner/cluster"
)

// Window gives the average server of every tenant over w, in the order of
// their names. Tenants needs less memory.
func (s *Store) Window(ctx context.Context, w cluster.Window) ([]cluster.Series, error) {
	var all []cluster.Series
	for series, err := range s.Tenants(ctx, w) {
		if err != nil {
			return nil, err
		}
		all = append(all, series)
	}
	return all, nil
}

// Tenants yields the average server of every tenant over w, in the order of
// their names (OSDI'16 §3.2). A server's value in a slot is the mean of its
// samples there. The tenant's value is the mean of its servers' if all have one,
// and NaN if none has. If some are missing, the others decide: when a busy server
// stops reporting, load must not seem to drop. So the distances of the servers from
// their own means are averaged, and the mean of those means is added. A series
// counts the servers that have a sample in w. The caller owns it.
func (s *Store) Tenants(ctx context.Context, w cluster.Window) iter.Seq2[cluster.Series, error] {
	return func(yield func(cluster.Series, error) bool) {
		owned, l, err := s.byTenant(ctx)
		if err == nil {
			err = checkWindow(w)
		}
		if err != nil {
			yield(cluster.Series{}, err)
			return
		}
		sums := newGrid(w)
		for _, tenant := range slices.Sorted(maps.Keys(owned)) {
			sums.reset()
			for _, server := range owned[tenant] {
				if err := s.fill(ctx, l, server, sums, cpuOf); err != nil {
					yield(cluster.Series{}, err)
					return
				}
			}
			if !yield(cluster.Series{Tenant: tenant, Servers: sums.servers, CPU: sums.means()}, nil) {
				return
			}
		}
	}
}

func (s *Store) byTenant(ctx context.Context) (map[cluster.TenantID][]cluster.ServerID, *ledger, error) {
	l, err := s.ledger.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	servers, err := s.countedServers(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	owned := map[cluster.TenantID][]cluster.ServerID{}
	for _, server := range servers {
		tenant := server.Tenant()
		owned[tenant] = append(owned[tenant], server.ID)
	}
	return owned, l, nil
}

// A Usage is the utilisation of one server over a window: one value per slot, 0 to 1, NaN if nothing was recorded.
type Usage struct{ CPU, Mem []float32 }

// Usage gives a server over w.
func (s *Store) Usage(ctx context.Context, server cluster.ServerID, w cluster.Window) (Usage, error) {
	cpu, err := s.own(ctx, server, w, cpuOf)
	if err != nil {
		return Usage{}, err
	}
	mem, err := s.own(ctx, server, w, memOf)
	return Usage{cpu, mem}, err
}

// CPU gives a server's CPU over w, as Usage does.
func (s *Store) CPU(ctx context.Context, server cluster.ServerID, w cluster.Window) ([]float32, error) {
	return s.own(ctx, server, w, cpuOf)
}

func (s *Store) own(ctx context.Context, server cluster.ServerID, w cluster.Window, value func(point) int32) ([]float32, error) {
	l, err := s.ledger.read(ctx)
	if err == nil {
		err = checkWindow(w)
	}
	if err != nil {
		return nil, err
	}
	sums := newGrid(w)
	err = s.fill(ctx, l, server, sums, value)
	return sums.means(), err
}

func cpuOf(p point) int32 { return p.cpu }
func memOf(p point) int32 { return p.mem }

// checkWindow refuses a window that is not in whole milliseconds, as times are kept.
func checkWindow(w cluster.Window) error {
	if w.Step < time.Millisecond || w.Step%time.Millisecond != 0 || w.Len < 0 || w.From.Nanosecond()%1e6 != 0 {
		return fmt.Errorf("history: window from %v of %d x %v is not in whole milliseconds", w.From, w.Len, w.Step)
	}
	return nil
}

// A grid sums up the servers of a tenant, slot by slot.
type grid struct {
	from, step int64     // milliseconds
	own        []float64 // of the server being added, NaN where it has no sample
	sum        []float64 // of the distances of the servers from their own means
	n          []int32   // servers with a sample
	levels     float64   // sum of the servers' means
	servers    int
}

func newGrid(w cluster.Window) *grid {
	return &grid{from: w.From.UnixMilli(), step: w.Step.Milliseconds(),
		own: make([]float64, w.Len), sum: make([]float64, w.Len), n: make([]int32, w.Len)}
}

func (g *grid) reset() {
	clear(g.sum)
	clear(g.n)
	g.levels, g.servers = 0, 0
}

// add adds the server whose slots are in own.
func (g *grid) add() {
	total, slots := 0.0, 0
	for _, v := range g.own {
		if v == v {
			total, slots = total+v, slots+1
		}
	}
	if slots == 0 {
		return
	}
	level := total / float64(slots)
	g.levels += level
	g.servers++
	for i, v := range g.own {
		if v == v {
			g.sum[i] += v - level
			g.n[i]++
		}
	}
}

func (g *grid) means() []float32 {
	out := make([]float32, len(g.sum))
	for i, n := range g.n {
		if n == 0 {
			out[i] = float32(math.NaN())
			continue
		}
		out[i] = float32(min(max(g.levels/float64(g.servers)+g.sum[i]/float64(n), 0), 1))
	}
	return out
}

// fill adds one server to the grid: in each slot the mean of its samples there.
// Samples come in order of time, so it sums up one slot at a time.
func (s *Store) fill(ctx context.Context, l *ledger, server cluster.ServerID, g *grid, value func(point) int32) error {
	for i := range g.own {
		g.own[i] = math.NaN()
	}
	slot, slotEnd, sum, n := -1, g.from, int64(0), int64(0)
	closeSlot := func() {
		if n > 0 {
			g.own[slot] = float64(sum) / float64(n) / million
		}
		sum, n = 0, 0
	}
	for points, err := range s.eachDay(ctx, l, server, g.from, g.from+int64(len(g.sum))*g.step) {
		if err != nil {
			return err
		}
		for _, p := range points {
			v := value(p)
			if v == absent {
				continue
			}
			if p.milli >= slotEnd {
				closeSlot()
				slot = int((p.milli - g.from) / g.step)
				slotEnd = g.from + int64(slot+1)*g.step
			}
			sum, n = sum+int64(v), n+1
		}
	}
	closeSlot()
	g.add()
	return nil
}
