package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/upkeep"
)

// A Report is what Check found.
type Report struct {
	Blocks   int      `json:"blocks"`
	Groups   int      `json:"groups"`
	Replicas int      `json:"replicas"` // good ones
	Missing  int      `json:"missing"`  // replicas that groups lack, or that cannot be reached
	Corrupt  int      `json:"corrupt"`  // slices whose bytes are not those that were written
	Orphans  int      `json:"orphans"`  // extents, groups and replicas that nothing refers to
	Damaged  []string `json:"damaged"`  // where those are
	Errors   []string `json:"errors"`   // what must never be: records that lead nowhere
}

// Check looks at every record and every checksum. What is damaged is made anew afterwards, from another replica. What seems to be missing is looked at again, since it may have been
// removed meanwhile; orphans and replicas that groups lack are counted as they were at the beginning. progress is told of the groups done, and of how many there are.
func (f *Front) Check(ctx context.Context, progress func(done, of int)) (Report, error) {
	c := check{front: f, Report: Report{Damaged: []string{}, Errors: []string{}}, extents: map[maps.ExtentID]disk.GroupID{}, groups: map[disk.GroupID]group.Group{},
		used: map[maps.ExtentID]bool{}, holds: map[disk.GroupID]bool{}}
	for _, step := range []func(context.Context) error{c.readMaps, c.readBlocks, c.countOrphans} {
		if err := step(ctx); err != nil {
			return c.Report, err
		}
	}
	done := 0
	for id, g := range c.groups {
		if err := c.readGroup(ctx, id, g); err != nil {
			return c.Report, err
		}
		done++
		progress(done, len(c.groups))
	}
	err := c.readDisks(ctx)
	if err == nil {
		f.curation.note(Checked{At: f.o.Now().UTC().Truncate(time.Second), Missing: c.Missing, Corrupt: c.Corrupt, Orphans: c.Orphans, Errors: len(c.Errors)})
	}
	return c.Report, err
}

// Checked is what the last Check found, in numbers.
type Checked struct {
	At      time.Time `json:"at,omitzero"` // zero if there was none
	Missing int       `json:"missing"`
	Corrupt int       `json:"corrupt"`
	Orphans int       `json:"orphans"`
	Errors  int       `json:"errors"`
}

type check struct {
	Report
	front   *Front
	extents map[maps.ExtentID]disk.GroupID
	groups  map[disk.GroupID]group.Group
	used    map[maps.ExtentID]bool // by a block
	holds   map[disk.GroupID]bool  // an extent
}

func (c *check) wrong(format string, args ...any) {
	c.Errors = append(c.Errors, fmt.Sprintf(format, args...))
}

func (c *check) readMaps(ctx context.Context) error {
	for g, err := range c.front.maps.Groups(ctx) {
		if err != nil {
			return err
		}
		c.groups[g.ID] = g.Group
	}
	return c.front.maps.EachExtent(ctx, func(e maps.ExtentID, at maps.Extent) error {
		c.extents[e] = at.Group
		if g, there := c.groups[at.Group]; there && at.Packed != nil && !slices.Contains(g.Tenants, e) {
			c.wrong("extent %s is in group %s, which does not know of it", e, at.Group)
		}
		return nil
	})
}

// readBlocks follows every block down to its groups.
func (c *check) readBlocks(ctx context.Context) error {
	vdisks := map[disk.VDiskID]maps.VDisk{}
	for v, err := range c.front.maps.VDisks(ctx) {
		if err != nil {
			return err
		}
		vdisks[v.ID] = v
	}
	for id, v := range vdisks {
		if _, ok := vdisks[v.Parent]; v.Parent != 0 && !ok {
			c.wrong("vDisk %d has the parent %d, which is not there", id, v.Parent)
		}
	}
	return c.front.maps.EachBlock(ctx, func(id disk.VDiskID, block int64, b maps.Block) error {
		c.Blocks++
		if _, ok := vdisks[id]; !ok {
			c.wrong("block %d is of vDisk %d, which is not there", block, id)
		}
		for _, e := range b.Pile {
			at, ok := c.extents[e]
			_, there := c.groups[at]
			if ok && there {
				c.used[e], c.holds[at] = true, true
				continue
			}
			why, err := upkeep.LeadsNowhere(ctx, c.front.maps, upkeep.Use{VDisk: id, Block: block, Extent: e}) // or was changed meanwhile
			if err != nil {
				return err
			}
			if why != "" {
				c.wrong("%s", why)
			}
		}
		return nil
	})
}

func (c *check) countOrphans(context.Context) error {
	c.Groups = len(c.groups)
	for e := range c.extents {
		if !c.used[e] {
			c.Orphans++
		}
	}
	for id := range c.groups {
		if !c.holds[id] {
			c.Orphans++
		}
	}
	return nil
}

// readGroup reads every replica of a group.
func (c *check) readGroup(ctx context.Context, id disk.GroupID, g group.Group) error {
	if g.Dead {
		return nil
	}
	c.Missing += max(0, g.Wanted-len(g.Good))
	for _, on := range g.Good {
		bad, err := c.front.verify(ctx, on, id)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if still, again := c.stillHas(ctx, id, on); again != nil || !still {
				if again != nil {
					return again
				}
				continue
			}
			c.Missing++
			c.wrong("group %s on disk %s: %v", id, on, err)
			if errors.Is(err, disk.ErrNotFound) {
				c.front.noteDamage(id, on)
			}
		case len(bad) > 0:
			c.Corrupt += len(bad)
			for _, slice := range bad {
				c.Damaged = append(c.Damaged, fmt.Sprintf("vDisk %d: %v, on disk %s", g.VDisk, slice, on))
			}
			c.front.noteDamage(id, on)
		default:
			c.Replicas++
		}
	}
	return nil
}

// stillHas says whether a group still has a replica on a disk, by its record.
func (c *check) stillHas(ctx context.Context, id disk.GroupID, on cluster.DiskID) (bool, error) {
	g, _, err := c.front.maps.Group(ctx, id)
	if errors.Is(err, maps.ErrNotFound) {
		return false, nil
	}
	return err == nil && !g.Dead && slices.Contains(g.Good, on), err
}

func (f *Front) verify(ctx context.Context, on cluster.DiskID, id disk.GroupID) ([]*disk.SliceError, error) {
	f.pool.mu.Lock()
	d, ok := f.pool.disks[on]
	f.pool.mu.Unlock()
	if !ok {
		return nil, errAway
	}
	return d.Verify(ctx, id)
}

// readDisks counts replicas on disks that no group has.
func (c *check) readDisks(ctx context.Context) error {
	for id, d := range c.front.pool.all() {
		err := d.List(ctx, func(found disk.GroupID) error {
			g, ok := c.groups[found]
			known := ok && g.Building == id
			for _, on := range g.Good {
				known = known || on == id
			}
			if !known {
				c.Orphans++
			}
			return nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.wrong("the groups of disk %s cannot be listed: %v", id, err)
		}
	}
	return nil
}
