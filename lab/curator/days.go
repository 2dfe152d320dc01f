package curator

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/upkeep"
	"gleaner/lab"
	"gleaner/lab/curator/virtual"
	"gleaner/placement"
	"gleaner/sim/datacenter"
	"gleaner/sim/disks"
	"gleaner/sim/storage"
)

// Three days of vDisks on the spare disks of a datacenter whose servers are reimaged. Every hour the oldest vDisk is removed and a new one is written, so that there
// is something to remove, to move and to rebuild. Nothing of this is the paper's.
const (
	threeDays     = 3 * 24 * time.Hour
	onSSD, onHDD  = 20, 80 // groups that fit on the disks of a server
	perVDisk      = 50     // groups
	inUse         = 0.6    // share of all disks that live data takes
	replicas      = 3
	everyRequest  = 5 * time.Second // of all vDisks together
	everyVDisk    = time.Hour
	everyLook     = time.Minute
	boot          = 10 * time.Minute // until a reimaged server is back, with empty disks
	halfDay       = 12 * time.Hour
	requestedSize = 8 << 10
)

// waves is a datacenter in which many servers are reimaged together within the three days, with seed wavy and 100 servers.
const waves, wavy = "DC-0", 4

// A HalfDay is what upkeep had to do in twelve hours.
type HalfDay struct {
	Reimages       int
	Rebuilt        int           // replicas
	Down, Balanced int           // replicas that were moved
	Gone           int           // vDisks that were removed
	Most, Least    int           // tasks that waited at a time
	Oldest         time.Duration // how long one waited at most
	Lost           int           // groups, since the beginning
}

// Days are three of them, in halves.
type Days struct {
	Servers, VDisks int
	Halves          []HalfDay
}

// days are Days on their way.
type days struct {
	fabric   *virtual.Fabric
	d        *datacenter.Datacenter
	rng      *rand.Rand
	vdisks   []disk.VDiskID // the oldest first
	reimages []datacenter.Reimage
	boots    []datacenter.Reimage // servers that are not back yet
	made     int                  // disks
	out      Days
	before   virtual.Upkeep // when the half day began
}

// ThreeDays simulates three days of a datacenter of so many servers.
func ThreeDays(ctx context.Context, servers int, seed uint64) (Days, error) {
	p, err := datacenter.Find(waves)
	if err != nil {
		return Days{}, err
	}
	d := datacenter.Generate(p, datacenter.Options{Servers: servers, Past: 1, Days: 4, Seed: seed})
	c := &days{d: d, rng: rand.New(rand.NewPCG(seed, 0)), out: Days{Servers: servers, VDisks: int(inUse * float64(servers*(onSSD+onHDD)/(replicas*perVDisk)))}}
	for _, r := range d.Reimages {
		if !r.At.Before(d.Now) && r.At.Before(d.Now.Add(threeDays)) {
			c.reimages = append(c.reimages, r)
		}
	}
	if c.fabric, err = spareDisks(ctx, d, seed); err != nil {
		return Days{}, err
	}
	for i := range d.Servers {
		c.addDisks(int32(i))
	}
	for range c.out.VDisks {
		if err := c.write(ctx, 0); err != nil {
			return Days{}, err
		}
	}
	if err := c.run(ctx); err != nil {
		return Days{}, err
	}
	return c.out, nil
}

// spareDisks is a fabric of the datacenter's servers, without disks.
func spareDisks(ctx context.Context, d *datacenter.Datacenter, seed uint64) (*virtual.Fabric, error) {
	o := virtual.Options{Start: d.Now, Faster: 1, Tiers: []cluster.Tier{ssd, hdd}, Policy: upkeep.Default(), Seed: seed,
		Busy: func(s placement.ServerIndex, now time.Time) bool {
			return d.CPU(int(s), d.SlotAt(now)) > storage.BusyAbove
		}}
	for _, t := range d.Tenants {
		o.Owners = append(o.Owners, placement.Tenant{Environment: t.Environment, Function: t.Function})
	}
	for i, s := range d.Servers {
		o.Servers = append(o.Servers, placement.Server{Tenant: placement.TenantIndex(d.Owner[i]), Rack: s.Rack})
	}
	return virtual.New(ctx, o)
}

// addDisks puts new disks into a server.
func (c *days) addDisks(server int32) {
	c.made++
	add := func(tier cluster.Tier, kind disks.Kind, groups int64) {
		kind.Capacity = groups * disk.GroupSize
		c.fabric.AddDisk(cluster.DiskID(fmt.Sprintf("%s-%d", tier, c.made)), placement.ServerIndex(server), tier, kind)
	}
	add(ssd, disks.SSD(), onSSD)
	add(hdd, disks.HDD(), onHDD)
}

