package volume

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// A block is 1 MiB of a vDisk as its volume sees it, through all its parents.
type block struct {
	number int64
	pins   int // of the volume's lock
	spans  spans

	mu      sync.Mutex // held while the pile is changed
	pile    []layer    // newest first
	own     maps.Block // what the vDisk itself has
	version kv.Version
	doubt   atomic.Bool // a change of its record failed: it may have been made, or come later
}

// A layer is an extent of a block.
type layer struct {
	extent    maps.ExtentID
	at        maps.Extent // where it is; found when first used
	located   bool
	own       bool // the vDisk itself has it
	inherited bool // and another has made it
}

// loadWindow is how many blocks are read from the maps together, a part of the block map: a long
// chain of snapshots is walked once for 1 GiB.
const loadWindow = maps.BlocksPerPart

// maxBlocks is how many blocks a volume remembers.
const maxBlocks = 64 << 10

// pin gives a block, which stays until it is unpinned.
func (v *Volume) pin(ctx context.Context, number int64) (*block, error) {
	for {
		v.mu.Lock()
		if b, ok := v.blocks[number]; ok {
			b.pins++
			v.mu.Unlock()
			return b, nil
		}
		v.mu.Unlock()
		if err := v.load(ctx, number/loadWindow*loadWindow); err != nil {
			return nil, err
		}
	}
}

func (v *Volume) unpin(b *block) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b.pins--
}

// load reads a window of blocks through the chain of parents.
func (v *Volume) load(ctx context.Context, first int64) error {
	v.loading.Lock() // one at a time: the others find it done
	defer v.loading.Unlock()
	v.mu.Lock()
	_, done := v.blocks[first]
	v.mu.Unlock()
	if done {
		return nil
	}
	window, err := v.walk(ctx, first, first+loadWindow)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.blocks) >= maxBlocks {
		v.forget()
	}
	for _, b := range window {
		v.blocks[b.number] = b
	}
	return nil
}

