package volume

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/upkeep"
	"gleaner/kv/mem"
	"gleaner/kv/transfer"
)

// The tasks of a scan are carried out in two copies of a neglected world: in the one once and in order; in the other in any order, half of
// them refused at first, and then all of them twice. When later scans find nothing more to be done, both are alike.
//
// What is packed or shared depends on what was removed or gathered before: where a world does so, the two are alike in what they hold, and
// may differ in how it lies.
func TestTasksMayBeDoneTwice(t *testing.T) {
	t.Parallel()
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	if os.Getenv("GLEANER_LONG") != "" {
		seeds = 200
	}
	done := map[string]int{}
	for seed := uint64(1); seed <= seeds; seed++ {
		w := newWorld(seed)
		if seed%2 == 0 {
			w.without = []string{upkeep.Pack, upkeep.Share}
		}
		if err := w.doTwice(seed, done); err != nil {
			t.Fatalf("seed %d\n%s\n%v", seed, strings.Join(w.trail, "\n"), err)
		}
		w.end()
	}
	t.Logf("seeds 1 to %d, tasks that were done once: %v", seeds, done)
}

func (w *world) doTwice(seed uint64, done map[string]int) error {
	if err := w.neglect(); err != nil {
		return err
	}
	tasks, err := w.scan()
	if err != nil {
		return err
	}
	once, twice := w.copy(seed), w.copy(seed+1<<32)
	defer once.end()
	defer twice.end()
	a, err := once.keep(w, tasks)
	if err != nil {
		return fmt.Errorf("once: %w\n%s", err, strings.Join(once.trail, "\n"))
	}
	b, err := twice.keep(w, slices.Concat(twice.some(tasks, len(tasks)/2), twice.some(tasks, len(tasks)), twice.some(tasks, len(tasks))))
	if err != nil {
		return fmt.Errorf("twice: %w\n%s", err, strings.Join(twice.trail, "\n"))
	}
	for kind, n := range once.kept {
		done[kind] += n
	}
	if !slices.Equal(a, b) {
		return fmt.Errorf("once: %s\n%s\ntwice: %s\n%s", strings.Join(once.trail, "\n"), strings.Join(a, "\n"), strings.Join(twice.trail, "\n"), strings.Join(b, "\n"))
	}
	return nil
}

// neglect has the world go on for a while and leaves it as it is, with a disk pulled if all others are well. It is known what its vDisks hold.
func (w *world) neglect() error {
	if err := w.boot(); err != nil {
		return err
	}
	if err := w.create(); err != nil {
		return err
	}
	for range 60 {
		if err := w.step(); err != nil {
			return err
		}
	}
	if err := w.kill(); err != nil {
		return err
	}
	for _, b := range w.bays {
		b.down = false
	}
	for _, name := range w.sorted() {
		c := w.disks[name]
		if err := w.read(c, 0, c.size); err != nil {
			return err
		}
		if err := w.close(c); err != nil {
			return err
		}
	}
	if err := w.mend(); err != nil {
		return err
	}
	if len(w.hurt) == 0 && w.rng.IntN(2) == 0 {
		w.pull(w.bays[w.rng.IntN(len(w.bays))])
	}
	return nil
}

// pull puts a new disk in the place of another, which nobody has noticed yet.
func (w *world) pull(b *bay) {
	w.note("%s is pulled", b.id)
	w.gone, w.hurt[b.id] = append(w.gone, b.id), true
	b.disk.Close()
	b.id += "-new"
	w.format(b)
}

// copy gives a world with the same data, a front of its own, and other luck.
func (w *world) copy(seed uint64) *world {
	c := newWorld(seed)
	c.end()
	store := mem.New()
	if _, err := (transfer.Copy{From: w.store, To: store, Source: "a world", Target: "its copy"}).Do(context.Background()); err != nil {
		panic(err)
	}
	c.store, c.hurt, c.writer, c.names, c.without = store, w.hurt, w.writer, w.names, w.without
	for i, b := range w.bays {
		c.bays[i].id, c.bays[i].fs = b.id, b.fs.Kill()
		c.openDisk(c.bays[i])
	}
	for name, v := range w.disks {
		c.disks[name] = &content{name: name, size: v.size, snapshot: v.snapshot, sectors: v.copied()}
	}
	if err := c.boot(); err != nil {
		panic(err)
	}
	c.gone = w.gone // only now: a task is to find what they had
	return c
}

