package fabric

import (
	"context"
	"errors"
	"maps"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/volume"
	"gleaner/placement"
	"gleaner/placement/repair"
)

// A server sends so many groups an hour for repairs: as many as the paper's while its owner needs it, more while it is idle. A repair that
// takes long competes with somebody, so repairs may take a quarter of the time.
const (
	busyTurn = time.Hour / repair.PerHour
	idleTurn = 50 * time.Millisecond
	slowTurn = 4 // times what the last one took
)

// tidyEvery is how often all groups are looked at, in case a loss was not noticed when it happened.
const tidyEvery = 10 * time.Second

// A repairer rebuilds replicas and removes what is not needed any more.
type repairer struct {
	front  *Front
	queue  *repair.Queue[disk.GroupID]
	queued map[disk.GroupID]bool
	failed []disk.GroupID               // whose rebuild failed just now
	took   time.Duration                // by the last rebuild
	absent map[cluster.DiskID]time.Time // since when a disk of some group is away
	lost   map[cluster.DiskID]bool      // of those, which were said to be lost
	swept  map[cluster.DiskID]swept
	lift   lift
}

// swept is when a disk was last looked through, and as it was opened then.
type swept struct {
	at     time.Time
	opened uint64
}

// wipedGrace is how long a disk may be away that is of no server any more.
const wipedGrace = 3 * tidyEvery

// sweepEvery is how often a disk is looked through for replicas that no group has.
const sweepEvery = 10 * time.Minute

// again is when a rebuild that failed is tried again: by then it is known whether the disk is away.
const again = 2 * beatEvery

// keepUp runs until ctx ends.
func (f *Front) keepUp(ctx context.Context) {
	r := &repairer{front: f, queued: map[disk.GroupID]bool{}, absent: map[cluster.DiskID]time.Time{}, lost: map[cluster.DiskID]bool{}, swept: map[cluster.DiskID]swept{}}
	r.queue = repair.New(func(id disk.GroupID) []placement.ServerIndex { return r.holders(ctx, id) })
	tick := time.NewTicker(idleTurn)
	defer tick.Stop()
	for next := f.o.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case id := <-f.degraded:
			r.add(id)
			continue
		case d := <-f.damaged:
			f.log.Warn("replica is damaged; another is made", "group", d.group.String(), "disk", string(d.on))
			if err := f.space.Discard(ctx, d.group, d.on); err != nil && ctx.Err() == nil {
				f.log.Warn("replica not dropped", "group", d.group.String(), "error", err)
			}
			continue
		case d := <-f.wipes:
			if _, back := f.pool.server(d); back || !f.wiped(d) {
				continue // it was only put elsewhere
			}
			if _, err := f.space.Lost(ctx, d); err != nil && ctx.Err() == nil {
				f.log.Warn("replicas of a wiped disk not dropped yet", "disk", string(d), "error", err)
			}
			continue
		case <-tick.C:
		}
		now := f.o.Now()
		if !now.Before(next) {
			next = now.Add(tidyEvery)
			if err := r.tidy(ctx, now); err != nil && ctx.Err() == nil {
				f.log.Warn("upkeep failed", "error", err)
			}
		}
		r.queue.Start(now, r.turn, func(id disk.GroupID, source placement.ServerIndex) repair.Answer { return r.rebuild(ctx, id, source) })
		if len(r.failed) > 0 {
			r.queue.AddAt(now.Add(again), r.failed)
			r.failed = nil
		}
		r.lift.step(ctx, f, now)
	}
}

func (r *repairer) add(id disk.GroupID) {
	if !r.queued[id] {
		r.queued[id] = true
		r.queue.Add(id)
	}
}

