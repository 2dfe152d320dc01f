package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/fabric/tiering"
)

// MaxPacked is how many groups Pack takes at once.
const MaxPacked = 16

// MaxData is how many data shards a coded group may have.
const MaxData = 16

// A Form says how a packed group is kept.
type Form struct {
	Level pack.Level
	// Data is how many shards the bytes are cut into, 0 to keep them whole on each disk. As many disks may be lost as before in both forms.
	Data int
}

// A Saving says what Pack did.
type Saving struct {
	Groups        []disk.GroupID // that were made
	Before, After int64          // bytes that the groups took on all disks, and those that were made take
}

// Pack puts the extents of cold groups of one vDisk into packed groups, one filled after the other: those are written, synced and read back, each extent's record is changed, and the
// old groups are removed. Packed groups may be packed again, at a higher level or without the extents that are gone. Requests to the groups wait only for the last step. Where no space is saved, or a group
// was written meanwhile, Pack leaves all as it was and gives ErrMoot.
func (s *Space) Pack(ctx context.Context, ids []disk.GroupID, form Form) (Saving, error) {
	p := packing{space: s, form: form, shared: map[pack.Print]place{}}
	defer p.close()
	err := p.check(ids)
	for _, step := range []func(context.Context) error{p.begin, p.gather, p.write, p.commit} {
		if err == nil {
			err = step(ctx)
		}
	}
	var fence *disk.FenceError
	switch {
	case errors.Is(err, maps.ErrNotFound), errors.Is(err, group.ErrState), errors.Is(err, group.ErrDead), errors.As(err, &fence):
		err = ErrMoot
	}
	if err != nil {
		return Saving{}, fmt.Errorf("fabric: pack groups %v: %w", ids, err)
	}
	return p.saving, nil
}

// A packing is one call of Pack.
type packing struct {
	space   *Space
	form    Form
	vdisk   disk.VDiskID
	token   uint64
	sources []*source
	targets []*target
	shared  map[pack.Print]place // what is packed already
	spare   int                  // disks of the new groups that may be lost
	used    tiering.Access       // when the groups were last used
	saving  Saving
}

// A source is a group that is packed, as it was at the beginning.
type source struct {
	*liveGroup
	changed    uint64 // how often, by then
	generation uint64
	extents    []maps.LocatedExtent
}

// A place is where an extent is to be.
type place struct {
	in *target
	at maps.Extent
}

// check looks at what Pack was asked for.
func (p *packing) check(ids []disk.GroupID) error {
	if f := p.form; f.Level < pack.Fast || f.Level > pack.Best || f.Data < 0 || f.Data == 1 || f.Data > MaxData {
		return fmt.Errorf("%s and %d shards are no form: shards are 2 to %d, or 0", f.Level, f.Data, MaxData)
	}
	if len(ids) == 0 || len(ids) > MaxPacked {
		return fmt.Errorf("1 to %d groups can be packed together, not %d", MaxPacked, len(ids))
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return fmt.Errorf("group %s is named twice", id)
		}
		p.sources = append(p.sources, &source{liveGroup: p.space.pin(id)})
	}
	return nil
}

func (p *packing) close() {
	for _, g := range p.sources {
		if !g.parted { // else it must not be forgotten that it is
			p.space.unpin(g.liveGroup)
		}
	}
	for _, t := range p.targets {
		p.space.unpin(t.liveGroup)
	}
}

// lock gets the right to change the vDisk's groups and locks the sources.
func (p *packing) lock(ctx context.Context) (token uint64, unlock func(), err error) {
	token, done, err := p.space.authority(ctx, p.vdisk) // before the groups are locked, as who opens the vDisk does
	if err != nil {
		return 0, nil, err
	}
	var groups []*liveGroup
	for _, g := range p.sources {
		groups = append(groups, g.liveGroup)
	}
	for _, t := range p.targets {
		groups = append(groups, t.liveGroup)
	}
	unlocked := lockAll(groups...)
	return token, func() { unlocked(); done() }, nil
}

