package fabric

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/upkeep"
	"gleaner/fabric/volume"
	"gleaner/kv"
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

// tidyEvery is how often it is looked whether something can be done that could not be done before.
const tidyEvery = 10 * time.Second

// A repairer does what upkeep has found to be done, one thing at a time.
type repairer struct {
	front  *Front
	queue  *repair.Queue[disk.GroupID]
	queued map[disk.GroupID]bool
	failed []disk.GroupID               // whose rebuild failed just now
	took   time.Duration                // by the last rebuild
	rest   time.Time                    // until when no other task is begun
	absent map[cluster.DiskID]time.Time // since when a disk of some group is away
	lost   map[cluster.DiskID]time.Time // when a disk was last said to be lost
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
	r := &repairer{front: f, queued: map[disk.GroupID]bool{}, absent: map[cluster.DiskID]time.Time{}, lost: map[cluster.DiskID]time.Time{}, swept: map[cluster.DiskID]swept{}}
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
			f.discard(ctx, d)
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
			if err := errors.Join(f.learnRetired(ctx), r.sweep(ctx, now)); err != nil && ctx.Err() == nil {
				f.log.Warn("upkeep failed", "error", err)
			}
		}
		r.next(ctx, now)
		r.queue.Start(now, r.turn, func(id disk.GroupID, source placement.ServerIndex) repair.Answer { return r.rebuild(ctx, id, source) })
		if len(r.failed) > 0 {
			r.queue.AddAt(now.Add(again), r.failed)
			r.failed = nil
		}
		r.lift.step(ctx, f, now)
	}
}

// next begins the tasks whose turn it is, unless the last took long: upkeep may take a quarter of the time.
func (r *repairer) next(ctx context.Context, now time.Time) {
	maps.DeleteFunc(r.absent, func(d cluster.DiskID, _ time.Time) bool { // what is back
		_, here := r.front.pool.server(d)
		return here
	})
	if now.Before(r.rest) {
		return
	}
	if rests, err := r.front.curation.paused(ctx); rests || err != nil {
		return
	}
	for _, t := range r.front.curation.begin(now) {
		if id, ok := upkeep.Rebuilds(t); ok {
			r.add(id)
			continue
		}
		begun := time.Now()
		r.front.curation.end(r.front.o.Now(), t, r.do(ctx, now, t))
		took := time.Since(begun)
		r.rest = now.Add(took + upkeep.Rest(took, r.front.o.Policy.Share(r.load(ctx, t, now))))
	}
}

// load is that of the server which a task works on that has the highest. Of a task of a vDisk it may be any of them.
func (r *repairer) load(ctx context.Context, t task.Task, now time.Time) float64 {
	disks := slices.Collect(maps.Keys(r.front.pool.all()))
	if id, ok := upkeep.GroupOf(t); ok {
		g, _, err := r.front.maps.Group(ctx, id)
		if err != nil {
			return upkeep.Usual
		}
		disks = g.Good
	}
	return r.front.pool.load(disks, now.UTC().Hour())
}

// do carries out a task, unless it is not welcome now.
func (r *repairer) do(ctx context.Context, now time.Time, t task.Task) error {
	if t.Kind == upkeep.LoseDisk {
		return r.lose(ctx, now, cluster.DiskID(t.What))
	}
	return upkeep.Do(ctx, volumes{r.front.space, r.front}, r.front.choose, t)
}

// lose gives up a disk that is away too long.
func (r *repairer) lose(ctx context.Context, now time.Time, d cluster.DiskID) error {
	if _, here := r.front.pool.server(d); here {
		return volume.ErrMoot
	}
	since, known := r.absent[d]
	if !known {
		r.absent[d], since = now, now
	}
	if gone := now.Sub(since); gone < r.front.o.Grace && (gone < wipedGrace || !r.front.wiped(d)) {
		return errNotYet
	}
	kept, err := r.front.space.Lost(ctx, d)
	if err != nil {
		return err
	}
	if r.lost[d].Before(since) {
		r.lost[d] = now
		r.front.log.Warn("disk counts as lost", "disk", string(d), "away_since", since, "groups_with_no_other_replica_here", len(kept))
	}
	if len(kept) > 0 {
		return errNotYet
	}
	return nil
}

func (r *repairer) add(id disk.GroupID) {
	if !r.queued[id] {
		r.queued[id] = true
		r.queue.Add(id)
		r.front.curation.repaired(func(n *Repairs) { n.Waiting++ })
	}
}

// done takes a group out of the queue, and ends the task to rebuild it if a scan has proposed that too.
func (r *repairer) done(id disk.GroupID, err error) {
	r.front.curation.stick(id, errors.Is(err, volume.ErrNoTarget))
	if r.queued[id] {
		delete(r.queued, id)
		r.front.curation.repaired(func(n *Repairs) {
			n.Waiting--
			if err == nil {
				n.Done++
			}
		})
		r.front.curation.end(r.front.o.Now(), upkeep.RebuildOf(id), err)
	}
}

// holders gives the servers that can be reached and have a good replica.
func (r *repairer) holders(ctx context.Context, id disk.GroupID) (all []placement.ServerIndex) {
	g, _, err := r.front.maps.Group(ctx, id)
	if err != nil {
		r.done(id, volume.ErrMoot)
		return nil
	}
	for _, d := range g.Good {
		if s, ok := r.front.pool.server(d); ok {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		r.done(id, errNotYet) // the next scan finds it again
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
	case errors.Is(err, volume.ErrNoTarget), errors.Is(err, kv.ErrTaken): // who has the vDisk open rebuilds it
		r.done(id, err)
		return repair.NoNeed // the next scan finds it again
	case err != nil:
		if ctx.Err() == nil {
			r.front.log.Warn("replica not rebuilt", "group", id.String(), "error", err)
		}
		r.failed = append(r.failed, id)
		r.front.curation.repaired(func(n *Repairs) { n.Failed++ })
		return repair.NoNeed // now
	}
	r.took = time.Since(begun)
	r.done(id, nil)
	if g, _, err := r.front.maps.Group(ctx, id); err == nil && g.State() == group.Degraded {
		r.front.note(id) // it lacks another
	}
	return repair.Started
}

// sweep looks through the disks that were opened since, and unless upkeep is paused those whose turn it is.
func (r *repairer) sweep(ctx context.Context, now time.Time) error {
	rests, err := r.front.curation.paused(ctx)
	rests = rests || err != nil
	for id, d := range r.front.pool.all() {
		if last := r.swept[id]; last.opened == d.opened && (rests || now.Sub(last.at) < sweepEvery) {
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
