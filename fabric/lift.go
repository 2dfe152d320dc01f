package fabric

import (
	"context"
	"errors"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/fabric/volume"
	"gleaner/kv"
)

// accessEvery is how often it is kept which groups were used.
const accessEvery = tiering.PeriodLength

// A lift brings what is hot to faster tiers, a replica at each turn. It plans anew each time the use of groups was kept: what is left of
// the plan by then is planned again if it is read again.
type lift struct {
	next time.Time
	plan []tiering.Move
}

func (l *lift) step(ctx context.Context, f *Front, now time.Time) {
	if !now.Before(l.next) {
		l.next = now.Add(accessEvery)
		var err error
		if l.plan, err = f.planUp(ctx, now); err != nil && ctx.Err() == nil {
			f.log.Warn("it was not kept which groups were used", "error", err)
		}
	}
	if rests, err := f.curation.paused(ctx); !rests && err == nil && len(l.plan) > 0 {
		f.moveUp(ctx, l.plan[0])
		l.plan = l.plan[1:]
	}
}

// planUp keeps which groups were used, and decides which of them come up.
func (f *Front) planUp(ctx context.Context, now time.Time) ([]tiering.Move, error) {
	used, err := f.space.KeepAccess(ctx)
	if err != nil {
		return nil, err
	}
	usage, period := f.pool.usage(), tiering.PeriodOf(now)
	if len(usage) < 2 {
		return nil, nil
	}
	var hot []tiering.Group
	for id, access := range used {
		if !access.Hot(period) {
			continue
		}
		g, _, err := f.maps.Group(ctx, id)
		if errors.Is(err, maps.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		hot = append(hot, tiering.Group{ID: id, Access: access, Whole: g.State() == group.Whole, On: f.pool.replicas(g.Good)})
	}
	return tiering.Up(hot, usage, period, f.o.Policy.F), nil
}

// moveUp does what was decided, unless something has changed since, or the owner of a server needs it.
func (f *Front) moveUp(ctx context.Context, m tiering.Move) {
	if s, here := f.pool.server(m.From); !here || f.pool.busy(s) {
		return
	}
	err := f.space.Move(ctx, m.Group, m.From, func(others []cluster.DiskID) (cluster.DiskID, bool) { return f.pool.placeOn(m.To, others) })
	switch {
	case err == nil:
		f.log.Debug("replica came up", "group", m.Group.String(), "from", string(m.From), "tier", string(m.To), "why", m.Why)
	case errors.Is(err, volume.ErrMoot), errors.Is(err, volume.ErrNoTarget), errors.Is(err, kv.ErrTaken), ctx.Err() != nil:
	default:
		f.log.Warn("replica did not come up", "group", m.Group.String(), "error", err)
	}
}

// keepAccess keeps which groups were used when the front ends. That it fails is no harm.
func (f *Front) keepAccess() {
	ctx, cancel := context.WithTimeout(context.Background(), accessEvery)
	defer cancel()
	if _, err := f.space.KeepAccess(ctx); err != nil {
		f.log.Warn("it was not kept which groups were used", "error", err)
	}
}

// placeOn chooses a disk of a tier for one more replica.
func (p *pool) placeOn(tier cluster.Tier, have []cluster.DiskID) (cluster.DiskID, bool) {
	chosen := p.place([]cluster.Tier{tier}, have, 1)
	if len(chosen) == 0 {
		return "", false
	}
	return chosen[0], true
}

// replicas says which tiers disks are of that can be had now.
func (p *pool) replicas(disks []cluster.DiskID) (all []tiering.Replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range disks {
		if d, ok := p.disks[id]; ok {
			all = append(all, tiering.Replica{Disk: id, Tier: d.tier})
		}
	}
	return all
}

// usage is how much is taken of the tiers that have disks, the fastest first.
func (p *pool) usage() (all []tiering.Tier) {
	p.refresh()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range tiers {
		t := tiering.Tier{Name: name}
		for _, d := range p.disks {
			if d.tier == name {
				t.Quota, t.Used = t.Quota+d.quota, t.Used+d.quota-d.free
			}
		}
		if t.Quota > 0 {
			all = append(all, t)
		}
	}
	return all
}
