package maps

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"gleaner/fabric/disk"
	"gleaner/kv"
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

// VDisk reads a vDisk.
func (m *Maps) VDisk(ctx context.Context, id disk.VDiskID) (VDisk, kv.Version, error) {
	r, err := m.vdisks.Get(ctx, numbered(uint64(id)))
	if err != nil {
		return VDisk{}, kv.Version{}, fmt.Errorf("fabric: vDisk %d: %w", id, plain(err))
	}
	v, err := ReadVDisk(&r)
	return v, r.Version, err
}

// VDisks reads all vDisks, also those without a name.
func (m *Maps) VDisks(ctx context.Context) iter.Seq2[VDisk, error] {
	return func(yield func(VDisk, error) bool) {
		for r, err := range m.vdisks.Scan(ctx, kv.Range{}) {
			var v VDisk
			if err == nil {
				v, err = ReadVDisk(&r)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// ReadVDisk reads a record of the vDisk map.
func ReadVDisk(r *kv.Record) (VDisk, error) {
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
