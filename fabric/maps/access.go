package maps

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"gleaner/fabric/disk"
	"gleaner/fabric/tiering"
	"gleaner/kv"
)

// Access says when a group was last used, as far as that was kept. One of which nothing is known was never used.
func (m *Maps) Access(ctx context.Context, id disk.GroupID) (tiering.Access, error) {
	r, err := m.access.Peek(ctx, numbered(uint64(id)))
	if errors.Is(err, kv.ErrNotFound) {
		return tiering.Access{}, nil
	}
	if err != nil {
		return tiering.Access{}, fmt.Errorf("fabric: access to group %s: %w", id, err)
	}
	_, a, err := ReadAccess(&r)
	return a, err
}

// ReadAccess reads a record of the access map.
func ReadAccess(r *kv.Record) (disk.GroupID, tiering.Access, error) {
	a, err := decodeAccess(r.Value)
	if err != nil || len(r.Key.Part) != 8 {
		return 0, a, fmt.Errorf("fabric: access to group %x: %w", r.Key.Part, ErrDamaged)
	}
	return disk.GroupID(binary.BigEndian.Uint64(r.Key.Part)), a, nil
}

// SetAccess keeps when groups were last used. When it fails, that of any of them may have been kept.
func (m *Maps) SetAccess(ctx context.Context, groups map[disk.GroupID]tiering.Access) error {
	records := make([]kv.Record, 0, len(groups))
	for id, a := range groups {
		records = append(records, kv.Record{Key: numbered(uint64(id)), Value: encodeAccess(a)})
	}
	if len(records) == 0 {
		return nil
	}
	return wrap("keep when groups were used", m.access.Put(ctx, records...))
}

// DeleteAccess forgets groups that are removed.
func (m *Maps) DeleteAccess(ctx context.Context, groups ...disk.GroupID) error {
	keys := make([]kv.Key, 0, len(groups))
	for _, id := range groups {
		keys = append(keys, numbered(uint64(id)))
	}
	if len(keys) == 0 {
		return nil
	}
	return wrap("forget when removed groups were used", m.access.Delete(ctx, keys...))
}

// accessBytes is the length of a record.
const accessBytes = 1 + 4 + 4 + 8

func encodeAccess(a tiering.Access) []byte {
	out := append(make([]byte, 0, accessBytes), accessFormat)
	out = binary.BigEndian.AppendUint32(out, uint32(a.Read))
	out = binary.BigEndian.AppendUint32(out, uint32(a.Written))
	return binary.BigEndian.AppendUint64(out, a.Reads)
}

func decodeAccess(data []byte) (tiering.Access, error) {
	if len(data) != accessBytes || data[0] != accessFormat {
		return tiering.Access{}, ErrDamaged
	}
	return tiering.Access{
		Read:    tiering.Period(binary.BigEndian.Uint32(data[1:])),
		Written: tiering.Period(binary.BigEndian.Uint32(data[5:])),
		Reads:   binary.BigEndian.Uint64(data[9:]),
	}, nil
}
