package upkeep

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"gleaner/cluster"
	"gleaner/curator"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/fabric/tiering"
	"gleaner/kv"
)

// The jobs of a scan, by which a user asks for some of them.
const (
	Disks    = "disks"    // disks that are away
	Retired  = "retired"  // replicas on disks that are to be emptied
	Replicas = "replicas" // groups that lack replicas, or were left in the midst of an operation
	VDisks   = "vdisks"   // vDisks that nothing needs
	Blocks   = "blocks"   // blocks beyond the end of their vDisk
	Piles    = "piles"    // blocks that are made of several extents
	Space    = "space"    // extents and groups that nothing needs or that are mostly garbage, and records that lead nowhere
	Cold     = "cold"     // groups to be moved off full disks
	Shrink   = "shrink"   // groups to be compressed, because they were not used for long
	Equal    = "equal"    // packed extents with the same bytes
)

// Partial are the jobs that do not read the whole block map.
func Partial() []string { return []string{Disks, Retired, Replicas, VDisks, Cold} }

// All are all jobs.
func All() []string {
	return []string{Disks, Retired, Replicas, VDisks, Blocks, Piles, Space, Cold, Shrink, Equal}
}

// A Scan has the jobs, and what they know beside the maps. View is set before each scan.
type Scan struct {
	Policy Policy
	state  atomic.Pointer[state]
}

type state struct {
	view    View
	needs   *needs
	retired bool                    // some disk is
	tight   map[cluster.DiskID]bool // disks of tiers that are too full
}

// See tells the jobs how the disks are now, and gives the planner for the proposals of the next scan.
func (s *Scan) See(v View) *Planner {
	n := v.needs(s.Policy)
	s.state.Store(&state{v, n, v.anyRetired(), v.tight(s.Policy)})
	p := &Planner{view: v, needs: v.needs(s.Policy), emptier: map[cluster.Tier][]cluster.DiskID{}, roomy: map[cluster.Tier][]cluster.DiskID{},
		gathered: map[disk.VDiskID]*gathering{}, loose: map[looseKey]*packing{}}
	for _, tier := range v.Tiers {
		p.emptier[tier], p.roomy[tier] = v.Targets(tier), v.roomy(tier)
	}
	return p
}

// Due reports whether a threshold is passed.
func (s *Scan) Due(v View) bool { return !v.needs(s.Policy).none() }

// Jobs gives the jobs. See is called before they are scanned.
func (s *Scan) Jobs() []curator.Job {
	return []curator.Job{
		{Name: Disks, Version: 1, Inputs: []curator.Input{{Table: maps.Groups, Map: s.mapAway}}, Reduce: reduceAway},
		{Name: Retired, Version: 1, Inputs: []curator.Input{{Table: maps.Groups, Filters: []func(*kv.Record) bool{s.anyRetired}, Map: s.mapRetired}}, Reduce: s.reduceRetired},
		{Name: Replicas, Version: 1, Inputs: []curator.Input{{Table: maps.Groups, Map: mapUnfinished}}, Reduce: reduceUnfinished},
		{Name: VDisks, Version: 2, Inputs: []curator.Input{{Table: maps.Names, Map: mapName}, {Table: maps.VDisks, Map: mapVDisk}}, Reduce: reduceVDisk},
		{Name: Blocks, Version: 1, Inputs: []curator.Input{{Table: maps.Blocks, Map: s.mapBeyond}}, Reduce: reduceBeyond},
		{Name: Piles, Version: 1, Inputs: []curator.Input{{Table: maps.Blocks, Map: s.mapPile}}, Reduce: reducePile},
		{Name: Space, Version: 1, Inputs: []curator.Input{{Table: maps.Blocks, Map: mapBlock}, {Table: maps.Extents, Map: mapExtent}, {Table: maps.Groups, Map: mapGroup}}, Reduce: s.reduceSpace},
		{Name: Cold, Version: 1, Inputs: []curator.Input{{Table: maps.Accesses, Filters: []func(*kv.Record) bool{s.needed}, Map: mapAccess},
			{Table: maps.Groups, Filters: []func(*kv.Record) bool{s.needed}, Map: s.mapCold}}, Reduce: reduceCold},
		{Name: Shrink, Version: 1, Inputs: []curator.Input{{Table: maps.Accesses, Map: mapAccess}, {Table: maps.Groups, Map: mapLoose}}, Reduce: s.reduceLoose},
		{Name: Equal, Version: 1, Inputs: []curator.Input{{Table: maps.Extents, Map: mapPrint}}, Reduce: reducePrint},
	}
}

