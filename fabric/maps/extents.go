package maps

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"gleaner/fabric/disk"
	"gleaner/kv"
)

// An ExtentID names an extent by the group and the quarter of it that it was made in.
type ExtentID struct {
	Group   disk.GroupID
	Quarter uint8
}

// An Extent says where an extent is now.
type Extent struct {
	Group   disk.GroupID
	Quarter uint8
}

// ExtentsPerGroup is how many extents a group holds.
const ExtentsPerGroup = disk.GroupSize / disk.BlockSize

func extentKey(e ExtentID) kv.Key {
	return kv.Key{Part: binary.BigEndian.AppendUint64(nil, uint64(e.Group)), Row: []byte{e.Quarter}}
}

// Extent says where an extent is.
func (m *Maps) Extent(ctx context.Context, e ExtentID) (Extent, kv.Version, error) {
	r, err := m.extents.Get(ctx, extentKey(e))
	if err != nil {
		return Extent{}, kv.Version{}, fmt.Errorf("fabric: extent %s: %w", e, plain(err))
	}
	at, err := decodeExtent(r.Value)
	return at, r.Version, err
}

// CreateExtents makes all extents of a new group.
func (m *Maps) CreateExtents(ctx context.Context, id disk.GroupID) error {
	var changes []kv.Change
	for q := range uint8(ExtentsPerGroup) {
		changes = append(changes, kv.Change{Do: kv.Set, Row: []byte{q}, Value: encodeExtent(Extent{id, q})})
	}
	_, err := m.writer.Apply(ctx, m.extents, extentKey(ExtentID{Group: id}).Part, changes...)
	return wrap(fmt.Sprintf("make extents of group %s", id), err)
}

// DeleteExtent removes an extent that no block refers to.
func (m *Maps) DeleteExtent(ctx context.Context, e ExtentID) error {
	_, version, err := m.Extent(ctx, e)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return wrap(fmt.Sprintf("delete extent %s", e), m.writer.Delete(ctx, m.extents, extentKey(e), version))
}

// Extents lists the extents that were made in a group and are there still.
func (m *Maps) Extents(ctx context.Context, id disk.GroupID) ([]ExtentID, error) {
	var all []ExtentID
	for r, err := range m.extents.Scan(ctx, kv.Range{Part: extentKey(ExtentID{Group: id}).Part}) {
		if err != nil || len(r.Key.Row) != 1 {
			return nil, fmt.Errorf("fabric: extents of group %s: %w", id, errors.Join(err, ErrDamaged))
		}
		all = append(all, ExtentID{id, r.Key.Row[0]})
	}
	return all, nil
}

// EachExtent reads all extents, in no order.
func (m *Maps) EachExtent(ctx context.Context, visit func(ExtentID, Extent) error) error {
	for r, err := range m.extents.Scan(ctx, kv.Range{}) {
		if err != nil {
			return fmt.Errorf("fabric: read extents: %w", err)
		}
		at, err := decodeExtent(r.Value)
		if err != nil || len(r.Key.Part) != 8 || len(r.Key.Row) != 1 {
			return fmt.Errorf("fabric: extent %x of %x: %w", r.Key.Row, r.Key.Part, ErrDamaged)
		}
		if err := visit(ExtentID{disk.GroupID(binary.BigEndian.Uint64(r.Key.Part)), r.Key.Row[0]}, at); err != nil {
			return err
		}
	}
	return nil
}
