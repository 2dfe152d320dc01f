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

	Version kv.Version // as it was read
}

// noGroup is the group of the record that says who changes the marks of a vDisk: each change of a mark compares its version. No
// group has that id.
const noGroup disk.GroupID = 0

// TakeMarks has only the caller change the marks of a vDisk, by the version it gives, until another takes them: a
// writer that lost its lease without noticing can mark no group, and so writes to none that was not marked by then.
func (m *Maps) TakeMarks(ctx context.Context, v disk.VDiskID) (kv.Version, error) {
	r, err := m.writer.Update(ctx, m.marks, markKey(v, noGroup), func(kv.Record) ([]byte, error) { return encodeMark(Mark{}), nil })
	return r.Version, wrap(fmt.Sprintf("take the marks of vDisk %d", v), err)
}

// HasMarks says whether the marks of a vDisk are still taken by that version; else it is ErrChanged.
func (m *Maps) HasMarks(ctx context.Context, v disk.VDiskID, taken kv.Version) error {
	r, err := m.marks.Get(ctx, markKey(v, noGroup))
	if err == nil && r.Version != taken {
		err = ErrChanged
	}
	return wrap(fmt.Sprintf("look who has the marks of vDisk %d", v), err)
}

// ForgetMarks removes what TakeMarks wrote, of a vDisk that is removed.
func (m *Maps) ForgetMarks(ctx context.Context, v disk.VDiskID, taken kv.Version) error {
	return wrap(fmt.Sprintf("forget the marks of vDisk %d", v), m.writer.Delete(ctx, m.marks, markKey(v, noGroup), taken))
}

// SetMark writes a mark if the marks are taken by that version. old is the version of the mark that it replaces, as far as is known; the new
// one is given.
func (m *Maps) SetMark(ctx context.Context, v disk.VDiskID, mark Mark, taken, old kv.Version) (kv.Version, error) {
	next, err := m.changeMark(ctx, v, mark.Group, taken, kv.Change{Do: kv.Set, Old: old, Value: encodeMark(mark)})
	return next, wrap(fmt.Sprintf("mark group %s", mark.Group), err)
}

// changeMark makes a change to the mark of a group, if the marks are taken by that version; zero for whoever knows that nobody
// writes to the group. A mark that has another version than was thought is read.
func (m *Maps) changeMark(ctx context.Context, v disk.VDiskID, id disk.GroupID, taken kv.Version, change kv.Change) (kv.Version, error) {
	key := markKey(v, id)
	change.Row = key.Row
	if change.Do == kv.Set || change.Old != (kv.Version{}) {
		next, err := m.applyMark(ctx, key.Part, taken, change)
		if !errors.Is(err, kv.ErrConflict) {
			return next, err
		}
	}
	now, err := m.marks.Get(ctx, key)
	if errors.Is(err, kv.ErrNotFound) && change.Do == kv.Delete {
		return kv.Version{}, nil
	}
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return kv.Version{}, err
	}
	change.Old = now.Version
	return m.applyMark(ctx, key.Part, taken, change)
}

func (m *Maps) applyMark(ctx context.Context, part []byte, taken kv.Version, change kv.Change) (kv.Version, error) {
	changes := []kv.Change{change}
	if taken != (kv.Version{}) {
		changes = append(changes, kv.Change{Do: kv.Keep, Row: binary.BigEndian.AppendUint64(nil, uint64(noGroup)), Old: taken})
	}
	return m.writer.Apply(ctx, m.marks, part, changes...)
}

// Unmark says that all replicas of a group are equal and synced. old is the version of its mark; zero if that is not known.
func (m *Maps) Unmark(ctx context.Context, v disk.VDiskID, id disk.GroupID, taken, old kv.Version) error {
	_, err := m.changeMark(ctx, v, id, taken, kv.Change{Do: kv.Delete, Old: old})
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
	mark.Version = r.Version
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
		mark.Version = r.Version
		if mark.Group != noGroup {
			all = append(all, mark)
		}
	}
	return all, nil
}

func markKey(v disk.VDiskID, id disk.GroupID) kv.Key {
	return kv.Key{Part: numbered(uint64(v)).Part, Row: binary.BigEndian.AppendUint64(nil, uint64(id))}
}