// mapAway emits the disks that hold replicas and cannot be had.
func (s *Scan) mapAway(r *kv.Record, out *curator.Pairs) error {
	g, err := maps.ReadGroup(r)
	if err != nil {
		return err
	}
	on := g.Good
	if g.Dead && g.Building != "" { // what was copied there is to be removed too
		on = append(slices.Clone(on), g.Building)
	}
	for _, d := range on {
		if _, here := s.state.Load().view.Disks[d]; !here {
			out.Emit([]byte(d), nil)
		}
	}
	return nil
}

func reduceAway(key []byte, values *curator.Values, propose func(task.Task)) error {
	n := 0
	for values.Next() {
		n++
	}
	propose(task.Task{Kind: LoseDisk, Priority: first, What: slices.Clone(key), Why: fmt.Sprintf("it is away and has %d replicas", n)})
	return nil
}

// Tasks that restore what is lost are handed over first.
const first = math.MaxInt32

// anyRetired passes all records if a disk is to be emptied.
func (s *Scan) anyRetired(*kv.Record) bool { return s.state.Load().retired }

// mapRetired emits whole groups that have a replica on a disk which is to be emptied.
func (s *Scan) mapRetired(r *kv.Record, out *curator.Pairs) error {
	g, err := maps.ReadGroup(r)
	if err != nil || g.State() != group.Whole {
		return err
	}
	if slices.ContainsFunc(g.Good, func(d cluster.DiskID) bool { return s.state.Load().view.Disks[d].Retired }) {
		out.Emit(r.Key.Part, r.Value)
	}
	return nil
}

func (s *Scan) reduceRetired(key []byte, values *curator.Values, propose func(task.Task)) error {
	g, err := readGroup(key, values)
	if err != nil {
		return err
	}
	view := &s.state.Load().view
	for _, d := range g.Good {
		if view.Disks[d].Retired {
			propose(task.Task{Kind: Evacuate, What: append(slices.Clone(key), d...), Seen: move{anytime, view.Disks[d].Tier}.append(nil), Why: "the disk is retired"})
		}
	}
	return nil
}

// mapUnfinished emits groups that are not whole.
func mapUnfinished(r *kv.Record, out *curator.Pairs) error {
	g, err := maps.ReadGroup(r)
	if err == nil && g.State() != group.Whole {
		out.Emit(r.Key.Part, r.Value)
	}
	return err
}

func reduceUnfinished(key []byte, values *curator.Values, propose func(task.Task)) error {
	g, err := readGroup(key, values)
	if err != nil {
		return err
	}
	t := task.Task{Priority: first, What: slices.Clone(key)}
	switch g.State() {
	case group.Degraded, group.Repairing:
		t.Kind, t.Why = Rebuild, fmt.Sprintf("it has %d of %d replicas", len(g.Good), g.Wanted)
		t.Priority += int64(g.Wanted - len(g.Good))
	case group.Moving:
		t.Kind, t.Why = RollBack, fmt.Sprintf("it was being moved to disk %s", g.Building)
	case group.Dead:
		t.Kind, t.Why = RemoveGroup, "it is dead"
	default:
		return nil
	}
	propose(t)
	return nil
}

func readGroup(key []byte, values *curator.Values) (maps.NumberedGroup, error) {
	values.Next()
	return maps.ReadGroup(&kv.Record{Key: kv.Key{Part: key}, Value: values.Bytes})
}

