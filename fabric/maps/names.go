package maps

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"gleaner/fabric/disk"
	"gleaner/kv"
)

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

// ReadName reads a record of the names: the vDisk that it leads to.
func ReadName(r *kv.Record) (name string, id disk.VDiskID, err error) {
	if len(r.Value) != 8 {
		return "", 0, fmt.Errorf("fabric: name %s: %w", r.Key.Part, ErrDamaged)
	}
	return string(r.Key.Part), disk.VDiskID(binary.BigEndian.Uint64(r.Value)), nil
}

func (m *Maps) named(ctx context.Context, r kv.Record) (VDisk, error) {
	_, id, err := ReadName(&r)
	if err != nil {
		return VDisk{}, err
	}
	v, _, err := m.VDisk(ctx, id)
	if err == nil && (v.Removed || v.Name != string(r.Key.Part)) {
		return VDisk{}, fmt.Errorf("fabric: find %s: %w", r.Key.Part, ErrNotFound)
	}
	return v, err
}

// Bind gives a vDisk a name that does not count. The version it gives is for Confirm.
func (m *Maps) Bind(ctx context.Context, name string, id disk.VDiskID) (kv.Version, error) {
	r, err := m.names.Get(ctx, kv.Key{Part: []byte(name)})
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return kv.Version{}, wrap("name "+name, err)
	}
	if err == nil {
		if _, err := m.named(ctx, r); !errors.Is(err, ErrNotFound) {
			return kv.Version{}, fmt.Errorf("fabric: name %s: %w", name, cmp.Or(err, ErrExists))
		}
	}
	return m.bind(ctx, name, r.Version, id)
}

func (m *Maps) bind(ctx context.Context, name string, old kv.Version, id disk.VDiskID) (kv.Version, error) {
	next, err := m.writer.Set(ctx, m.names, kv.Key{Part: []byte(name)}, old, binary.BigEndian.AppendUint64(nil, uint64(id)))
	if errors.Is(err, kv.ErrConflict) {
		err = ErrExists
	}
	return next, wrap("name "+name, err)
}

// Confirm makes sure that a name which now counts is still the vDisk's: before it counted, another may have taken it, or may be
// about to. The name is written again, so one of both fails.
func (m *Maps) Confirm(ctx context.Context, name string, bound kv.Version, id disk.VDiskID) error {
	_, err := m.bind(ctx, name, bound, id)
	return err
}

// Rebind passes a name on to another vDisk, if nobody wrote it since Leads.
func (m *Maps) Rebind(ctx context.Context, name string, was kv.Version, id disk.VDiskID) error {
	_, err := m.bind(ctx, name, was, id)
	return err
}

// Condemn marks a vDisk as removed that no name leads to, unless one still may: the name is written again first, so that
// who is about to pass it on to the vDisk fails. A vDisk that another changes meanwhile is left alone.
func (m *Maps) Condemn(ctx context.Context, id disk.VDiskID) error {
	v, version, err := m.VDisk(ctx, id)
	if err != nil {
		return err
	}
	r, err := m.names.Get(ctx, kv.Key{Part: []byte(v.Name)})
	if err == nil && len(r.Value) == 8 {
		leads := disk.VDiskID(binary.BigEndian.Uint64(r.Value))
		if leads == id {
			return nil
		}
		_, err = m.bind(ctx, v.Name, r.Version, leads)
	}
	if err == nil || errors.Is(err, kv.ErrNotFound) {
		v.Removed = true
		_, err = m.SetVDisk(ctx, v, version)
	}
	if errors.Is(err, ErrExists) || errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

// Unbind frees a name that a vDisk has.
func (m *Maps) Unbind(ctx context.Context, name string, id disk.VDiskID) error {
	version, err := m.Leads(ctx, name, id)
	if err != nil {
		return err
	}
	return wrap("free the name "+name, m.writer.Delete(ctx, m.names, kv.Key{Part: []byte(name)}, version))
}

// Leads gives the version of a name that leads to a vDisk.
func (m *Maps) Leads(ctx context.Context, name string, id disk.VDiskID) (kv.Version, error) {
	r, err := m.names.Get(ctx, kv.Key{Part: []byte(name)})
	if err == nil && string(r.Value) != string(binary.BigEndian.AppendUint64(nil, uint64(id))) {
		err = ErrChanged
	}
	return r.Version, wrap("name "+name, err)
}
