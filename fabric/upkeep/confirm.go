package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gleaner/curator/task"
	"gleaner/fabric/maps"
	"gleaner/kv"
)

// Confirm reports whether a finding holds still. What a record refers to is looked at between two looks at the record, so that nothing that is changed
// or removed meanwhile is taken for damage.
func Confirm(ctx context.Context, m *maps.Maps, t task.Task) (bool, error) {
	uses, err := readUses(t.What)
	if err != nil || len(uses) != 1 {
		return false, fmt.Errorf("upkeep: the finding %x names no record: %w", t.What, err)
	}
	refers, leads := blockRefers, extentThere
	if uses[0].VDisk == 0 {
		refers, leads = extentThere, groupThere
	}
	for _, look := range []struct {
		there func(context.Context, *maps.Maps, Use) (bool, error)
		want  bool
	}{{refers, true}, {leads, false}, {refers, true}} {
		if there, err := look.there(ctx, m, uses[0]); err != nil || there != look.want {
			return false, err
		}
	}
	return true, nil
}

// LeadsNowhere says how a block that refers to an extent leads nowhere; nothing if it does not, or does not refer to it any more.
func LeadsNowhere(ctx context.Context, m *maps.Maps, u Use) (why string, err error) {
	for _, f := range []task.Task{extentMissing(u), {What: Use{Extent: u.Extent}.append(nil), Why: fmt.Sprintf("extent %s, of block %d of vDisk %d, is in a group which is not there", u.Extent, u.Block, u.VDisk)}} {
		if there, err := Confirm(ctx, m, f); err != nil || there {
			return f.Why, err
		}
	}
	return "", nil
}

// extentMissing is the finding that a block refers to an extent which is not there.
func extentMissing(u Use) task.Task {
	return task.Task{Kind: Finding, What: u.append(nil), Why: fmt.Sprintf("block %d of vDisk %d refers to extent %s, which is not there", u.Block, u.VDisk, u.Extent)}
}

func blockRefers(ctx context.Context, m *maps.Maps, u Use) (refers bool, err error) {
	_, err = m.Blocks(ctx, u.VDisk, u.Block, u.Block+1, func(_ int64, b maps.Block, _ kv.Version) error {
		refers = slices.Contains(b.Pile, u.Extent)
		return nil
	})
	return refers, err
}

func extentThere(ctx context.Context, m *maps.Maps, u Use) (bool, error) {
	_, _, err := m.Extent(ctx, u.Extent)
	return there(err)
}

func groupThere(ctx context.Context, m *maps.Maps, u Use) (bool, error) {
	at, _, err := m.Extent(ctx, u.Extent)
	if err == nil {
		_, _, err = m.Group(ctx, at.Group)
	}
	return there(err)
}

func there(err error) (bool, error) {
	if errors.Is(err, maps.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