func mapName(r *kv.Record, out *curator.Pairs) error {
	name, id, err := maps.ReadName(r)
	if err == nil {
		out.Emit(number(uint64(id)), []byte(name))
	}
	return err
}

// mapVDisk emits a vDisk, and to its parent that it has a child.
func mapVDisk(r *kv.Record, out *curator.Pairs) error {
	v, err := maps.ReadVDisk(r)
	if err != nil {
		return err
	}
	out.Emit(r.Key.Part, append([]byte{itselfTag}, r.Value...))
	if v.Parent != 0 {
		out.Emit(number(uint64(v.Parent)), append([]byte{childTag}, r.Value...))
	}
	return nil
}

// What the vDisks job emits of a record of the vDisk map: for the vDisk itself, and for its parent.
const (
	itselfTag = iota
	childTag
)

// reduceVDisk finds vDisks that were removed, or that no name leads to: those that nothing is read through, and those that one other is.
func reduceVDisk(key []byte, values *curator.Values, propose func(task.Task)) error {
	var names []string
	var v, child maps.VDisk
	children := 0
	for values.Next() {
		if values.Table == maps.Names {
			names = append(names, string(values.Bytes))
			continue
		}
		of, err := maps.ReadVDisk(&kv.Record{Key: kv.Key{Part: key}, Value: values.Bytes[1:]})
		if err != nil {
			return err
		}
		if values.Bytes[0] == childTag {
			child, children = of, children+1
		} else {
			v = of
		}
	}
	t := task.Task{Kind: RemoveVDisk, What: slices.Clone(key)}
	switch {
	case v.ID == 0:
		return nil // a name that a crash left
	case children == 1 && v.Removed && !child.Removed:
		t.Kind, t.Seen, t.Why = Merge, heir{child.ID, child.Snapshot}.append(nil), fmt.Sprintf("%s was removed, and only %s is read through it", v.Name, child.Name)
	case v.Removed && children > 0:
		return nil
	case v.Removed:
		t.Why = fmt.Sprintf("%s was removed", v.Name)
	case !slices.Contains(names, v.Name):
		t.Why = "no name leads to it"
	default:
		return nil
	}
	propose(t)
	return nil
}

// mapBeyond emits the vDisks of blocks that a shrink has left when it was interrupted.
func (s *Scan) mapBeyond(r *kv.Record, out *curator.Pairs) error {
	id, block, _, err := maps.ReadBlock(r)
	if v, known := s.state.Load().view.VDisks[id]; known && block >= v.Blocks {
		out.Emit(number(uint64(id)), nil)
	}
	return err
}

func reduceBeyond(key []byte, _ *curator.Values, propose func(task.Task)) error {
	propose(task.Task{Kind: RemoveBlocks, What: slices.Clone(key), Why: "it has blocks beyond its end"})
	return nil
}

// mapPile emits the blocks of a vDisk that have several extents of their own.
func (s *Scan) mapPile(r *kv.Record, out *curator.Pairs) error {
	id, block, b, err := maps.ReadBlock(r)
	if v, known := s.state.Load().view.VDisks[id]; err == nil && len(b.Pile) > 1 && known && !v.Fixed {
		out.Emit(number(uint64(id)), number(uint64(block)))
	}
	return err
}

// mostFlattened is how many blocks a task flattens.
const mostFlattened = 64

func reducePile(key []byte, values *curator.Values, propose func(task.Task)) error {
	var blocks []byte
	flush := func() {
		n := len(blocks) / 8
		propose(task.Task{Kind: Flatten, What: append(slices.Clone(key), blocks...), Why: fmt.Sprintf("%d of its blocks are made of several extents", n)})
		blocks = nil
	}
	for values.Next() {
		if blocks = append(blocks, values.Bytes...); len(blocks) == 8*mostFlattened {
			flush()
		}
	}
	if len(blocks) > 0 {
		flush()
	}
	return nil
}

// What the space job emits for a group: a use of an extent that was made in it, an extent that was made in it, or one that is in it; and the
// group's record, from its own table.
const (
	usedTag = iota
	madeTag
	heldTag
)