// begin finds what is in the groups. They must be whole, and of one vDisk.
func (p *packing) begin(ctx context.Context) error {
	for i, g := range p.sources {
		if err := g.prepare(ctx, nil); err != nil {
			return err
		}
		g.mu.RLock()
		v := g.rec.VDisk
		g.mu.RUnlock()
		if i > 0 && v != p.vdisk {
			return fmt.Errorf("group %s is of vDisk %d, and group %s of vDisk %d", p.sources[0].id, p.vdisk, g.id, v)
		}
		p.vdisk = v
	}
	token, unlock, err := p.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	p.token = token
	for _, g := range p.sources {
		if err := p.look(ctx, g); err != nil {
			return err
		}
	}
	return p.space.unmarkUnmade(ctx, p.vdisk)
}

// look notes how a group is. The group is locked.
func (p *packing) look(ctx context.Context, g *source) error {
	if err := g.load(ctx); err != nil {
		return err
	}
	if g.unsure || g.rec.State() != group.Whole {
		return ErrMoot
	}
	if err := g.finishOthers(ctx, p.token); err != nil {
		return err
	}
	g.raise() // who changed the list may have died before it did
	g.changed, g.generation = g.changesSoFar(), g.rec.Generation
	p.spare = max(p.spare, g.rec.Wanted-g.rec.Needs())
	used, err := p.space.Access(ctx, g.id)
	if err != nil {
		return err
	}
	p.used = p.used.And(used)
	taken, err := g.takes(ctx)
	p.saving.Before += taken
	if err == nil {
		g.extents, err = g.residents(ctx)
	}
	return err
}

// gather reads the extents and packs them into as many new groups as they need.
func (p *packing) gather(ctx context.Context) error {
	for _, g := range p.sources {
		for _, e := range g.extents {
			g.mu.RLock() // others may read and write meanwhile
			contents, err := g.contents(ctx, e.At)
			g.mu.RUnlock()
			if err == nil {
				err = p.add(ctx, e, contents)
			}
			if err != nil {
				return fmt.Errorf("extent %s: %w", e.ID, err)
			}
		}
	}
	for _, t := range p.targets {
		p.saving.Groups, p.saving.After = append(p.saving.Groups, t.id), p.saving.After+t.needs()
	}
	exposed := p.form.Data > 0 && p.spare == 0 // what needs one disk now would need several
	if len(p.targets) == 0 || p.saving.After >= p.saving.Before || exposed {
		return ErrMoot
	}
	return nil
}

// add packs an extent, unless an equal one is packed already.
func (p *packing) add(ctx context.Context, e maps.LocatedExtent, contents pack.Contents) error {
	print := contents.Print()
	if to, there := p.shared[print]; there && len(to.in.extents) < group.MaxTenants {
		to.in.take(e, to.at)
		return nil
	}
	index, packed := pack.Pack(contents, p.form.Level, nil)
	last := len(p.targets) - 1
	if last < 0 || !p.targets[last].fits(packed) {
		if err := p.newTarget(ctx); err != nil {
			return err
		}
		last++
	}
	t := p.targets[last]
	at := maps.Extent{Group: t.id, Packed: &maps.Packed{Offset: int64(len(t.image)), Index: index, Print: print}}
	t.image = append(t.image, packed...)
	t.take(e, at)
	p.shared[print] = place{t, at}
	return unpacks(at.Packed, t.image)
}

// newTarget begins a new group. It stays locked until Pack returns: nobody sweeps it, or finds it empty.
func (p *packing) newTarget(ctx context.Context) error {
	id, err := p.space.newGroupID(ctx)
	if err != nil {
		return err
	}
	t := &target{packing: p, liveGroup: p.space.pin(id)}
	p.targets = append(p.targets, t)
	return nil
}

// write makes the new groups on their disks. Until they have records nothing refers to them. Marks keep other fronts from sweeping them; what a crash leaves is swept
// when they are gone.
func (p *packing) write(ctx context.Context) error {
	for _, t := range p.targets {
		if err := t.make(ctx); err != nil {
			p.abandon(ctx)
			return err
		}
	}
	return nil
}

