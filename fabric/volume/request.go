package volume

import (
	"context"

	"gleaner/fabric/disk"
)

// enter begins a request. The caller leaves by v.gate.RUnlock.
func (v *Volume) enter(offset, length int64, write bool) error {
	v.gate.RLock()
	var err error
	switch broken := v.broken.Load(); {
	case broken != nil:
		err = *broken
	case offset < 0 || length < 0 || length > v.size-offset:
		err = ErrRange
	case write && v.readOnly:
		err = ErrReadOnly
	}
	if err != nil {
		v.gate.RUnlock()
	}
	return err
}

// ReadAt fills p.
func (v *Volume) ReadAt(ctx context.Context, p []byte, offset int64) error {
	if err := v.enter(offset, int64(len(p)), false); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.pieces(ctx, offset, int64(len(p)), span{}, func(b *block, within, at, n int64) error {
		return v.readBlock(ctx, b, within, p[at:at+n])
	})
}

// WriteAt writes p. With fua it is on stable storage when WriteAt returns.
func (v *Volume) WriteAt(ctx context.Context, p []byte, offset int64, fua bool) error {
	if err := v.enter(offset, int64(len(p)), true); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.lost(v.pieces(ctx, offset, int64(len(p)), span{write: true}, func(b *block, within, at, n int64) error {
		return v.writeBlock(ctx, b, within, p[at:at+n], fua)
	}))
}

// Zero makes a range read as zeros. Whole blocks give their space back, unless noHole asks to keep it.
func (v *Volume) Zero(ctx context.Context, offset, length int64, noHole, fua bool) error {
	if err := v.enter(offset, length, true); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.lost(v.zero(ctx, offset, length, noHole, fua))
}

var zeros [disk.BlockSize]byte

func (v *Volume) zero(ctx context.Context, offset, length int64, noHole, fua bool) error {
	var emptied []int64 // blocks that were trimmed piece by piece
	err := v.pieces(ctx, offset, length, span{write: true, same: !noHole}, func(b *block, within, at, n int64) error {
		switch {
		case noHole:
		case within == 0 && (n == disk.BlockSize || offset+at+n == v.size):
			return v.discard(ctx, b)
		default:
			if pile, err := v.layers(ctx, b); err != nil || len(pile) == 0 {
				return err
			}
		}
		if err := v.writeBlock(ctx, b, within, zeros[:n], fua); err != nil || noHole {
			return err
		}
		first, last := (within+disk.SliceSize-1)/disk.SliceSize, (within+n)/disk.SliceSize-1
		if offset+at+n == v.size {
			last = (within + n - 1) / disk.SliceSize
		}
		if b.spans.trim(first, last, v.slicesIn(b.number)) {
			emptied = append(emptied, b.number)
		}
		return nil
	})
	for _, number := range emptied {
		if err == nil {
			err = v.discardEmpty(ctx, number)
		}
	}
	return err
}

// slicesIn is how many slices of a block are before the end of the volume.
func (v *Volume) slicesIn(number int64) int64 {
	return min(slicesPerBlock, (v.size-number*disk.BlockSize+disk.SliceSize-1)/disk.SliceSize)
}

// discardEmpty gives back the space of a block that was trimmed piece by piece, unless it was written since.
func (v *Volume) discardEmpty(ctx context.Context, number int64) error {
	b, err := v.pin(ctx, number)
	if err != nil {
		return err
	}
	defer v.unpin(b)
	b.spans.take(wholeBlock)
	defer b.spans.give(wholeBlock)
	if !b.spans.isEmpty(v.slicesIn(number)) {
		return nil
	}
	return v.discard(ctx, b)
}

// Trim gives back the space of whole blocks in a range that is not needed any more.
func (v *Volume) Trim(ctx context.Context, offset, length int64, fua bool) error {
	return v.Zero(ctx, offset, length, false, fua)
}

// pieces calls do for the part of a range in each block, with those slices locked as asked.
func (v *Volume) pieces(ctx context.Context, offset, length int64, s span, do func(b *block, within, at, n int64) error) error {
	for at := int64(0); at < length; {
		within := (offset + at) % disk.BlockSize
		n := min(length-at, disk.BlockSize-within)
		b, err := v.pin(ctx, (offset+at)/disk.BlockSize)
		if err != nil {
			return err
		}
		s.first, s.last = within/disk.SliceSize, (within+n-1)/disk.SliceSize
		b.spans.take(s)
		err = do(b, within, at, n)
		b.spans.give(s)
		v.unpin(b)
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}
