package upkeep

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"gleaner/curator"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/fabric/tiering"
	"gleaner/kv"
)

// A Form is how groups are packed: how hard it is tried, and into how many shards they are cut; 0 to keep whole replicas.
type Form struct {
	Level  pack.Level
	Shards int
}

// maxPacked is how many groups are packed at once: more find more that is equal, and keep requests waiting for longer.
const maxPacked = 8

// formFor is how a group is to be packed that was last used so long ago; false if it stays as it is.
func (p Policy) formFor(used, now tiering.Period) (Form, bool) {
	idle := now.Time().Sub(used.Time()).Hours()
	switch {
	case p.Repack > 0 && idle >= p.Repack:
		return Form{pack.Best, int(p.Shards)}, true
	case p.Pack > 0 && idle >= p.Pack:
		return Form{Level: pack.Fast}, true
	}
	return Form{}, false
}

// improves reports whether a group would take less space in a form.
func (f Form) improves(g group.Group) bool {
	return f.Level > pack.Level(g.Level) || f.Shards > g.Data
}

// mapLoose emits whole groups with how they are packed.
func mapLoose(r *kv.Record, out *curator.Pairs) error {
	g, err := maps.ReadGroup(r)
	if err == nil && g.State() == group.Whole {
		out.Emit(r.Key.Part, r.Value)
	}
	return err
}

// reduceLoose proposes groups that were not used for long and are not packed as such groups are to be.
func (s *Scan) reduceLoose(key []byte, values *curator.Values, propose func(task.Task)) error {
	used := tiering.Period(0)
	for values.Next() {
		if values.Table == maps.Accesses {
			used = tiering.Period(binary.BigEndian.Uint32(values.Bytes))
			continue
		}
		g, err := maps.ReadGroup(&kv.Record{Key: kv.Key{Part: key}, Value: values.Bytes})
		if err != nil {
			return err
		}
		view := &s.state.Load().view
		form, cold := s.Policy.formFor(used, view.Now)
		if !cold || !form.improves(g.Group) || view.dense(g.ID, used) {
			continue
		}
		propose(looseGroup(g, form, used))
	}
	return nil
}

// dense reports whether packing was of no use before, and the group was not used since.
func (v *View) dense(id disk.GroupID, used tiering.Period) bool {
	at, known := v.Dense[id]
	return known && used <= at
}

func lastUsed(used tiering.Period) string {
	if used == 0 {
		return "never used as far as is known"
	}
	return fmt.Sprintf("last used %s", used.Time().Format("2006-01-02 15:04:05"))
}

func looseGroup(g maps.NumberedGroup, form Form, used tiering.Period) task.Task {
	p := packing{g.VDisk, form, used, []disk.GroupID{g.ID}}
	return task.Task{Kind: loose, Priority: -int64(used), What: number(uint64(g.ID)), Seen: p.append(nil)}
}

// anytime is when groups were last used that are packed whether they are cold or not: others have left most of their space.
const anytime = tiering.Period(math.MaxUint32)

// A packing says which groups of a vDisk are packed, how, and when the last of them was used.
type packing struct {
	vdisk  disk.VDiskID
	form   Form
	used   tiering.Period
	groups []disk.GroupID
}

const packingBytes = 8 + 1 + 1 + 4

func (p packing) append(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, uint64(p.vdisk))
	out = append(out, byte(p.form.Level), byte(p.form.Shards))
	out = binary.BigEndian.AppendUint32(out, uint32(p.used))
	for _, id := range p.groups {
		out = binary.BigEndian.AppendUint64(out, uint64(id))
	}
	return out
}

func readPacking(b []byte) (p packing, err error) {
	if len(b) < packingBytes+8 || (len(b)-packingBytes)%8 != 0 {
		return p, fmt.Errorf("upkeep: %x does not say what is packed", b)
	}
	p = packing{vdisk: disk.VDiskID(binary.BigEndian.Uint64(b)), form: Form{pack.Level(b[8]), int(b[9])}, used: tiering.Period(binary.BigEndian.Uint32(b[10:]))}
	for b = b[packingBytes:]; len(b) > 0; b = b[8:] {
		p.groups = append(p.groups, disk.GroupID(binary.BigEndian.Uint64(b)))
	}
	return p, nil
}

func (p packing) task() task.Task {
	form := p.form.Level.String()
	if p.form.Shards > 0 {
		form += fmt.Sprintf(", %d shards", p.form.Shards)
	}
	why := fmt.Sprintf("%d of its groups take more space than they must (%s); %s", len(p.groups), form, lastUsed(p.used))
	if p.used == anytime {
		why = fmt.Sprintf("most extents of %d of its packed groups are gone", len(p.groups))
	}
	return task.Task{Job: Shrink, Kind: Pack, What: p.append(nil), Why: why}
}

// Packed gives the groups of a task to pack some, and when the last of them was used.
func Packed(t task.Task) (groups []disk.GroupID, used tiering.Period) {
	p, err := readPacking(t.What)
	if err != nil || t.Kind != Pack {
		return nil, 0
	}
	return p.groups, p.used
}

// takeLoose gathers groups of a vDisk that are to be packed alike.
func (p *Planner) takeLoose(t task.Task) ([]task.Task, error) {
	one, err := readPacking(t.Seen)
	if err != nil {
		return nil, err
	}
	key := looseKey{one.vdisk, one.form, one.used == anytime}
	all := p.loose[key]
	if all == nil {
		all = &one
		p.loose[key] = all
	} else {
		all.groups, all.used = append(all.groups, one.groups...), max(all.used, one.used)
	}
	if len(all.groups) < maxPacked {
		return nil, nil
	}
	delete(p.loose, key)
	return []task.Task{all.task()}, nil
}

type looseKey struct {
	vdisk disk.VDiskID
	form  Form
	hot   bool // they are packed though they may be
}

// mapPrint emits packed extents by their fingerprints.
func mapPrint(r *kv.Record, out *curator.Pairs) error {
	e, at, err := maps.ReadExtent(r)
	if err == nil && at.Packed != nil {
		out.Emit(at.Packed.Print[:], appendExtent(binary.BigEndian.AppendUint64(nil, uint64(at.Group)), e))
	}
	return err
}

// reducePrint proposes that equal extents in different groups share those of the first.
func reducePrint(_ []byte, values *curator.Values, propose func(task.Task)) error {
	var in disk.GroupID
	var keep maps.ExtentID
	for values.Next() {
		at, extents := disk.GroupID(binary.BigEndian.Uint64(values.Bytes)), values.Bytes[8:]
		e, err := readExtents(extents)
		if err != nil {
			return err
		}
		switch {
		case in == 0:
			in, keep = at, e[0]
		case at != in:
			propose(task.Task{Kind: Share, What: appendExtent(appendExtent(nil, keep), e[0]), Why: fmt.Sprintf("their bytes are equal, in groups %s and %s", in, at)})
		}
	}
	return nil
}

const extentBytes = 8 + 1

func appendExtent(out []byte, e maps.ExtentID) []byte {
	return append(binary.BigEndian.AppendUint64(out, uint64(e.Group)), e.Quarter)
}

func readExtents(b []byte) (all []maps.ExtentID, err error) {
	if len(b)%extentBytes != 0 {
		return nil, fmt.Errorf("upkeep: %x is no list of extents", b)
	}
	for e := range slices.Chunk(b, extentBytes) {
		all = append(all, maps.ExtentID{Group: disk.GroupID(binary.BigEndian.Uint64(e)), Quarter: e[8]})
	}
	return all, nil
}
