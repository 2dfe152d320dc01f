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
	return v.pieces(ctx, offset, int64(len(p)), false, func(b *block, within, at, n int64) error {
		return v.readBlock(ctx, b, within, p[at:at+n])
	})
}

// WriteAt writes p. With fua it is on stable storage when WriteAt returns.
func (v *Volume) WriteAt(ctx context.Context, p []byte, offset int64, fua bool) error {
	if err := v.enter(offset, int64(len(p)), true); err != nil {
		return err
	}
	defer v.gate.RUnlock()
	return v.lost(v.pieces(ctx, offset, int64(len(p)), true, func(b *block, within, at, n int64) error {
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
	return v.pieces(ctx, offset, length, true, func(b *block, within, at, n int64) error {
		switch {
		case noHole:
		case within == 0 && (n == disk.BlockSize || offset+at+n == v.size):
			return v.discard(ctx, b)
		default:
			if pile, err := v.layers(ctx, b); err != nil || len(pile) == 0 {
				return err
			}
		}
		return v.writeBlock(ctx, b, within, zeros[:n], fua)
	})
}

// Trim gives back the space of whole blocks in a range that is not needed any more.
func (v *Volume) Trim(ctx context.Context, offset, length int64, fua bool) error {
	return v.Zero(ctx, offset, length, false, fua)
}

// pieces calls do for the part of a range in each block, with those slices locked.
func (v *Volume) pieces(ctx context.Context, offset, length int64, write bool, do func(b *block, within, at, n int64) error) error {
	for at := int64(0); at < length; {
		within := (offset + at) % disk.BlockSize
		n := min(length-at, disk.BlockSize-within)
		b, err := v.pin(ctx, (offset+at)/disk.BlockSize)
		if err != nil {
			return err
		}
		s := span{within / disk.SliceSize, (within + n - 1) / disk.SliceSize, write}
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
