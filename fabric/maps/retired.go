package maps

import (
	"context"
	"errors"
	"fmt"

	"gleaner/cluster"
	"gleaner/kv"
)

// Retire says that a disk is to be emptied and to get no more replicas.
func (m *Maps) Retire(ctx context.Context, id cluster.DiskID) error {
	_, err := m.writer.Update(ctx, m.retired, kv.Key{Part: []byte(id)}, func(kv.Record) ([]byte, error) { return []byte{retiredFormat}, nil })
	return wrap(fmt.Sprintf("retire disk %s", id), err)
}

const retiredFormat = 1

// Reinstate says that a disk may be used again.
func (m *Maps) Reinstate(ctx context.Context, id cluster.DiskID) error {
	key := kv.Key{Part: []byte(id)}
	r, err := m.retired.Get(ctx, key)
	if err == nil {
		err = m.writer.Delete(ctx, m.retired, key, r.Version)
	}
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	return wrap(fmt.Sprintf("use disk %s again", id), err)
}

// Retired gives the disks that are retired.
func (m *Maps) Retired(ctx context.Context) (map[cluster.DiskID]bool, error) {
	all := map[cluster.DiskID]bool{}
	for r, err := range m.retired.Scan(ctx, kv.Range{}) {
		if err != nil {
			return nil, wrap("read which disks are retired", err)
		}
		all[cluster.DiskID(r.Key.Part)] = true
	}
	return all, nil
}
