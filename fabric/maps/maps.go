package maps

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/kv"
)

// Errors a caller acts on.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("name is taken")
	ErrChanged  = errors.New("changed by another")
	ErrDamaged  = errors.New("unreadable record")
)

// A VDisk is a virtual disk or, if Snapshot is set, one that cannot be written any more.
type VDisk struct {
	ID       disk.VDiskID `json:"id"`
	Name     string       `json:"name"`
	Size     int64        `json:"size"`
	Most     int64        `json:"most,omitempty"` // what the size was at most before it was changed
	Replicas int          `json:"replicas"`       // wanted
	Snapshot bool         `json:"snapshot,omitempty"`
	Sealed   bool         `json:"sealed,omitempty"`  // it has no marks and gets none
	Removed  bool         `json:"removed,omitempty"` // its data is to be removed, once nothing is read through it
	Parent   disk.VDiskID `json:"parent,omitempty"`  // 0 if none
	// Reach is how many bytes of the parent can be seen through this vDisk: it falls
	// when the vDisk is made smaller, and does not grow again.
	Reach   int64     `json:"reach,omitempty"`
	Created time.Time `json:"created"`
}

// A Block is what a vDisk has written in a block of 1 MiB.
type Block struct {
	Pile   []ExtentID // newest first
	Opaque bool       // the parent cannot be seen through it
}

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

// Maps are the tables. They are safe for concurrent use.
type Maps struct {
	writer                                             *kv.Writer
	names, vdisks, blocks, extents, groups, marks, ids kv.Table
	Leases                                             kv.Leases // of vDisks, by LeaseName
}

// LeaseName names the lease of a vDisk's writer.
func LeaseName(id disk.VDiskID) string { return fmt.Sprintf("vdisk-%d", id) }

