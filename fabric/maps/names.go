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