// some gives n of the tasks, in any order.
func (w *world) some(tasks []task.Task, n int) []task.Task {
	tasks = slices.Clone(tasks)
	w.rng.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	return tasks[:n]
}

// keep carries out tasks, and what later scans find, and says how the copy of a world is then.
func (c *world) keep(w *world, tasks []task.Task) ([]string, error) {
	for _, t := range tasks {
		if err := c.do(t); err != nil {
			return nil, err
		}
	}
	if err := c.tidied(); err != nil {
		return nil, err
	}
	// A group that lacks a replica, or was just written to, is not moved or emptied: which groups are depends on which task came first.
	repaired := slices.ContainsFunc(tasks, func(t task.Task) bool {
		return slices.Contains([]string{upkeep.LoseDisk, upkeep.Rebuild, upkeep.RollBack, upkeep.Flatten, upkeep.Migrate}, t.Kind)
	})
	said, err := c.contents()
	if err != nil {
		return nil, err
	}
	if len(w.without) > 0 {
		var more []string
		more, err = c.records(w, !repaired)
		said = append(said, more...)
	}
	slices.Sort(said)
	return said, err
}

// contents says what the vDisks read, which must be what was written.
func (c *world) contents() (said []string, err error) {
	for _, name := range c.sorted() {
		v := c.disks[name]
		if err := c.read(v, 0, v.size); err != nil {
			return nil, err
		}
		data := make([]byte, v.size)
		if err := v.volume.ReadAt(context.Background(), data, 0); err != nil {
			return nil, err
		}
		if err := c.close(v); err != nil {
			return nil, err
		}
		said = append(said, fmt.Sprintf("%s reads %x", name, sha256.Sum256(data)))
	}
	return said, nil
}

// records says what the maps of a world's copy have. Groups that were made since are all called new, for their numbers are drawn; all groups
// are where they are not to be told from each other.
func (c *world) records(w *world, told bool) (said []string, err error) {
	ctx, was := context.Background(), map[disk.GroupID]bool{}
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	called := func(id disk.GroupID) string {
		if was[id] {
			return id.String()
		}
		return "new"
	}
	for g, err := range w.maps.Groups(ctx) {
		if err != nil {
			return nil, err
		}
		was[g.ID] = told
	}
	for g, err := range c.maps.Groups(ctx) {
		if err != nil {
			return nil, err
		}
		slow := 0
		if was[g.ID] {
			slow = c.slow(g)
		}
		here := 0 // tenants that have left, or were removed, are still listed
		for _, e := range g.Tenants {
			if at, _, err := c.maps.Extent(ctx, e); err == nil && at.Group == g.ID {
				here++
			}
		}
		say("group %s of vDisk %d: %s, %d of %d replicas, %d of them slow, %d tenants", called(g.ID), g.VDisk, g.State(), len(g.Good), g.Wanted, slow, here)
	}
	for v, err := range c.maps.VDisks(ctx) {
		if err != nil {
			return nil, err
		}
		say("vDisk %+v", v)
	}
	err = c.maps.EachBlock(ctx, func(v disk.VDiskID, n int64, b maps.Block) error {
		say("block %d of vDisk %d: %d extents, opaque %t", n, v, len(b.Pile), b.Opaque)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = c.maps.EachExtent(ctx, func(e maps.ExtentID, at maps.Extent) error {
		say("an extent that was made in group %s is in %s", called(e.Group), called(at.Group))
		return nil
	})
	return said, err
}

// slow counts the replicas of a group on the slow tier.
func (w *world) slow(g maps.NumberedGroup) (n int) {
	for i, b := range w.bays {
		if w.tier(i) == "hdd" && slices.Contains(g.Good, b.id) {
			n++
		}
	}
	return n
}