// abandon removes what was made of the new groups.
func (p *packing) abandon(ctx context.Context) {
	for _, t := range p.targets {
		t.each(t.on, func(ctx context.Context, d Disk) error { return d.Remove(ctx, t.id, 1) })
		_ = t.unmark(ctx, p.vdisk) // else the next Pack does
	}
}

// abandonUnmade is abandon for those of the new groups that surely have no record.
func (p *packing) abandonUnmade(ctx context.Context) {
	made := p.targets
	p.targets = slices.DeleteFunc(slices.Clone(made), func(t *target) bool {
		_, _, err := p.space.maps.Group(ctx, t.id)
		return !errors.Is(err, maps.ErrNotFound)
	})
	p.abandon(ctx)
	p.targets = made
}

// commit points the extents at the new groups and removes the old ones, unless one was written since.
func (p *packing) commit(ctx context.Context) error {
	if err := p.returnSpare(ctx); err != nil {
		p.abandon(ctx)
		return err
	}
	begun := time.Now()
	token, unlock, err := p.lock(ctx)
	if err != nil {
		p.abandon(ctx)
		return err
	}
	defer unlock()
	within, done, err := p.space.tenure(ctx, p.vdisk, begun)
	if err == nil {
		defer done()
		err = p.unchanged(within, token)
	}
	if err != nil {
		p.abandon(ctx)
		return err
	}
	if err := p.record(within); err != nil {
		return err
	}
	if err := p.switchOver(within); err != nil {
		return err
	}
	for _, t := range p.targets {
		p.space.accesses.note(t.id, p.used)
	}
	return p.removeEmptied(ctx)
}

// record makes the records of the new groups, or of none.
func (p *packing) record(ctx context.Context) error {
	for i, t := range p.targets {
		err := t.record(ctx)
		if err == nil {
			continue
		}
		for _, made := range p.targets[:i] {
			_, _ = made.removeEmpty(ctx) // else it is left empty
		}
		p.abandonUnmade(context.WithoutCancel(ctx))
		return err
	}
	return nil
}

// unchanged says whether the groups are as they were: nobody else had the vDisk's lease, and nobody here wrote to them. The groups are locked.
func (p *packing) unchanged(ctx context.Context, token uint64) error {
	if token > p.token+1 {
		return ErrMoot
	}
	for _, g := range p.sources {
		if err := g.load(ctx); err != nil {
			return err
		}
		if g.unsure || g.rec.State() != group.Whole || g.rec.Generation != g.generation || g.changesSoFar() != g.changed {
			return ErrMoot
		}
	}
	for _, t := range p.targets { // who has opened the vDisk since has taken the marks away, and sweepers what was marked
		mark, marked, err := p.space.maps.Marked(ctx, p.vdisk, t.id)
		if err != nil {
			return err
		}
		if !marked || mark.Version != t.made {
			return ErrMoot
		}
	}
	return nil
}

// switchOver changes where the extents are. All groups are locked.
func (p *packing) switchOver(ctx context.Context) error {
	for _, g := range p.sources {
		g.parted, g.marked = true, false // who writes next, if this fails halfway, looks which extents have left
	}
	for _, t := range p.targets {
		for i, e := range t.extents {
			err := p.space.maps.SetExtent(ctx, e.ID, t.places[i], e.Version)
			if err != nil && !errors.Is(err, maps.ErrChanged) { // else it was deleted since
				return err
			}
		}
	}
	return nil
}

// removeEmptied removes the groups that the extents were in. All groups are locked.
func (p *packing) removeEmptied(ctx context.Context) error {
	var errs []error
	for _, g := range p.sources {
		errs = append(errs, p.removeEmpty(ctx, g.liveGroup))
	}
	for _, t := range p.targets { // if all its extents were deleted
		errs = append(errs, p.removeEmpty(ctx, t.liveGroup))
	}
	return errors.Join(errs...)
}

func (p *packing) removeEmpty(ctx context.Context, g *liveGroup) error {
	g.forgetMask()
	removed, err := g.removeEmpty(ctx)
	if removed && err == nil {
		g.parted = false
		err = p.space.maps.Unmark(ctx, p.vdisk, g.id, p.space.marksOf(p.vdisk), g.mark)
	}
	return err
}