// write makes a vDisk and writes it.
func (c *days) write(ctx context.Context, at time.Duration) error {
	id, err := c.fabric.Create(ctx, perVDisk*disk.GroupSize, replicas)
	if err != nil {
		return err
	}
	c.vdisks = append(c.vdisks, id)
	for offset := int64(0); offset < perVDisk*disk.GroupSize; offset += disk.GroupSize {
		if _, err := c.fabric.Write(ctx, at, id, offset, disk.GroupSize); err != nil {
			return err
		}
	}
	return nil
}

func (c *days) run(ctx context.Context) error {
	c.before = c.fabric.Upkeep(0)
	c.out.Halves = []HalfDay{{Least: math.MaxInt}}
	for at := everyRequest; at <= threeDays; at += everyRequest {
		c.reimage(c.d.Now.Add(at))
		if at%everyVDisk == 0 {
			if err := c.replace(ctx, at); err != nil {
				return err
			}
		}
		if err := c.request(ctx, at); err != nil {
			return err
		}
		if at%everyLook == 0 {
			c.look(at)
		}
	}
	return nil
}

// reimage takes the disks out of servers that are reimaged, and puts new ones into those that are back.
func (c *days) reimage(now time.Time) {
	half := &c.out.Halves[len(c.out.Halves)-1]
	for ; len(c.reimages) > 0 && !c.reimages[0].At.After(now); c.reimages = c.reimages[1:] {
		c.fabric.Pull(placement.ServerIndex(c.reimages[0].Server))
		c.boots = slices.DeleteFunc(c.boots, func(r datacenter.Reimage) bool { return r.Server == c.reimages[0].Server }) // it begins anew
		c.boots = append(c.boots, c.reimages[0])
		half.Reimages++
	}
	for ; len(c.boots) > 0 && now.Sub(c.boots[0].At) >= boot; c.boots = c.boots[1:] {
		c.addDisks(c.boots[0].Server)
	}
}

// replace removes the oldest vDisk and writes another.
func (c *days) replace(ctx context.Context, at time.Duration) error {
	if err := c.fabric.Remove(ctx, c.vdisks[0]); err != nil {
		return err
	}
	c.vdisks = c.vdisks[1:]
	return c.write(ctx, at)
}

// request reads or writes a little of some vDisk.
func (c *days) request(ctx context.Context, at time.Duration) error {
	id, offset := c.vdisks[c.rng.IntN(len(c.vdisks))], c.rng.Int64N(perVDisk*disk.GroupSize/requestedSize)*requestedSize
	do := c.fabric.Read
	if c.rng.IntN(2) == 0 {
		do = c.fabric.Write
	}
	_, err := do(ctx, at, id, offset, requestedSize)
	return err
}

// look notes what waits, and begins another half day if it is time.
func (c *days) look(at time.Duration) {
	half, u := &c.out.Halves[len(c.out.Halves)-1], c.fabric.Upkeep(at)
	half.Most, half.Least, half.Oldest, half.Lost = max(half.Most, u.Waiting), min(half.Least, u.Waiting), max(half.Oldest, u.Oldest), u.Lost
	if at%halfDay != 0 {
		return
	}
	did := func(kind string) int { return u.Done[kind] - c.before.Done[kind] }
	half.Rebuilt, half.Down, half.Balanced, half.Gone = did(upkeep.Rebuild), did(upkeep.TierDown), did(upkeep.Balance), did(upkeep.RemoveVDisk)
	c.before = u
	if at < threeDays {
		c.out.Halves = append(c.out.Halves, HalfDay{Least: math.MaxInt})
	}
}

// Table lists the half days.
func (d Days) Table() lab.Table {
	t := lab.Table{Name: "curator-days", Title: fmt.Sprintf("Upkeep of %d vDisks on %d servers that are reimaged: what waits to be done", d.VDisks, d.Servers),
		Columns: []string{"hours", "reimages", "replicas rebuilt", "moved down", "balanced", "vDisks removed", "tasks waiting (most)", "(least)", "longest wait", "groups lost"},
		Notes:   []string{"servers and reimages as 'gleaner generate --datacenter DC-0' makes them; every hour a vDisk is removed and another written"}}
	for i, h := range d.Halves {
		t.Add(fmt.Sprintf("%d to %d", 12*i, 12*i+12), h.Reimages, h.Rebuilt, h.Down, h.Balanced, h.Gone, h.Most, h.Least, h.Oldest.Round(time.Second), h.Lost)
	}
	return t
}
