package virtual

import (
	"context"
	"errors"
	"fmt"
	gomaps "maps"
	"slices"
	"strconv"
	"time"

	"gleaner/cluster"
	"gleaner/curator"
	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/fabric/volume"
	"gleaner/kv"
	"gleaner/placement"
	"gleaner/placement/repair"
)

// The paces of a front (fabric).
const (
	lookEvery    = 10 * time.Second // whether something can be done that could not be done before, or a threshold is passed
	relieveEvery = 5 * time.Minute  // between scans because of a threshold, at least
	idleTurn     = 50 * time.Millisecond
	busyTurn     = time.Hour / repair.PerHour
	slowTurn     = 4 // times what a rebuild took: they may take a quarter of the time
)

// partial and full are the jobs that are scanned for: those which lead to tasks that are simulated.
func partial() []string { return []string{upkeep.Disks, upkeep.Replicas, upkeep.VDisks, upkeep.Cold} }
func full() []string    { return append(partial(), upkeep.Blocks, upkeep.Space) }

// A keeper scans the maps when a front would, and does what follows.
type keeper struct {
	fabric  *Fabric
	scan    *upkeep.Scan
	curator *curator.Curator
	tasks   *task.Queue
	rebuilds
	schedule

	next  time.Duration // when there is something to do
	ops   []op          // of what is under way
	doing *task.Task    // that is under way, nil if none is
	begun time.Duration
	rest  time.Duration // until when no other task is begun
	gone  map[cluster.DiskID]time.Time
	lost  map[disk.GroupID]bool // all their replicas were on disks that are gone
	ended Upkeep
}

// An Upkeep is what was done, and what is left to do.
type Upkeep struct {
	Scans   int
	Done    map[string]int // tasks, by kind
	Refused int
	Lost    int           // groups
	Waiting int           // tasks, and groups to be rebuilt
	Oldest  time.Duration // how long the task has waited that waits longest
}

// rebuilds are the groups that lack replicas.
type rebuilds struct {
	queue  *repair.Queue[disk.GroupID]
	queued map[disk.GroupID]time.Time // and since when
	making []disk.GroupID             // now
	took   time.Duration              // by the last one
}

func newKeeper(ctx context.Context, f *Fabric, store kv.Store, writer *kv.Writer) (*keeper, error) {
	k := &keeper{fabric: f, scan: &upkeep.Scan{Policy: f.o.Policy}, gone: map[cluster.DiskID]time.Time{}, lost: map[disk.GroupID]bool{}, ended: Upkeep{Done: map[string]int{}},
		schedule: schedule{policy: f.o.Policy, wanted: map[string]bool{}, partial: f.o.Start, full: f.o.Start.Add(f.o.Policy.Full())}}
	k.rebuilds = rebuilds{queued: map[disk.GroupID]time.Time{}, queue: repair.New(k.holders)}
	var err error
	if k.tasks, err = task.New(upkeep.Classes()); err != nil {
		return nil, err
	}
	runs, err := store.LooseTable(ctx, "curator_runs")
	if err != nil {
		return nil, err
	}
	k.curator, err = curator.Open(ctx, store, writer, curator.Options{Name: "virtual", Tables: f.maps.Tables(), Jobs: k.scan.Jobs(), Space: shuffle.Table{Rows: runs}, Memory: 4 << 20, Ranges: 1, Partitions: 1})
	return k, err
}