// Open opens the maps in a kv store. writer has an id that nobody else ever had.
func Open(ctx context.Context, store kv.Store, writer *kv.Writer) (*Maps, error) {
	m := &Maps{writer: writer}
	for name, table := range map[string]*kv.Table{"fabric_names": &m.names, "fabric_vdisks": &m.vdisks, "fabric_blocks": &m.blocks,
		"fabric_extents": &m.extents, "fabric_groups": &m.groups, "fabric_marks": &m.marks, "fabric_ids": &m.ids, "fabric_leases": &m.Leases.Table} {
		var err error
		if *table, err = store.Table(ctx, name); err != nil {
			return nil, fmt.Errorf("fabric: open %s: %w", name, err)
		}
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

// Names lists the vDisks and snapshots that have a name, by name.
func (m *Maps) Names(ctx context.Context) iter.Seq2[VDisk, error] {
	return func(yield func(VDisk, error) bool) {
		for r, err := range m.names.Scan(ctx, kv.Range{}) {
			if err != nil {
				yield(VDisk{}, fmt.Errorf("fabric: list vDisks: %w", err))
				return
			}
			v, err := m.named(ctx, r)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Find gives the vDisk or snapshot of a name. A name counts only if the vDisk that it leads to has that name too, and
// is not removed: the others are what a crash left, and may be given anew.
func (m *Maps) Find(ctx context.Context, name string) (VDisk, error) {
	r, err := m.names.Get(ctx, kv.Key{Part: []byte(name)})
	if err != nil {
		return VDisk{}, fmt.Errorf("fabric: find %s: %w", name, plain(err))
	}
	return m.named(ctx, r)
}

func (m *Maps) named(ctx context.Context, r kv.Record) (VDisk, error) {
	if len(r.Value) != 8 {
		return VDisk{}, fmt.Errorf("fabric: name %s: %w", r.Key.Part, ErrDamaged)
	}
	v, _, err := m.VDisk(ctx, disk.VDiskID(binary.BigEndian.Uint64(r.Value)))
	if err == nil && (v.Removed || v.Name != string(r.Key.Part)) {
		return VDisk{}, fmt.Errorf("fabric: find %s: %w", r.Key.Part, ErrNotFound)
	}
	return v, err
}

// Bind gives a vDisk a name that does not count.
func (m *Maps) Bind(ctx context.Context, name string, id disk.VDiskID) error {
	r, err := m.names.Get(ctx, kv.Key{Part: []byte(name)})
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return wrap("name "+name, err)
	}
	if err == nil {
		if _, err := m.named(ctx, r); !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("fabric: name %s: %w", name, cmp.Or(err, ErrExists))
		}
	}
	return m.bind(ctx, name, r.Version, id)
}

func (m *Maps) bind(ctx context.Context, name string, old kv.Version, id disk.VDiskID) error {
	_, err := m.writer.Set(ctx, m.names, kv.Key{Part: []byte(name)}, old, binary.BigEndian.AppendUint64(nil, uint64(id)))
	if errors.Is(err, kv.ErrConflict) {
		err = ErrExists
	}
	return wrap("name "+name, err)
}

// Rebind passes a name on from one vDisk to another.
func (m *Maps) Rebind(ctx context.Context, name string, was, id disk.VDiskID) error {
	version, err := m.leads(ctx, name, was)
	if err != nil {
		return err
	}
	return m.bind(ctx, name, version, id)
}

// Unbind frees a name that a vDisk has.
func (m *Maps) Unbind(ctx context.Context, name string, id disk.VDiskID) error {
	version, err := m.leads(ctx, name, id)
	if err != nil {
		return err
	}
	return wrap("free the name "+name, m.writer.Delete(ctx, m.names, kv.Key{Part: []byte(name)}, version))
}

// leads gives the version of a name that leads to a vDisk.
func (m *Maps) leads(ctx context.Context, name string, id disk.VDiskID) (kv.Version, error) {
	r, err := m.names.Get(ctx, kv.Key{Part: []byte(name)})
	if err == nil && string(r.Value) != string(binary.BigEndian.AppendUint64(nil, uint64(id))) {
		err = ErrChanged
	}
	return r.Version, wrap("name "+name, err)
}

// VDisk reads a vDisk.
func (m *Maps) VDisk(ctx context.Context, id disk.VDiskID) (VDisk, kv.Version, error) {
	r, err := m.vdisks.Get(ctx, numbered(uint64(id)))
	if err != nil {
		return VDisk{}, kv.Version{}, fmt.Errorf("fabric: vDisk %d: %w", id, plain(err))
	}
	v, err := decodeVDisk(r)
	return v, r.Version, err
}

// VDisks reads all vDisks, also those without a name.
func (m *Maps) VDisks(ctx context.Context) iter.Seq2[VDisk, error] {
	return func(yield func(VDisk, error) bool) {
		for r, err := range m.vdisks.Scan(ctx, kv.Range{}) {
			var v VDisk
			if err == nil {
				v, err = decodeVDisk(r)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

func decodeVDisk(r kv.Record) (VDisk, error) {
	var v VDisk
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return VDisk{}, fmt.Errorf("fabric: vDisk %x: %w: %w", r.Key.Part, ErrDamaged, err)
	}
	return v, nil
}

// SetVDisk writes a vDisk if it is of that version, zero for a new one.
func (m *Maps) SetVDisk(ctx context.Context, v VDisk, old kv.Version) (kv.Version, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return kv.Version{}, err
	}
	next, err := m.set(ctx, m.vdisks, numbered(uint64(v.ID)), old, value)
	return next, wrap(fmt.Sprintf("write vDisk %d", v.ID), err)
}

// DeleteVDisk removes the record of a vDisk that has neither name nor blocks.
func (m *Maps) DeleteVDisk(ctx context.Context, id disk.VDiskID, old kv.Version) error {
	return wrap(fmt.Sprintf("delete vDisk %d", id), m.writer.Delete(ctx, m.vdisks, numbered(uint64(id)), old))
}

// BlocksPerPart makes a part of the block map 1 GiB of a vDisk.
const BlocksPerPart = 1 << 10

func blockKey(id disk.VDiskID, block int64) kv.Key {
	part := binary.BigEndian.AppendUint64(nil, uint64(id))
	part = binary.BigEndian.AppendUint32(part, uint32(block/BlocksPerPart))
	return kv.Key{Part: part, Row: binary.BigEndian.AppendUint16(nil, uint16(block%BlocksPerPart))}
}

// Blocks reads the blocks that a vDisk itself has from first on, up to the end of
// their part of the map or to end. It gives where the next read goes on.
func (m *Maps) Blocks(ctx context.Context, id disk.VDiskID, first, end int64, visit func(block int64, b Block, version kv.Version) error) (next int64, err error) {
	next = min(end, (first/BlocksPerPart+1)*BlocksPerPart)
	from, to := blockKey(id, first), blockKey(id, next)
	r := kv.Range{Part: from.Part, From: from.Row, To: to.Row}
	if next%BlocksPerPart == 0 {
		r.To = nil
	}
	for record, err := range m.blocks.Scan(ctx, r) {
		if err != nil {
			return 0, fmt.Errorf("fabric: read blocks of vDisk %d: %w", id, err)
		}
		b, err := decodeBlock(record.Value)
		if err != nil || len(record.Key.Row) != 2 {
			return 0, fmt.Errorf("fabric: block %x of vDisk %d: %w", record.Key.Row, id, ErrDamaged)
		}
		block := first/BlocksPerPart*BlocksPerPart + int64(binary.BigEndian.Uint16(record.Key.Row))
		if err := visit(block, b, record.Version); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// SetBlock writes a block if it is of that version, zero for a new one.
func (m *Maps) SetBlock(ctx context.Context, id disk.VDiskID, block int64, b Block, old kv.Version) (kv.Version, error) {
	next, err := m.set(ctx, m.blocks, blockKey(id, block), old, encodeBlock(b))
	return next, wrap(fmt.Sprintf("write block %d of vDisk %d", block, id), err)
}

// DeleteBlock removes what a vDisk itself has of a block.
func (m *Maps) DeleteBlock(ctx context.Context, id disk.VDiskID, block int64, old kv.Version) error {
	return wrap(fmt.Sprintf("delete block %d of vDisk %d", block, id), m.writer.Delete(ctx, m.blocks, blockKey(id, block), old))
}

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
			if err == nil && len(r.Key.Part) != 8 {
				err = fmt.Errorf("fabric: group %x: %w", r.Key.Part, ErrDamaged)
			}
			if err == nil {
				g.ID = disk.GroupID(binary.BigEndian.Uint64(r.Key.Part))
				g.Group, err = decodeGroup(r.Value)
			}
			if !yield(g, err) || err != nil {
				return
			}
		}
	}
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

// A Mark says that the writer of a vDisk may be changing a group, and how often the disks of
// its replicas had been opened by then (disk.Identity.Opened): one that was opened since may lack writes that the others have.
type Mark struct {
	Group  disk.GroupID
	Opened map[cluster.DiskID]uint64
}

// SetMark writes a mark, in place of the one that is there.
func (m *Maps) SetMark(ctx context.Context, v disk.VDiskID, mark Mark) error {
	_, err := m.writer.Update(ctx, m.marks, markKey(v, mark.Group), func(kv.Record) ([]byte, error) { return encodeMark(mark.Opened), nil })
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
	opened, err := decodeMark(r.Value)
	return Mark{id, opened}, true, err
}

// Marks lists the marks of a vDisk.
func (m *Maps) Marks(ctx context.Context, v disk.VDiskID) ([]Mark, error) {
	var all []Mark
	for r, err := range m.marks.Scan(ctx, kv.Range{Part: numbered(uint64(v)).Part}) {
		if err != nil || len(r.Key.Row) != 8 {
			return nil, fmt.Errorf("fabric: marks of vDisk %d: %w", v, errors.Join(err, ErrDamaged))
		}
		opened, err := decodeMark(r.Value)
		if err != nil {
			return nil, fmt.Errorf("fabric: marks of vDisk %d: %w", v, err)
		}
		all = append(all, Mark{disk.GroupID(binary.BigEndian.Uint64(r.Key.Row)), opened})
	}
	return all, nil
}

func markKey(v disk.VDiskID, id disk.GroupID) kv.Key {
	return kv.Key{Part: numbered(uint64(v)).Part, Row: binary.BigEndian.AppendUint64(nil, uint64(id))}
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

// EachBlock reads the blocks of all vDisks, in no order.
func (m *Maps) EachBlock(ctx context.Context, visit func(id disk.VDiskID, block int64, b Block) error) error {
	for r, err := range m.blocks.Scan(ctx, kv.Range{}) {
		if err != nil {
			return fmt.Errorf("fabric: read blocks: %w", err)
		}
		b, err := decodeBlock(r.Value)
		if err != nil || len(r.Key.Part) != 12 || len(r.Key.Row) != 2 {
			return fmt.Errorf("fabric: block %x of %x: %w", r.Key.Row, r.Key.Part, ErrDamaged)
		}
		part, row := int64(binary.BigEndian.Uint32(r.Key.Part[8:])), int64(binary.BigEndian.Uint16(r.Key.Row))
		if err := visit(disk.VDiskID(binary.BigEndian.Uint64(r.Key.Part)), part*BlocksPerPart+row, b); err != nil {
			return err
		}
	}
	return nil
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
