package maps

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/kv"
)

// Group reads a group.
func (m *Maps) Group(ctx context.Context, id disk.GroupID) (group.Group, kv.Version, error) {
	r, err := m.groups.Get(ctx, numbered(uint64(id)))
	if err != nil {
		return group.Group{}, kv.Version{}, fmt.Errorf("fabric: group %s: %w", id, plain(err))
	}
	g, err := decodeGroup(r.Value)
	if err != nil {
		return group.Group{}, kv.Version{}, fmt.Errorf("fabric: group %s: %w", id, err)
	}
	return g, r.Version, nil
}

// Groups reads all groups, in no order.
func (m *Maps) Groups(ctx context.Context) iter.Seq2[NumberedGroup, error] {
	return func(yield func(NumberedGroup, error) bool) {
		for r, err := range m.groups.Scan(ctx, kv.Range{}) {
			var g NumberedGroup
			if err == nil {
				g, err = ReadGroup(&r)
			}
			if !yield(g, err) || err != nil {
				return
			}
		}
	}
}

// ReadGroup reads a record of the group map.
func ReadGroup(r *kv.Record) (g NumberedGroup, err error) {
	if len(r.Key.Part) != 8 {
		return g, fmt.Errorf("fabric: group %x: %w", r.Key.Part, ErrDamaged)
	}
	g.ID = disk.GroupID(binary.BigEndian.Uint64(r.Key.Part))
	if g.Group, err = decodeGroup(r.Value); err != nil {
		return g, fmt.Errorf("fabric: group %s: %w", g.ID, err)
	}
	return g, nil
}

// A NumberedGroup is a group with its id.
type NumberedGroup struct {
	ID disk.GroupID
	group.Group
}

// SetGroup writes a group if it is of that version, zero for a new one.
func (m *Maps) SetGroup(ctx context.Context, id disk.GroupID, g group.Group, old kv.Version) (kv.Version, error) {
	next, err := m.set(ctx, m.groups, numbered(uint64(id)), old, encodeGroup(g))
	return next, wrap(fmt.Sprintf("write group %s", id), err)
}

// DeleteGroup removes the record of a dead group whose replicas are removed.
func (m *Maps) DeleteGroup(ctx context.Context, id disk.GroupID, old kv.Version) error {
	return wrap(fmt.Sprintf("delete group %s", id), m.writer.Delete(ctx, m.groups, numbered(uint64(id)), old))
}