// Advance lets upkeep go on until a time.
func (f *Fabric) Advance(ctx context.Context, to time.Duration) error {
	for f.keeper != nil && f.keeper.next <= to {
		if err := f.keeper.step(ctx, f.keeper.next); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// step does the next read or write, or ends what is under way, or begins something.
func (k *keeper) step(ctx context.Context, at time.Duration) error {
	if len(k.ops) > 0 {
		k.next = k.fabric.do(at, k.ops[0])
		k.ops = k.ops[1:]
		return nil
	}
	now := k.fabric.wall(at)
	k.end(at, now)
	if now.Sub(k.looked) >= lookEvery {
		k.look(now, k.scan.Due(k.fabric.view()) && k.idle(now, upkeep.TierDown, upkeep.Balance))
	}
	if due := k.due(now); len(due) > 0 {
		if err := k.see(ctx, now, due); err != nil {
			return err
		}
	}
	k.next = at + idleTurn
	began, err := k.begin(ctx, at, now)
	if err != nil || began {
		return err
	}
	if err := k.send(ctx, at, now); err != nil {
		return err
	}
	if len(k.making) == 0 && len(k.queued) == 0 && k.idle(now) {
		k.next = at + k.fabric.scaled(lookEvery)
	}
	return nil
}

// do does one read or write, and returns when it is done.
func (f *Fabric) do(at time.Duration, o op) time.Duration {
	done := at
	for _, d := range o.on {
		if d.gone {
			continue
		}
		if o.frees {
			f.give(d)
		}
		done = max(done, d.Do(at, o.size, o.write))
	}
	return done
}

// share is how much of the time upkeep may take.
func (k *keeper) share() float64 { return k.scan.Policy.Share(upkeep.Usual) }

// end ends what was under way.
func (k *keeper) end(at time.Duration, now time.Time) {
	if k.doing != nil {
		k.finish(now, *k.doing, nil)
		k.doing, k.rest = nil, at+min(upkeep.Rest(at-k.begun, k.share()), k.fabric.scaled(upkeep.Rest(time.Hour, k.share())))
	}
	for _, id := range k.making {
		k.took = (at - k.begun) / time.Duration(len(k.making))
		k.rebuilt(now, id, nil)
		if g := k.fabric.groups[id]; g != nil && g.State() == group.Degraded { // it lacks another
			k.rebuild(id)
		}
	}
	k.making = nil
}

// finish tells the queue how a task ended.
func (k *keeper) finish(now time.Time, t task.Task, err error) {
	how := task.Done
	if err != nil {
		how = task.Refused
		k.ended.Refused++
		k.early = k.early || errors.Is(err, errNotYet) || errors.Is(err, volume.ErrNoTarget)
	} else {
		k.ended.Done[t.Kind]++
	}
	if err == nil && t.Kind == upkeep.RemoveVDisk {
		k.want(upkeep.VDisks) // there may be others
	}
	_ = k.tasks.End(now, t, how) // a rebuild need not come from a scan
}

// refused reports whether a task was not done because it is not needed, or not now. Any other error is a mistake in the simulation.
func refused(err error) bool {
	return errors.Is(err, volume.ErrMoot) || errors.Is(err, upkeep.ErrUsed) || errors.Is(err, volume.ErrNoTarget) || errors.Is(err, errNotYet)
}

var errNotYet = errors.New("not yet")

// view is what jobs know beside the maps.
func (f *Fabric) view() upkeep.View {
	v := upkeep.View{Tiers: f.o.Tiers, Disks: map[cluster.DiskID]upkeep.Disk{}, VDisks: map[disk.VDiskID]upkeep.VDisk{}, Spare: map[maps.ExtentID]bool{}}
	for _, tier := range f.o.Tiers {
		for _, d := range f.Disks(tier) {
			v.Disks[d.ID] = upkeep.Disk{Tier: tier, Quota: cluster.Bytes(d.Kind.Capacity), Used: cluster.Bytes(d.Used), Server: cluster.ServerID(strconv.Itoa(int(d.Server)))}
		}
	}
	for _, vdisk := range f.vdisks {
		v.See(vdisk.VDisk)
	}
	return v
}

// see scans, and queues what follows.
func (k *keeper) see(ctx context.Context, now time.Time, due []string) error {
	f := k.fabric
	used := map[disk.GroupID]tiering.Access{}
	for id := range f.dirty {
		used[id] = tiering.WrittenIn(f.groups[id].used)
	}
	clear(f.dirty)
	if err := f.maps.SetAccess(ctx, used); err != nil {
		return err
	}
	planner := k.scan.See(f.view())
	queue := func(all []task.Task) error {
		for _, t := range all {
			verdict, err := k.tasks.Add(now, t)
			if err == nil && verdict == task.DoNow {
				err = fmt.Errorf("virtual: the maps are damaged: %s", t.Why) // nothing changes during a scan
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	_, err := k.curator.Scan(ctx, func(proposed task.Task) error {
		all, err := planner.Take(proposed)
		if err != nil {
			return err
		}
		return queue(all)
	}, due...)
	k.ended.Scans++
	if err != nil {
		return err
	}
	return queue(planner.Rest())
}

// begin begins the task whose turn it is.
func (k *keeper) begin(ctx context.Context, at time.Duration, now time.Time) (began bool, err error) {
	if at < k.rest {
		return false, nil
	}
	for _, t := range k.tasks.Next(now) {
		if id, ok := upkeep.Rebuilds(t); ok {
			k.rebuild(id)
			continue
		}
		do := &tasks{Fabric: k.fabric, at: at}
		if t.Kind == upkeep.LoseDisk {
			err = k.lose(ctx, now, do, cluster.DiskID(t.What))
		} else {
			err = upkeep.Do(ctx, do, do.choose, t)
		}
		if err != nil && !refused(err) {
			return false, err
		}
		if err != nil {
			k.finish(now, t, err)
			continue
		}
		k.doing, k.ops, k.begun, k.next, began = &t, do.ops, at, at, true
	}
	return began, ctx.Err()
}

// lose gives up a disk that is away too long.
func (k *keeper) lose(ctx context.Context, now time.Time, do *tasks, id cluster.DiskID) error {
	since, known := k.gone[id]
	if !known {
		k.gone[id], since = now, now
	}
	if now.Sub(since) < fabric.Grace {
		return errNotYet
	}
	kept, err := do.Lost(ctx, id)
	for _, id := range kept {
		k.lost[id] = true
	}
	if err == nil && len(kept) > 0 {
		err = errNotYet
	}
	return err
}

// rebuild queues a group that lacks a replica.
func (k *keeper) rebuild(id disk.GroupID) {
	if _, known := k.queued[id]; !known {
		k.queued[id] = k.fabric.wall(k.next)
		k.queue.Add(id)
	}
}

// rebuilt takes a group out of the queue.
func (k *keeper) rebuilt(now time.Time, id disk.GroupID, err error) {
	delete(k.queued, id)
	k.finish(now, upkeep.RebuildOf(id), err)
}

// holders gives the servers that have a good replica.
func (k *keeper) holders(id disk.GroupID) (all []placement.ServerIndex) {
	if g := k.fabric.groups[id]; g != nil {
		for _, d := range g.Good {
			if d := k.fabric.disks[d]; !d.gone {
				all = append(all, d.Server)
			}
		}
	}
	if _, known := k.queued[id]; known && len(all) == 0 {
		k.rebuilt(k.fabric.wall(k.next), id, volume.ErrMoot) // the next scan finds it again, if it is there
	}
	return all
}

// send begins to rebuild what it is some server's turn to send.
func (k *keeper) send(ctx context.Context, at time.Duration, now time.Time) (failed error) {
	turn := func(s placement.ServerIndex) time.Duration {
		if k.fabric.busy(s, at) {
			return busyTurn
		}
		return min(max(idleTurn, slowTurn*k.took), busyTurn)
	}
	do := &tasks{Fabric: k.fabric, at: at}
	k.queue.Start(now, turn, func(id disk.GroupID, source placement.ServerIndex) repair.Answer {
		g := k.fabric.groups[id]
		i := slices.IndexFunc(g.Good, func(d cluster.DiskID) bool { return k.fabric.disks[d].Server == source && !k.fabric.disks[d].gone })
		if err := do.Rebuild(ctx, id, g.Good[i]); err != nil {
			if !refused(err) {
				failed = err
			}
			k.rebuilt(now, id, err)
			return repair.NoNeed // the next scan finds it again
		}
		k.making = append(k.making, id)
		return repair.Started
	})
	if len(k.making) > 0 {
		k.ops, k.begun, k.next = do.ops, at, at
	}
	return failed
}

// idle reports whether no task of some kinds, or any, waits.
func (k *keeper) idle(now time.Time, kinds ...string) bool {
	for _, b := range k.tasks.Backlog(now) {
		if (len(kinds) == 0 || slices.Contains(kinds, b.Kind)) && b.Waiting+b.UnderWay > 0 {
			return false
		}
	}
	return true
}

// Upkeep tells what was done, and what is left to do.
func (f *Fabric) Upkeep(at time.Duration) Upkeep {
	k, now := f.keeper, f.wall(at)
	if k == nil {
		return Upkeep{}
	}
	u := k.ended
	u.Done = gomaps.Clone(u.Done)
	u.Lost, u.Waiting = len(k.lost), len(k.queued)
	for _, since := range k.queued {
		u.Oldest = max(u.Oldest, now.Sub(since))
	}
	for _, b := range k.tasks.Backlog(now) {
		if b.Kind != upkeep.Rebuild { // those are all in queued
			u.Waiting += b.Waiting + b.UnderWay
		}
		u.Oldest = max(u.Oldest, b.Oldest)
	}
	return u
}
