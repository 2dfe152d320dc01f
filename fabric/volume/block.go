package volume

import (
	"context"
	"errors"
	"sync"

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
}

// A layer is an extent of a block.
type layer struct {
	extent  maps.ExtentID
	at      maps.Extent // where it is; found when first used
	located bool
	own     bool // made by this vDisk, and may be written
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
	window, opaque := make([]*block, loadWindow), make([]bool, loadWindow)
	for i := range window {
		window[i] = &block{number: first + int64(i)}
	}
	for depth, member := range v.chain {
		end := min(first+loadWindow, blocksOf(member.reach))
		for next := first; next < end; {
			var err error
			next, err = v.space.maps.Blocks(ctx, member.id, next, end, func(number int64, b maps.Block, version kv.Version) error {
				w := window[number-first]
				if depth == 0 {
					w.own, w.version = b, version
				}
				if opaque[number-first] {
					return nil
				}
				for _, e := range b.Pile {
					w.pile = append(w.pile, layer{extent: e, own: depth == 0})
				}
				opaque[number-first] = b.Opaque
				return nil
			})
			if err != nil {
				return err
			}
		}
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

// forget drops windows of blocks of which nobody uses one.
func (v *Volume) forget() {
	used := map[int64]bool{}
	for number, b := range v.blocks {
		if b.pins > 0 {
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

// layers gives the pile with every extent located.
func (v *Volume) layers(ctx context.Context, b *block) ([]layer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.pile {
		l := &b.pile[i]
		if l.located {
			continue
		}
		at, _, err := v.space.maps.Extent(ctx, l.extent)
		if err != nil {
			return nil, err
		}
		l.at, l.located = at, true
	}
	return b.pile, nil
}

func (l layer) offset(within int64) int64 { return int64(l.at.Quarter)*disk.BlockSize + within }

func (v *Volume) readBlock(ctx context.Context, b *block, within int64, buf []byte) error {
	pile, err := v.layers(ctx, b)
	switch {
	case err != nil:
		return err
	case len(pile) == 0:
		clear(buf)
		return nil
	case len(pile) == 1:
		return v.readLayer(ctx, pile[0], within, buf)
	}
	return v.readPile(ctx, pile, within, buf)
}

func (v *Volume) readLayer(ctx context.Context, l layer, within int64, buf []byte) error {
	g := v.space.pin(l.at.Group)
	defer v.space.unpin(g)
	return g.read(ctx, l.offset(within), buf)
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
	if err := v.ownTop(ctx, b, false); err != nil {
		return err
	}
	err := v.writeTop(ctx, b, within, data, fua)
	for try := 0; errors.Is(err, ErrNoSpace) && try < fullTries; try++ { // on those disks; there may be others
		if err := v.ownTop(ctx, b, true); err != nil {
			return err
		}
		err = v.writeTop(ctx, b, within, data, fua)
	}
	return err
}

// writeTop writes to the vDisk's own extent on top of the pile.
func (v *Volume) writeTop(ctx context.Context, b *block, within int64, data []byte, fua bool) error {
	pile, err := v.layers(ctx, b)
	if err != nil {
		return err
	}
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

// ownTop makes an extent on top of the pile unless the vDisk has one there, and in a new group if asked to.
func (v *Volume) ownTop(ctx context.Context, b *block, anew bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pile) > 0 && b.pile[0].own && !anew {
		return nil
	}
	if len(b.own.Pile) == maps.MaxPile {
		return ErrNoSpace
	}
	e, err := v.allocate(ctx, anew)
	if err != nil {
		return err
	}
	own := maps.Block{Pile: append([]maps.ExtentID{e}, b.own.Pile...), Opaque: b.own.Opaque}
	version, err := v.space.maps.SetBlock(ctx, v.id, b.number, own, b.version)
	if err != nil {
		return v.lost(err)
	}
	b.own, b.version = own, version
	b.pile = append([]layer{{extent: e, at: maps.Extent(e), located: true, own: true}}, b.pile...)
	return nil
}

// discard makes a whole block read as zeros and gives its space back.
func (v *Volume) discard(ctx context.Context, b *block) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pile) == 0 {
		return nil
	}
	gone := b.own.Pile
	var err error
	if len(v.chain) > 1 {
		next := maps.Block{Opaque: true}
		b.version, err = v.space.maps.SetBlock(ctx, v.id, b.number, next, b.version)
		b.own = next
	} else {
		err = v.space.maps.DeleteBlock(ctx, v.id, b.number, b.version)
		b.own, b.version = maps.Block{}, kv.Version{}
	}
	if err != nil {
		return v.lost(err)
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