// holders gives the servers that can be reached and have a good replica.
func (r *repairer) holders(ctx context.Context, id disk.GroupID) (all []placement.ServerIndex) {
	g, _, err := r.front.maps.Group(ctx, id)
	if err != nil {
		delete(r.queued, id)
		return nil
	}
	for _, d := range g.Good {
		if s, ok := r.front.pool.server(d); ok {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		delete(r.queued, id) // the next look at all groups finds it again
	}
	return all
}

// sends gives the disk of a server that has a good replica of a group, if there is one.
func (r *repairer) sends(ctx context.Context, id disk.GroupID, source placement.ServerIndex) cluster.DiskID {
	g, _, err := r.front.maps.Group(ctx, id)
	if err != nil {
		return ""
	}
	for _, d := range g.Good {
		if s, ok := r.front.pool.server(d); ok && s == source {
			return d
		}
	}
	return ""
}

// server tells on which server a disk is that can be reached.
func (p *pool) server(id cluster.DiskID) (placement.ServerIndex, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.disks[id]
	if !ok {
		return 0, false
	}
	return p.fleets[d.tier].Server(d.on)
}

// turn is how long a server waits between two groups.
func (r *repairer) turn(s placement.ServerIndex) time.Duration {
	if r.front.pool.busy(s) {
		return busyTurn
	}
	return min(max(idleTurn, slowTurn*r.took), busyTurn)
}

func (r *repairer) rebuild(ctx context.Context, id disk.GroupID, source placement.ServerIndex) repair.Answer {
	begun := time.Now()
	err := r.front.space.Rebuild(ctx, id, r.sends(ctx, id, source))
	switch {
	case errors.Is(err, volume.ErrNoTarget):
		delete(r.queued, id)
		return repair.NoNeed // looked at again with all others
	case err != nil:
		if ctx.Err() == nil {
			r.front.log.Warn("replica not rebuilt", "group", id.String(), "error", err)
		}
		r.failed = append(r.failed, id)
		return repair.NoNeed // now
	}
	r.took = time.Since(begun)
	delete(r.queued, id)
	if g, _, err := r.front.maps.Group(ctx, id); err == nil && g.State() == group.Degraded {
		r.front.note(id) // it lacks another
	}
	return repair.Started
}

// tidy removes the data of removed vDisks, gives up disks that are away too long, and finds groups that lack replicas.
func (r *repairer) tidy(ctx context.Context, now time.Time) error {
	if err := r.front.Tidy(ctx); err != nil {
		return err
	}
	if err := r.sweep(ctx, now); err != nil {
		return err
	}
	away := map[cluster.DiskID]time.Time{}
	for g, err := range r.front.maps.Groups(ctx) {
		if err != nil {
			return err
		}
		if s := g.State(); s == group.Degraded || s == group.Repairing || s == group.Moving {
			r.add(g.ID)
		}
		for _, d := range g.Good {
			if _, here := r.front.pool.server(d); !here {
				away[d] = now
			}
		}
	}
	for d := range away {
		if since, known := r.absent[d]; known {
			away[d] = since
		}
	}
	r.absent = away
	maps.DeleteFunc(r.lost, func(d cluster.DiskID, _ bool) bool { return away[d].IsZero() })
	for d, since := range away {
		if gone := now.Sub(since); gone < r.front.o.Grace && (gone < wipedGrace || !r.front.wiped(d)) {
			continue
		}
		kept, err := r.front.space.Lost(ctx, d)
		if err != nil {
			return err
		}
		if !r.lost[d] {
			r.lost[d] = true
			r.front.log.Warn("disk counts as lost", "disk", string(d), "away_since", since, "groups_with_no_other_replica_here", len(kept))
		}
	}
	return nil
}

// sweep looks through the disks that were opened since, or whose turn it is.
func (r *repairer) sweep(ctx context.Context, now time.Time) error {
	for id, d := range r.front.pool.all() {
		if last := r.swept[id]; last.opened == d.opened && now.Sub(last.at) < sweepEvery {
			continue
		}
		removed, err := r.front.space.Sweep(ctx, id)
		if err != nil {
			return err
		}
		if removed > 0 {
			r.front.log.Info("replicas that no group has were removed", "disk", string(id), "replicas", removed)
		}
		r.swept[id] = swept{now, d.opened}
	}
	return nil
}
