package volume

import (
	"errors"
	"testing"
	"time"
)

// The data of a removed vDisk goes piece by piece, and in the end all of it.
func TestReapInPieces(t *testing.T) {
	const pieces, blocks = 4, 128
	ctx := t.Context()
	s, _, _ := faultySpace(t, 1)
	s.o.Piece = time.Nanosecond
	vdisk, err := s.Create(ctx, "v", pieces*reapStep<<20, 1, time.Unix(0, 0))
	must(t, err)
	v, err := s.Open(ctx, vdisk.ID)
	must(t, err)
	for n := range int64(blocks) {
		must(t, v.WriteAt(ctx, []byte{1}, n*pieces*reapStep/blocks<<20, false))
	}
	must(t, v.Close())
	must(t, s.Remove(ctx, "v"))
	done := 1
	for ; ; done++ {
		before := len(allGroups(t, s))
		err := s.ReapVDisk(ctx, vdisk.ID)
		if err == nil {
			break
		}
		if after := len(allGroups(t, s)); !errors.Is(err, ErrUnfinished) || before-after > blocks/pieces/4+1 {
			t.Fatalf("%d groups, then %d: %v", before, after, err)
		}
	}
	if done != pieces {
		t.Errorf("%d pieces, want %d", done, pieces)
	}
	if groups := allGroups(t, s); len(groups) > 0 {
		t.Errorf("groups %v are left", groups)
	}
	if err := s.ReapVDisk(ctx, vdisk.ID); !errors.Is(err, ErrMoot) {
		t.Errorf("again: %v", err)
	}
}