// walk reads blocks through the chain of parents. It begins with the farthest: what is merged meanwhile goes from a parent to its child, and is seen in one of them at least.
func (v *Volume) walk(ctx context.Context, first, end int64) ([]*block, error) {
	all := make([]*block, end-first)
	for i := range all {
		all[i] = &block{number: first + int64(i)}
	}
	for depth, member := range slices.Backward(v.chain) {
		end := min(end, blocksOf(member.reach))
		for next := first; next < end; {
			var err error
			next, err = v.space.maps.Blocks(ctx, member.id, next, end, func(number int64, b maps.Block, version kv.Version) error {
				w := all[number-first]
				if depth == 0 {
					w.own, w.version = b, version
				}
				w.pile = piled(b, depth == 0, w.pile)
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// piled puts what a vDisk has of a block on what is seen of its parents.
func piled(b maps.Block, own bool, below []layer) []layer {
	pile := make([]layer, 0, len(b.Pile)+len(below))
	for i, e := range b.Pile {
		pile = append(pile, layer{extent: e, own: own, inherited: i >= len(b.Pile)-b.Inherited})
	}
	for _, l := range below {
		if !b.Opaque && (b.Inherited == 0 || !slices.Contains(b.Pile, l.extent)) {
			pile = append(pile, l)
		}
	}
	return pile
}

// forget drops windows of blocks of which nobody uses one.
func (v *Volume) forget() {
	used := map[int64]bool{}
	for number, b := range v.blocks {
		if b.pins > 0 || b.doubt.Load() {
			used[number/loadWindow] = true
		}
	}
	for number := range v.blocks {
		if w := number / loadWindow; !used[w] && w%2 == v.turn {
			delete(v.blocks, number)
		}
	}
	v.turn = 1 - v.turn
}

// blocksOf is how many blocks hold so many bytes.
func blocksOf(bytes int64) int64 { return (bytes + disk.BlockSize - 1) / disk.BlockSize }

// layers gives the pile with every extent located. Extents of a parent that cannot be seen may be gone since the block was loaded, if it was merged: then the block is
// loaded again.
func (v *Volume) layers(ctx context.Context, b *block) ([]layer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := v.ascertain(ctx, b); err != nil {
		return nil, err
	}
	err := v.locate(ctx, b)
	if errors.Is(err, maps.ErrNotFound) {
		err = v.reload(ctx, b)
	}
	return b.pile, err
}

// changed notes how a change of a block's record ended. Where that is not known, the block is not used before it is ascertained: an answer may be lost, and the
// record say something else than is remembered here. The block is locked.
func (b *block) changed(err error) error {
	if err != nil && !errors.Is(err, maps.ErrChanged) {
		b.doubt.Store(true)
	}
	return err
}

// ascertain reads the record of a block of which a change failed, and writes it again as it is: then the change cannot come any more. One that is not there
// is written as one that says nothing. The block is locked.
func (v *Volume) ascertain(ctx context.Context, b *block) error {
	if !b.doubt.Load() {
		return nil
	}
	ctx, done, err := v.space.tenure(ctx, v.id, time.Now())
	if err != nil {
		return v.lost(err)
	}
	defer done()
	for {
		read, err := v.walk(ctx, b.number, b.number+1)
		if err != nil {
			return err
		}
		now := read[0]
		now.version, err = v.space.maps.SetBlock(ctx, v.id, b.number, now.own, now.version)
		if errors.Is(err, maps.ErrChanged) { // it came meanwhile
			continue
		}
		if err != nil {
			return err
		}
		b.pile, b.own, b.version = now.pile, now.own, now.version
		b.doubt.Store(false)
		return nil
	}
}

// ascertainAll ascertains all blocks, before the vDisk is another's or a snapshot. No request is under way.
func (v *Volume) ascertainAll(ctx context.Context) error {
	v.mu.Lock()
	var doubted []*block
	for _, b := range v.blocks {
		if b.doubt.Load() {
			doubted = append(doubted, b)
		}
	}
	v.mu.Unlock()
	for _, b := range doubted {
		b.mu.Lock()
		err := v.ascertain(ctx, b)
		b.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// reload finds a block's extents again. The block is locked.
func (v *Volume) reload(ctx context.Context, b *block) error {
	again, err := v.walk(ctx, b.number, b.number+1)
	if err != nil {
		return err
	}
	b.pile = again[0].pile // others read the old one
	return v.locate(ctx, b)
}

// locate finds the extents of a block. The block is locked.
func (v *Volume) locate(ctx context.Context, b *block) error {
	for i := range b.pile {
		l := &b.pile[i]
		if l.located {
			continue
		}
		at, _, err := v.space.maps.Extent(ctx, l.extent)
		if err != nil {
			return err
		}
		if l.inherited { // who opened the vDisk did not know of the one that made it
			v.space.doubtGroup(at.Group)
		}
		l.at, l.located = at, true
	}
	return nil
}

func (l layer) offset(within int64) int64 { return int64(l.at.Quarter)*disk.BlockSize + within }

// writable reports whether the vDisk may write to the extent.
func (l layer) writable() bool { return l.own && !l.inherited && l.at.Packed == nil }

// moved says whether a request failed because extents of the pile that it saw are elsewhere now, so that it is to be tried again. Extents leave their group
// when it is packed, and nobody tells the volumes.
func (v *Volume) moved(ctx context.Context, b *block, seen []layer, err error) bool {
	if !errors.Is(err, maps.ErrNotFound) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.reload(ctx, b) != nil {
		return false
	}
	return !slices.EqualFunc(b.pile, seen, func(a, b layer) bool { return a.extent == b.extent && a.at.Group == b.at.Group })
}

func (v *Volume) readBlock(ctx context.Context, b *block, within int64, buf []byte) error {
	for {
		pile, err := v.layers(ctx, b)
		switch {
		case err != nil:
		case len(pile) == 0:
			clear(buf)
		case len(pile) == 1:
			err = v.readLayer(ctx, pile[0], within, buf)
		default:
			err = v.readPile(ctx, pile, within, buf)
		}
		if !v.moved(ctx, b, pile, err) {
			return err
		}
	}
}

func (v *Volume) readLayer(ctx context.Context, l layer, within int64, buf []byte) error {
	g := v.space.pin(l.at.Group)
	defer v.space.unpin(g)
	if l.at.Packed == nil {
		return g.read(ctx, l.offset(within), buf)
	}
	return unpack(l.at.Packed, within, buf, func(offset int64, buf []byte) error { return g.read(ctx, offset, buf) })
}

// readPile reads each run of slices from the first layer that has it written.
func (v *Volume) readPile(ctx context.Context, pile []layer, within int64, buf []byte) error {
	for len(buf) > 0 {
		top, n, err := v.visible(ctx, pile, within, int64(len(buf)))
		if err != nil {
			return err
		}
		if top < 0 {
			clear(buf[:n])
		} else if err := v.readLayer(ctx, pile[top], within, buf[:n]); err != nil {
			return err
		}
		within, buf = within+n, buf[n:]
	}
	return nil
}

// visible finds the layer that the byte within is read from, -1 if none, and how many bytes from there on are.
func (v *Volume) visible(ctx context.Context, pile []layer, within, most int64) (top int, n int64, err error) {
	top = -1
	for n < most {
		t, err := v.topOf(ctx, pile, (within+n)/disk.SliceSize)
		if err != nil {
			return 0, 0, err
		}
		if n == 0 {
			top = t
		} else if t != top {
			break
		}
		n = min(most, n+disk.SliceSize-(within+n)%disk.SliceSize)
	}
	return top, n, nil
}

func (v *Volume) topOf(ctx context.Context, pile []layer, slice int64) (int, error) {
	for i, l := range pile {
		if l.at.Packed != nil {
			if l.at.Packed.Index.Written.Has(int(slice)) {
				return i, nil
			}
			continue
		}
		g := v.space.pin(l.at.Group)
		mask, err := g.has(ctx)
		v.space.unpin(g)
		if err != nil {
			return 0, err
		}
		if mask.Has(int(l.offset(0)/disk.SliceSize + slice)) {
			return i, nil
		}
	}
	return -1, nil
}

// fullTries is how often a write goes on in a new group because all disks of the last were full. What the pool knows of their room may be old.
const fullTries = 8

// writeBlock writes to the vDisk's own extent on top of the pile, and makes one where there is none.
func (v *Volume) writeBlock(ctx context.Context, b *block, within int64, data []byte, fua bool) error {
	for tries, anew := 0, false; ; {
		if err := v.ownTop(ctx, b, anew); err != nil {
			return err
		}
		pile, err := v.layers(ctx, b)
		if err == nil && !pile[0].writable() { // packed since
			continue
		}
		if err == nil {
			err = v.writeTop(ctx, pile, within, data, fua)
		}
		switch {
		case errors.Is(err, ErrNoSpace) && tries < fullTries: // on those disks; there may be others
			tries, anew = tries+1, true
		case v.moved(ctx, b, pile, err):
			anew = false
		default:
			return err
		}
	}
}

// writeTop writes to the vDisk's own extent on top of the pile.
func (v *Volume) writeTop(ctx context.Context, pile []layer, within int64, data []byte, fua bool) (err error) {
	if len(pile) > 1 { // what is under a slice is hidden once a part of it is written
		if within, data, err = v.wholeSlices(ctx, pile, within, data); err != nil {
			return err
		}
	}
	g := v.space.pin(pile[0].at.Group)
	defer v.space.unpin(g)
	fua = fua || v.space.o.SyncAlways
	if err := g.write(ctx, v, pile[0].offset(within), data, fua); err != nil || !fua {
		return err
	}
	return v.ripen(ctx, g)
}

// wholeSlices extends a write to whole slices by what can be read there.
func (v *Volume) wholeSlices(ctx context.Context, pile []layer, within int64, data []byte) (int64, []byte, error) {
	end := within + int64(len(data))
	from, to := within/disk.SliceSize*disk.SliceSize, (end+disk.SliceSize-1)/disk.SliceSize*disk.SliceSize
	if from == within && to == end {
		return within, data, nil
	}
	whole := make([]byte, to-from)
	if from < within {
		if err := v.readPile(ctx, pile, from, whole[:disk.SliceSize]); err != nil {
			return 0, nil, err
		}
	}
	if last := to - disk.SliceSize; to > end && (last > from || from == within) {
		if err := v.readPile(ctx, pile, last, whole[last-from:]); err != nil {
			return 0, nil, err
		}
	}
	copy(whole[within-from:], data)
	return from, whole, nil
}

// ownTop makes an extent on top of the pile unless the vDisk has one there that it may write to, and in a new group if asked to.
func (v *Volume) ownTop(ctx context.Context, b *block, anew bool) error {
	if _, err := v.layers(ctx, b); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pile) > 0 && b.pile[0].writable() && !anew {
		return nil
	}
	if len(b.own.Pile) == maps.MaxPile {
		return ErrNoSpace
	}
	e, err := v.allocate(ctx, anew, v.space.pool.Place)
	if err != nil {
		return err
	}
	own := maps.Block{Pile: append([]maps.ExtentID{e}, b.own.Pile...), Opaque: b.own.Opaque, Inherited: b.own.Inherited}
	version, err := v.space.maps.SetBlock(ctx, v.id, b.number, own, b.version)
	if b.changed(err) != nil {
		return v.lost(err)
	}
	b.own, b.version = own, version
	b.pile = append([]layer{{extent: e, at: maps.Extent{Group: e.Group, Quarter: e.Quarter}, located: true, own: true}}, b.pile...)
	return nil
}

// discard makes a whole block read as zeros and gives its space back.
func (v *Volume) discard(ctx context.Context, b *block) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := v.ascertain(ctx, b); err != nil || len(b.pile) == 0 {
		return err
	}
	gone := b.own.Pile
	within, done, err := v.space.tenure(ctx, v.id, time.Now())
	if err != nil {
		return v.lost(err)
	}
	defer done()
	if err := v.settle(within, b); err != nil {
		return v.lost(err)
	}
	if len(v.chain) > 1 {
		next := maps.Block{Opaque: true}
		version, err := v.space.maps.SetBlock(within, v.id, b.number, next, b.version)
		if b.changed(err) != nil {
			return v.lost(err)
		}
		b.own, b.version = next, version
	} else {
		if err := b.changed(v.space.maps.DeleteBlock(within, v.id, b.number, b.version)); err != nil {
			return v.lost(err)
		}
		b.own, b.version = maps.Block{}, kv.Version{}
	}
	b.pile = nil
	for _, e := range gone {
		if err := v.space.release(ctx, v.id, e); err != nil {
			return err
		}
	}
	return nil
}

// A StoredRange is a range of a volume that is stored in one way.
type StoredRange struct {
	Length int64
	Stored bool // else it reads as zeros and takes no space
}

// statusWindow is how many bytes Status looks at, so that others do not wait for it long.
const statusWindow = 16 * loadWindow * disk.BlockSize

// Status says how a range is stored, in at most so many runs from offset on, which may end before the range does.
func (v *Volume) Status(ctx context.Context, offset, length int64, most int) ([]StoredRange, error) {
	if err := v.enter(offset, length, false); err != nil {
		return nil, err
	}
	defer v.gate.RUnlock()
	var runs []StoredRange
	for end := min(offset+length, offset+statusWindow); offset < end; {
		n := min(end, (offset/disk.BlockSize+1)*disk.BlockSize) - offset
		b, err := v.pin(ctx, offset/disk.BlockSize)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		stored := len(b.pile) > 0
		b.mu.Unlock()
		v.unpin(b)
		if last := len(runs) - 1; last >= 0 && runs[last].Stored == stored {
			runs[last].Length += n
		} else if len(runs) == most {
			break
		} else {
			runs = append(runs, StoredRange{n, stored})
		}
		offset += n
	}
	return runs, nil
}
