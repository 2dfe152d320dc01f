package maps

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"gleaner/fabric/disk"
	"gleaner/kv"
)

// Errors a caller acts on.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("name is taken")
	ErrChanged  = errors.New("changed by another")
	ErrDamaged  = errors.New("unreadable record")
)

// Maps are the tables. They are safe for concurrent use.
type Maps struct {
	writer                                                               *kv.Writer
	names, vdisks, blocks, extents, groups, marks, ids, servers, retired kv.Table
	access                                                               kv.LooseTable // of groups: when they were last used
	Leases                                                               kv.Leases     // of vDisks, by LeaseName
}

// The names of the tables that upkeep scans.
const (
	Names, VDisks, Blocks, Extents, Groups, Accesses = "fabric_names", "fabric_vdisks", "fabric_blocks", "fabric_extents", "fabric_groups", "fabric_access"
)

// Tables gives those tables, to be read as a whole.
func (m *Maps) Tables() map[string]kv.Reader {
	return map[string]kv.Reader{Names: m.names, VDisks: m.vdisks, Blocks: m.blocks, Extents: m.extents, Groups: m.groups, Accesses: m.access}
}

// LeaseName names the lease of a vDisk's writer.
func LeaseName(id disk.VDiskID) string { return fmt.Sprintf("vdisk-%d", id) }

// Open opens the maps in a kv store. writer has an id that nobody else ever had.
func Open(ctx context.Context, store kv.Store, writer *kv.Writer) (*Maps, error) {
	m := &Maps{writer: writer}
	for name, table := range map[string]*kv.Table{Names: &m.names, VDisks: &m.vdisks, Blocks: &m.blocks,
		Extents: &m.extents, Groups: &m.groups, "fabric_marks": &m.marks, "fabric_ids": &m.ids, "fabric_servers": &m.servers, "fabric_retired": &m.retired, "fabric_leases": &m.Leases.Table} {
		var err error
		if *table, err = store.Table(ctx, name); err != nil {
			return nil, fmt.Errorf("fabric: open %s: %w", name, err)
		}
	}
	var err error
	if m.access, err = store.LooseTable(ctx, Accesses); err != nil {
		return nil, fmt.Errorf("fabric: open fabric_access: %w", err)
	}
	m.Leases.Writer = writer
	return m, nil
}

// Sequences of numbers that are given out once.
const (
	VDiskIDs = "vdisk"
	GroupIDs = "group"
)

// Draw gives n numbers of a sequence that nobody else gets: the first of them. The first of all is 1.
func (m *Maps) Draw(ctx context.Context, sequence string, n int) (uint64, error) {
	var first uint64
	_, err := m.writer.Update(ctx, m.ids, kv.Key{Part: []byte(sequence)}, func(now kv.Record) ([]byte, error) {
		first = 1
		if now.Version != (kv.Version{}) {
			if len(now.Value) != 8 {
				return nil, fmt.Errorf("%w: sequence %s", ErrDamaged, sequence)
			}
			first = binary.BigEndian.Uint64(now.Value)
		}
		return binary.BigEndian.AppendUint64(nil, first+uint64(n)), nil
	})
	if err != nil {
		return 0, fmt.Errorf("fabric: draw a number of %s: %w", sequence, err)
	}
	return first, nil
}

// set creates a record whose key is never used twice, or replaces one. Block keys are used
// twice, but only by the one writer that the vDisk's lease allows.
func (m *Maps) set(ctx context.Context, t kv.Table, key kv.Key, old kv.Version, value []byte) (kv.Version, error) {
	if old == (kv.Version{}) {
		return m.writer.Create(ctx, t, key, value)
	}
	return m.writer.Set(ctx, t, key, old, value)
}

func numbered(id uint64) kv.Key { return kv.Key{Part: binary.BigEndian.AppendUint64(nil, id)} }

// plain turns kv's errors into those of the maps.
func plain(err error) error {
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, kv.ErrConflict):
		return ErrChanged
	}
	return err
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fabric: %s: %w", what, plain(err))
}
