package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/curator"
	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// eager is a policy by which nearly everything is due.
var eager = upkeep.Policy{F: 0.1, D: 1, H: 0.1, M: 0, S: 0, H1: 1, H2: 1, Pack: 1}

// upkeep scans the maps and does what follows: in any order, some of it twice, half of it not at all.
func (w *world) upkeep(jobs ...string) error {
	tasks, err := w.scan(jobs...)
	if err != nil {
		return w.unlessDead(err)
	}
	w.note("upkeep: %d tasks", len(tasks))
	w.rng.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	for _, t := range tasks {
		for range w.rng.IntN(3) {
			if err := w.do(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// do carries out a task. One that cannot be done is as good as refused.
func (w *world) do(t task.Task) error {
	if t.Kind == upkeep.Finding {
		return w.finding(t)
	}
	if t.Kind == upkeep.LoseDisk && !slices.Contains(w.gone, cluster.DiskID(t.What)) {
		return nil // it may come back
	}
	err := upkeep.Do(context.Background(), modelFabric{w.space, w}, w.choose, t)
	for tries := 0; errors.Is(err, ErrUnfinished) && tries < 100; tries++ { // on a slow machine it takes pieces
		err = upkeep.Do(context.Background(), modelFabric{w.space, w}, w.choose, t)
	}
	w.note("%s of %s: %v", t.Kind, upkeep.Subject(t), err)
	if err == nil {
		w.kept[t.Kind]++
	}
	if groups, used := upkeep.Packed(t); errors.Is(err, ErrMoot) {
		for _, id := range groups {
			w.dense[id] = used
		}
	}
	if err == nil || errors.Is(err, ErrMoot) || errors.Is(err, ErrNoTarget) || errors.Is(err, upkeep.ErrUsed) || len(w.hurt) > 0 {
		return nil
	}
	return w.unlessDead(fmt.Errorf("%s of %s: %w", t.Kind, upkeep.Subject(t), err))
}

// finding is an error, for nothing in a world may make a record lead nowhere.
func (w *world) finding(t task.Task) error {
	still, err := upkeep.Confirm(context.Background(), w.maps, t)
	if still {
		err = errors.New(t.Why)
	}
	return w.unlessDead(err)
}

// scan gives what is to be done. Its own state is not kept: that is tested with the curator.
func (w *world) scan(jobs ...string) (tasks []task.Task, err error) {
	ctx, s, store := context.Background(), &upkeep.Scan{Policy: eager}, mem.New()
	runs, err := store.LooseTable(ctx, "runs")
	if err != nil {
		return nil, err
	}
	c, err := curator.Open(ctx, store, kv.NewWriter(1), curator.Options{Name: "model", Tables: w.maps.Tables(), Jobs: s.Jobs(), Space: shuffle.Table{Rows: runs}, Ranges: 3, Partitions: 2, Memory: 1 << 20})
	if err != nil {
		return nil, err
	}
	view, err := w.view()
	if err != nil {
		return nil, err
	}
	planner := s.See(view)
	_, err = c.Scan(ctx, func(proposed task.Task) error {
		follow, err := planner.Take(proposed)
		tasks = append(tasks, follow...)
		return err
	}, jobs...)
	tasks = append(tasks, planner.Rest()...)
	return slices.DeleteFunc(tasks, func(t task.Task) bool { return slices.Contains(w.without, t.Kind) }), err
}

// view has the first disks on a fast tier that is full, the others on a slow one, and one of each fuller than the rest.
func (w *world) view() (upkeep.View, error) {
	v := upkeep.View{Tiers: []cluster.Tier{"ssd", "hdd"}, Disks: map[cluster.DiskID]upkeep.Disk{}, VDisks: map[disk.VDiskID]upkeep.VDisk{}}
	full := w.rng.IntN(len(w.bays))
	for i, b := range w.bays {
		d := upkeep.Disk{Tier: w.tier(i), Quota: 100 << 20, Used: 20 << 20, Server: cluster.ServerID(b.id)}
		if i == full {
			d.Used *= 3
		}
		if !b.down {
			v.Disks[b.id] = d
		}
	}
	v.Spare, v.Dense, v.Now = w.space.Spare(), w.dense, tiering.PeriodOf(time.Now().Add(2*time.Hour))
	for vdisk, err := range w.maps.VDisks(context.Background()) {
		if err != nil {
			return v, err
		}
		v.See(vdisk)
	}
	return v, nil
}

func (w *world) tier(bay int) cluster.Tier {
	if bay < 3 {
		return "ssd"
	}
	return "hdd"
}

func (w *world) choose(from cluster.DiskID, tier cluster.Tier, _ bool, others []cluster.DiskID) (cluster.DiskID, bool) {
	for _, i := range w.rng.Perm(len(w.bays)) {
		if b := w.bays[i]; !b.down && w.tier(i) == tier && b.id != from && !slices.Contains(others, b.id) {
			return b.id, true
		}
	}
	return "", false
}

// modelFabric opens vDisks as the world does.
type modelFabric struct {
	*Space
	w *world
}

func (f modelFabric) Pack(ctx context.Context, ids []disk.GroupID, form upkeep.Form) error {
	_, err := f.Space.Pack(ctx, ids, Form{form.Level, form.Shards})
	return err
}

func (f modelFabric) Use(ctx context.Context, id disk.VDiskID, do func(upkeep.Volume) error) error {
	for _, name := range f.w.sorted() {
		c := f.w.disks[name]
		if v, err := f.w.maps.Find(ctx, name); err != nil || v.ID != id {
			continue
		}
		if err := f.w.open(c); err != nil {
			return err
		}
		return do(c.volume)
	}
	return ErrMoot
}

// tidied has upkeep go on until nothing is left to be removed: then the maps hold what vDisks need, and nothing else.
func (w *world) tidied() error {
	const rounds = 10
	for range rounds {
		tasks, err := w.scan(upkeep.Disks, upkeep.Replicas, upkeep.VDisks, upkeep.Blocks, upkeep.Piles, upkeep.Space)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return nil
		}
		w.note("tidy: %d tasks", len(tasks))
		for _, t := range tasks {
			if err := w.do(t); err != nil {
				return err
			}
		}
		for _, name := range w.sorted() { // they keep extents for blocks to come
			if err := w.close(w.disks[name]); err != nil {
				return err
			}
		}
	}
	tasks, err := w.scan(upkeep.Disks, upkeep.Replicas, upkeep.VDisks, upkeep.Blocks, upkeep.Piles, upkeep.Space)
	for _, t := range tasks {
		err = errors.Join(err, fmt.Errorf("%s of %s is never done: %s", t.Kind, upkeep.Subject(t), t.Why))
	}
	return err
}