// returnSpare takes extents of the sources from the volume that has them to write to, if there is one. It gets others.
func (p *packing) returnSpare(ctx context.Context) error {
	p.space.mu.Lock()
	v := p.space.open[p.vdisk]
	p.space.mu.Unlock()
	if v == nil {
		return nil
	}
	v.gate.RLock()
	defer v.gate.RUnlock()
	v.allocating.Lock()
	defer v.allocating.Unlock()
	var keep, back []maps.ExtentID
	for _, e := range v.spare {
		if slices.ContainsFunc(p.sources, func(g *source) bool { return g.id == e.Group }) {
			back = append(back, e)
		} else {
			keep = append(keep, e)
		}
	}
	v.spare = keep
	for _, e := range back {
		if err := p.space.release(ctx, p.vdisk, e); err != nil {
			return err
		}
	}
	return nil
}

// takes is how many bytes a group takes on all disks. The group is locked.
func (g *liveGroup) takes(ctx context.Context) (sum int64, err error) {
	for _, id := range g.rec.Good {
		err := g.askOne(ctx, id, func(ctx context.Context, d Disk, _ uint64) error {
			info, err := d.Stat(ctx, g.id)
			sum += info.Allocated / disk.BlockSize * disk.BlockSize // without its header
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// unpacks says whether an extent can be read from the bytes of its group.
func unpacks(p *maps.Packed, image []byte) error {
	c := pack.Contents{Written: p.Index.Written, Data: make([]byte, disk.BlockSize)}
	err := unpack(p, 0, c.Data, func(offset int64, buf []byte) error { copy(buf, image[offset:]); return nil })
	if err == nil && c.Print() != p.Print {
		err = pack.ErrDamaged
	}
	return err
}

// contents reads an extent that is in the group. The group is locked.
func (g *liveGroup) contents(ctx context.Context, at maps.Extent) (pack.Contents, error) {
	c := pack.Contents{Data: make([]byte, disk.BlockSize)}
	if at.Packed != nil {
		c.Written = at.Packed.Index.Written
		err := unpack(at.Packed, 0, c.Data, func(offset int64, buf []byte) error { return g.readLocked(ctx, offset, buf) })
		if err == nil && c.Print() != at.Packed.Print {
			err = pack.ErrDamaged
		}
		return c, err
	}
	const perBlock = disk.BlockSize / disk.SliceSize
	first := int(at.Quarter) * perBlock
	err := g.eachRunOf(ctx, g.rec.Good, first, first+perBlock, func(offset int64, data []byte) error {
		within := offset % disk.BlockSize
		copy(c.Data[within:], data)
		for i := range len(data) / disk.SliceSize {
			c.Written.Add(int(within/disk.SliceSize) + i)
		}
		return nil
	})
	return c, err
}

// unpack fills buf with a part of a packed extent. get reads a part of its group.
func unpack(p *maps.Packed, within int64, buf []byte, get func(offset int64, buf []byte) error) error {
	first, last := int(within/pack.PieceSize), int((within+int64(len(buf))-1)/pack.PieceSize)
	start := p.Index.Start(first)
	packed := make([]byte, p.Index.Start(last+1)-start)
	if len(packed) > 0 {
		if err := get(p.Offset+start, packed); err != nil {
			return err
		}
	}
	piece := make([]byte, pack.PieceSize)
	for i := first; i <= last; i++ {
		n := p.Index.Lengths[i]
		if err := pack.Unpack(piece, packed[:n]); err != nil {
			return err
		}
		packed = packed[n:]
		skip := max(0, within-int64(i)*pack.PieceSize)
		buf = buf[copy(buf, piece[skip:]):]
	}
	return nil
}

// findLeft finds extents that were made in a group and are elsewhere now. The group is locked.
func (g *liveGroup) findLeft(ctx context.Context) error {
	made, err := g.space.maps.Extents(ctx, g.id)
	for _, e := range made {
		g.left[e.ID.Quarter] = e.At.Group != g.id
		if err == nil && e.At.Group == g.id { // a packing whose answer was lost is not to move it later
			err = g.space.maps.SetExtent(ctx, e.ID, e.At, e.Version)
		}
	}
	return err
}
