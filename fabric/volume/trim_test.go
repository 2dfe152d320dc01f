package volume

import (
	"testing"
	"time"

	"gleaner/fabric/disk"
)

// A block that is trimmed piece by piece gives its space back with the last one, unless something was written meanwhile. The last block of a volume may be shorter.
func TestTrimmedPieceByPiece(t *testing.T) {
	const piece = 256 << 10
	ctx := t.Context()
	s, _, _ := faultySpace(t, 3)
	vdisk, err := s.Create(ctx, "v", 2*disk.BlockSize+3*piece+512, 3, time.Unix(0, 0))
	must(t, err)
	v, err := s.Open(ctx, vdisk.ID)
	must(t, err)
	defer v.Close()
	blocks := func() int {
		runs, err := v.Status(ctx, 0, v.Size(), 100)
		must(t, err)
		stored := int64(0)
		for _, r := range runs {
			if r.Stored {
				stored += r.Length
			}
		}
		return int((stored + disk.BlockSize - 1) / disk.BlockSize)
	}
	fill := func() { must(t, v.WriteAt(ctx, pattern(1, int(v.Size())), 0, false)) }
	trim := func(offset, length int64) { t.Helper(); must(t, v.Trim(ctx, offset, length, false)) }

	fill()
	for at := int64(0); at < v.Size(); at += piece {
		trim(at, min(piece, v.Size()-at))
	}
	reads(t, v, 0, make([]byte, v.Size()))
	if n := blocks(); n != 0 {
		t.Errorf("%d blocks are stored", n)
	}
	fill()
	trim(0, 3*piece)
	must(t, v.WriteAt(ctx, pattern(2, 4096), piece, false))
	trim(3*piece, piece)
	if n := blocks(); n != 3 {
		t.Errorf("%d blocks are stored, and all have something", n)
	}
	trim(piece+100, 8000) // a part of what was written
	if n := blocks(); n != 3 {
		t.Errorf("%d blocks are stored, and all have something", n)
	}
	trim(piece, 4096)
	reads(t, v, 0, make([]byte, disk.BlockSize))
	if n := blocks(); n != 2 {
		t.Errorf("%d blocks are stored", n)
	}
}