func mapBlock(r *kv.Record, out *curator.Pairs) error {
	id, block, b, err := maps.ReadBlock(r)
	if err != nil {
		return err
	}
	for _, e := range b.Pile {
		out.Emit(number(uint64(e.Group)), Use{id, block, e}.append([]byte{usedTag}))
	}
	return nil
}

func mapExtent(r *kv.Record, out *curator.Pairs) error {
	e, at, err := maps.ReadExtent(r)
	if err != nil {
		return err
	}
	out.Emit(number(uint64(e.Group)), []byte{madeTag, e.Quarter})
	out.Emit(number(uint64(at.Group)), binary.BigEndian.AppendUint64([]byte{heldTag, e.Quarter}, uint64(e.Group)))
	return nil
}

func mapGroup(r *kv.Record, out *curator.Pairs) error {
	out.Emit(r.Key.Part, r.Value)
	return nil
}

// A census is what the maps say of a group.
type census struct {
	uses []Use
	made [maps.ExtentsPerGroup]bool
	held []maps.ExtentID
	rec  maps.NumberedGroup // zero if there is no record
}

func takeCensus(key []byte, values *curator.Values) (c census, err error) {
	for values.Next() {
		b := values.Bytes
		switch {
		case values.Table == maps.Groups:
			c.rec, err = maps.ReadGroup(&kv.Record{Key: kv.Key{Part: key}, Value: b})
		case b[0] == usedTag:
			var use []Use
			use, err = readUses(b[1:])
			c.uses = append(c.uses, use...)
		case b[0] == madeTag:
			c.made[b[1]] = true
		case b[0] == heldTag:
			c.held = append(c.held, maps.ExtentID{Group: disk.GroupID(binary.BigEndian.Uint64(b[2:])), Quarter: b[1]})
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

func (s *Scan) reduceSpace(key []byte, values *curator.Values, propose func(task.Task)) error {
	c, err := takeCensus(key, values)
	if err != nil {
		return err
	}
	used := [maps.ExtentsPerGroup]bool{}
	for _, u := range c.uses {
		used[u.Extent.Quarter] = true
		if !c.made[u.Extent.Quarter] {
			propose(extentMissing(u))
		}
	}
	if c.rec.ID == 0 {
		for _, e := range c.held {
			propose(task.Task{Kind: Finding, What: Use{Extent: e}.append(nil), Why: fmt.Sprintf("extent %s is in group %s, which is not there", e, numberOf(key))})
		}
	}
	for e := range s.state.Load().view.Spare {
		if e.Group == numberOf(key) {
			used[e.Quarter] = true
		}
	}
	if t, ok := c.remove(key, used); ok {
		propose(t)
		return nil
	}
	if t, ok := c.tailed(); ok {
		propose(t)
	}
	if t, ok := c.sparse(s.state.Load().tight); ok && !s.state.Load().view.VDisks[c.uses[0].VDisk].Fixed {
		propose(t)
	} else if t, ok := c.thinned(); ok && !s.state.Load().view.dense(c.rec.ID, anytime) {
		propose(t)
	}
	return nil
}

func numberOf(key []byte) disk.GroupID { return disk.GroupID(binary.BigEndian.Uint64(key)) }

// remove proposes to remove what nothing refers to: extents that were made in the group, be it gone since or not, and then the group if none is in it.
func (c *census) remove(key []byte, used [maps.ExtentsPerGroup]bool) (t task.Task, ok bool) {
	t.What = slices.Clone(key)
	for q, made := range c.made {
		if made && !used[q] {
			t.Seen = append(t.Seen, byte(q))
		}
	}
	switch {
	case len(t.Seen) > 0:
		t.Kind, t.Why = RemoveExtents, fmt.Sprintf("no block refers to %d of its extents", len(t.Seen))
	case c.rec.ID != 0 && len(c.held) == 0:
		t.Kind, t.Why = RemoveGroup, "it has no extents"
	default:
		return t, false
	}
	return t, true
}

// sparse proposes a group of which more is dead than alive, without its tail: to move what is alive costs less than it frees (NSDI'17 §3.2.3). Where space is short, any that
// has something dead is proposed.
func (c *census) sparse(tight map[cluster.DiskID]bool) (t task.Task, ok bool) {
	live := len(c.held)
	dead := maps.ExtentsPerGroup - c.tail() - live
	if c.rec.ID == 0 || c.rec.Packed() || c.rec.State() != group.Whole || dead == 0 || len(c.uses) != live {
		return t, false
	}
	if short := slices.ContainsFunc(c.rec.Good, func(d cluster.DiskID) bool { return tight[d] }); dead <= live && !short {
		return t, false
	}
	t = task.Task{Kind: sparse, What: number(uint64(c.rec.ID)), Why: fmt.Sprintf("%d of its %d extents are dead", dead, dead+live)}
	for _, u := range c.uses {
		if u.VDisk != c.uses[0].VDisk || !slices.Contains(c.held, u.Extent) { // it has left the group
			return t, false
		}
		t.Seen = u.append(t.Seen)
	}
	return t, true
}

// tailed proposes a group whose last extents are dead. It costs no copy to give their blocks back.
func (c *census) tailed() (t task.Task, ok bool) {
	lost := slices.ContainsFunc(c.uses, func(u Use) bool { return !c.made[u.Extent.Quarter] }) // whoever mends that may need the bytes
	if c.rec.ID == 0 || c.rec.Packed() || c.rec.State() != group.Whole || len(c.held) == 0 || lost {
		return t, false
	}
	n := c.tail()
	return task.Task{Kind: Truncate, What: number(uint64(c.rec.ID)), Why: fmt.Sprintf("its last blocks are dead, %d of %d", n, maps.ExtentsPerGroup)}, n > c.rec.Cut
}

// tail is how many extents at the end of the group are dead.
func (c *census) tail() int {
	n := maps.ExtentsPerGroup
	for _, e := range c.held {
		n = min(n, maps.ExtentsPerGroup-1-int(e.Quarter))
	}
	return n
}

// thinned proposes a packed group of which more than half of the extents are gone, to be packed again without them.
func (c *census) thinned() (t task.Task, ok bool) {
	if c.rec.ID == 0 || !c.rec.Packed() || c.rec.State() != group.Whole || 2*len(c.held) >= len(c.rec.Tenants) {
		return t, false
	}
	return looseGroup(c.rec, Form{pack.Level(c.rec.Level), c.rec.Data}, anytime), true
}

// needed passes all records if some disk is to hold less.
func (s *Scan) needed(*kv.Record) bool { return !s.state.Load().needs.none() }

func mapAccess(r *kv.Record, out *curator.Pairs) error {
	_, a, err := maps.ReadAccess(r)
	if err != nil {
		return nil // as good as none: it is written anew
	}
	out.Emit(r.Key.Part, binary.BigEndian.AppendUint32(nil, uint32(max(a.Read, a.Written))))
	return nil
}

// mapCold emits whole groups that have a replica on a disk which is to hold less.
func (s *Scan) mapCold(r *kv.Record, out *curator.Pairs) error {
	g, err := maps.ReadGroup(r)
	if err != nil || g.State() != group.Whole {
		return err
	}
	now := s.state.Load()
	if slices.ContainsFunc(g.Good, func(d cluster.DiskID) bool { return now.needs.of(now.view, d) != nil }) {
		out.Emit(r.Key.Part, r.Value)
	}
	return nil
}

// reduceCold proposes a group with its disks: the longer ago it was used, the earlier.
func reduceCold(key []byte, values *curator.Values, propose func(task.Task)) error {
	used := tiering.Period(0)
	for values.Next() {
		if values.Table == maps.Accesses {
			used = tiering.Period(binary.BigEndian.Uint32(values.Bytes))
			continue
		}
		propose(task.Task{Kind: cold, Priority: -int64(used), What: slices.Clone(key), Seen: slices.Clone(values.Bytes), Why: lastUsed(used)})
	}
	return nil
}
