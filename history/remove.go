package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
)

// cut removes the samples of a server from before a moment.
func (s *Store) cut(ctx context.Context, l *ledger, server cluster.ServerID, before int64) error {
	var shorter []kv.Record
	var old []kv.Key
	for d, err := range s.index(ctx, l, days(server, 0, before/dayMilli-1)) {
		if err != nil {
			return err
		}
		for _, key := range d.keys {
			old = append(old, key.key(server))
		}
	}
	for d, err := range s.serverDays(ctx, l, server, before/dayMilli, before/dayMilli) {
		if err != nil {
			return err
		}
		for i, chunk := range d.chunks {
			points, err := s.codec.decode(nil, d.day, chunk)
			if err != nil {
				return fmt.Errorf("history: samples of %q on day %d: %w", server, d.day, err)
			}
			left := between(points, before, lastMilli)
			switch key := d.keys[i].key(server); len(left) {
			case len(points):
			case 0:
				old = append(old, key)
			default:
				shorter = append(shorter, kv.Record{Key: key, Value: s.codec.encode(left)})
			}
		}
	}
	return s.replaceChunks(ctx, shorter, old)
}

// drop deletes keys, if there are any.
func drop(ctx context.Context, table kv.LooseTable, keys []kv.Key) error {
	if len(keys) == 0 {
		return nil
	}
	if err := table.Delete(ctx, keys...); err != nil {
		return fmt.Errorf("history: delete: %w", err)
	}
	return nil
}

// sweep deletes what imports that were given up have written.
func (s *Store) sweep(ctx context.Context, ids []uint32) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.dropChunks(ctx, kv.Range{}, func(r kv.Record) bool {
		key, err := parseRow(r.Key.Row)
		return err == nil && slices.Contains(ids, key.imported)
	}); err != nil {
		return err
	}
	by := func(number func([]byte) (uint32, bool)) func(kv.Record) bool {
		return func(r kv.Record) bool {
			id, has := number(r.Key.Row)
			return has && slices.Contains(ids, id)
		}
	}
	if err := dropAll(ctx, s.servers, kv.Range{}, by(serverNumber)); err != nil {
		return err
	}
	return dropAll(ctx, s.reimages, kv.Range{}, by(reimageNumber))
}

func every(kv.Record) bool { return true }

// dropChunks deletes the chunks of a range whose rows of the index match.
func (s *Store) dropChunks(ctx context.Context, in kv.Range, match func(kv.Record) bool) error {
	keys, err := matching(ctx, s.headers, in, match)
	if err != nil {
		return err
	}
	return s.replaceChunks(ctx, nil, keys)
}

// dropAll deletes the records of a range that match.
func dropAll(ctx context.Context, table kv.LooseTable, in kv.Range, match func(kv.Record) bool) error {
	keys, err := matching(ctx, table, in, match)
	if err != nil {
		return err
	}
	return drop(ctx, table, keys)
}

// matching gives the keys of the records of a range that match.
func matching(ctx context.Context, table kv.LooseTable, in kv.Range, match func(kv.Record) bool) ([]kv.Key, error) {
	var keys []kv.Key
	for record, err := range table.Scan(ctx, in) {
		if err != nil {
			return nil, fmt.Errorf("history: delete: %w", err)
		}
		if match(record) {
			keys = append(keys, kv.Key{Part: slices.Clone(record.Key.Part), Row: slices.Clone(record.Key.Row)})
		}
	}
	return keys, nil
}

// Remove deletes a server: its samples, its reimages and what is known about it.
// It reports whether there was such a server.
func (s *Store) Remove(ctx context.Context, server cluster.ServerID) (bool, error) {
	l, err := s.ledger.read(ctx)
	if err != nil {
		return false, err
	}
	if err := s.dropChunks(ctx, kv.Range{Part: []byte(server)}, every); err != nil {
		return false, err
	}
	if err := dropAll(ctx, s.reimages, kv.Range{Part: []byte(server)}, every); err != nil {
		return false, err
	}
	found := false
	err = dropAll(ctx, s.servers, serverRows(server), func(r kv.Record) bool {
		id, has := serverNumber(r.Key.Row)
		found = found || !has || l.counts(id)
		return true
	})
	return found, err
}

// RemoveBefore deletes the samples and reimages from before a moment. Servers stay known.
func (s *Store) RemoveBefore(ctx context.Context, moment time.Time) error {
	milli := min(moment.UnixMilli(), lastMilli)
	if milli <= 0 {
		return nil
	}
	l, err := s.ledger.read(ctx)
	if err != nil {
		return err
	}
	servers, err := s.countedServers(ctx, l)
	if err != nil {
		return err
	}
	for _, server := range servers {
		if err := s.cut(ctx, l, server.ID, milli); err != nil {
			return err
		}
	}
	return dropAll(ctx, s.reimages, kv.Range{}, func(r kv.Record) bool { return reimageMilli(r.Key.Row) < milli })
}

// RemoveAll deletes all samples, servers and reimages.
func (s *Store) RemoveAll(ctx context.Context) error {
	if err := s.dropChunks(ctx, kv.Range{}, every); err != nil {
		return err
	}
	if err := dropAll(ctx, s.reimages, kv.Range{}, every); err != nil {
		return err
	}
	return dropAll(ctx, s.servers, kv.Range{}, every)
}
