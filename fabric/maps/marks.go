package maps

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/kv"
)

// A Mark says that the writer of a vDisk may be changing a group, and how often the disks of
// its replicas had been opened by then (disk.Identity.Opened): one that was opened since may lack writes that the others have.
type Mark struct {
	Group  disk.GroupID
	Synced bool // at least once: a disk that does not have the group has lost it
	Opened map[cluster.DiskID]uint64
}

// SetMark writes a mark, in place of the one that is there.
func (m *Maps) SetMark(ctx context.Context, v disk.VDiskID, mark Mark) error {
	_, err := m.writer.Update(ctx, m.marks, markKey(v, mark.Group), func(kv.Record) ([]byte, error) { return encodeMark(mark), nil })
	return wrap(fmt.Sprintf("mark group %s", mark.Group), err)
}

// Unmark says that all replicas of a group are equal and synced.
func (m *Maps) Unmark(ctx context.Context, v disk.VDiskID, id disk.GroupID) error {
	r, err := m.marks.Get(ctx, markKey(v, id))
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = m.writer.Delete(ctx, m.marks, markKey(v, id), r.Version)
	}
	return wrap(fmt.Sprintf("unmark group %s", id), err)
}

// Marked gives the mark of a group, and whether it has one.
func (m *Maps) Marked(ctx context.Context, v disk.VDiskID, id disk.GroupID) (Mark, bool, error) {
	r, err := m.marks.Get(ctx, markKey(v, id))
	if errors.Is(err, kv.ErrNotFound) {
		return Mark{}, false, nil
	}
	if err != nil {
		return Mark{}, false, wrap(fmt.Sprintf("read the mark of group %s", id), err)
	}
	mark, err := decodeMark(id, r.Value)
	return mark, true, err
}

// Marks lists the marks of a vDisk.
func (m *Maps) Marks(ctx context.Context, v disk.VDiskID) ([]Mark, error) {
	var all []Mark
	for r, err := range m.marks.Scan(ctx, kv.Range{Part: numbered(uint64(v)).Part}) {
		if err != nil || len(r.Key.Row) != 8 {
			return nil, fmt.Errorf("fabric: marks of vDisk %d: %w", v, errors.Join(err, ErrDamaged))
		}
		mark, err := decodeMark(disk.GroupID(binary.BigEndian.Uint64(r.Key.Row)), r.Value)
		if err != nil {
			return nil, fmt.Errorf("fabric: marks of vDisk %d: %w", v, err)
		}
		all = append(all, mark)
	}
	return all, nil
}

func markKey(v disk.VDiskID, id disk.GroupID) kv.Key {
	return kv.Key{Part: numbered(uint64(v)).Part, Row: binary.BigEndian.AppendUint64(nil, uint64(id))}
}
