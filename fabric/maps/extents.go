package maps

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/pack"
	"gleaner/kv"
)

// An ExtentID names an extent by the group and the quarter of it that it was made in.
type ExtentID = group.ExtentID

// An Extent says where an extent is now.
type Extent struct {
	Group   disk.GroupID
	Quarter uint8   // of the group, unless
	Packed  *Packed // it is packed
}

// Packed says where a packed extent is in its group, and what it is made of.
type Packed struct {
	Offset int64
	Index  pack.Index
	Print  pack.Print
}

// A LocatedExtent is an extent with its record.
type LocatedExtent struct {
	ID      ExtentID
	At      Extent
	Version kv.Version
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
		changes = append(changes, kv.Change{Do: kv.Set, Row: []byte{q}, Value: encodeExtent(Extent{Group: id, Quarter: q})})
	}
	_, err := m.writer.Apply(ctx, m.extents, extentKey(ExtentID{Group: id}).Part, changes...)
	return wrap(fmt.Sprintf("make extents of group %s", id), err)
}

// SetExtent says that an extent is elsewhere now, if its record is of that version.
func (m *Maps) SetExtent(ctx context.Context, e ExtentID, at Extent, old kv.Version) error {
	_, err := m.writer.Set(ctx, m.extents, extentKey(e), old, encodeExtent(at))
	return wrap(fmt.Sprintf("write extent %s", e), err)
}

// DeleteExtent removes an extent that no block refers to. It gives the group that it was in.
func (m *Maps) DeleteExtent(ctx context.Context, e ExtentID) (disk.GroupID, error) {
	for {
		at, version, err := m.Extent(ctx, e)
		if errors.Is(err, ErrNotFound) {
			return e.Group, nil
		}
		if err != nil {
			return 0, err
		}
		err = wrap(fmt.Sprintf("delete extent %s", e), m.writer.Delete(ctx, m.extents, extentKey(e), version))
		if !errors.Is(err, ErrChanged) { // else it was packed meanwhile
			return at.Group, err
		}
	}
}

// Extents lists the extents that were made in a group, wherever they are now.
func (m *Maps) Extents(ctx context.Context, id disk.GroupID) ([]LocatedExtent, error) {
	var all []LocatedExtent
	for r, err := range m.extents.Scan(ctx, kv.Range{Part: extentKey(ExtentID{Group: id}).Part}) {
		if err != nil || len(r.Key.Row) != 1 {
			return nil, fmt.Errorf("fabric: extents of group %s: %w", id, errors.Join(err, ErrDamaged))
		}
		at, err := decodeExtent(r.Value)
		if err != nil {
			return nil, fmt.Errorf("fabric: extents of group %s: %w", id, err)
		}
		all = append(all, LocatedExtent{ExtentID{Group: id, Quarter: r.Key.Row[0]}, at, r.Version})
	}
	return all, nil
}

// EachExtent reads all extents, in no order.
func (m *Maps) EachExtent(ctx context.Context, visit func(ExtentID, Extent) error) error {
	for r, err := range m.extents.Scan(ctx, kv.Range{}) {
		if err != nil {
			return fmt.Errorf("fabric: read extents: %w", err)
		}
		e, at, err := ReadExtent(&r)
		if err != nil {
			return err
		}
		if err := visit(e, at); err != nil {
			return err
		}
	}
	return nil
}

// ReadExtent reads a record of the extent map.
func ReadExtent(r *kv.Record) (ExtentID, Extent, error) {
	at, err := decodeExtent(r.Value)
	if err != nil || len(r.Key.Part) != 8 || len(r.Key.Row) != 1 {
		return ExtentID{}, Extent{}, fmt.Errorf("fabric: extent %x of %x: %w", r.Key.Row, r.Key.Part, ErrDamaged)
	}
	return ExtentID{Group: disk.GroupID(binary.BigEndian.Uint64(r.Key.Part)), Quarter: r.Key.Row[0]}, at, nil
}
