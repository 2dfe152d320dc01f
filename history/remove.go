package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
)

// rewrite makes one chunk of each day of a server, leaving out what is before
// keepFrom; the last day may stay in that many pieces. The joined chunk takes the place of the newest before the older ones are deleted,
// so at every moment the day reads the same.
func (s *Store) rewrite(ctx context.Context, server cluster.ServerID, first, last, keepFrom int64, pieces int) error {
	l, err := s.books.read(ctx)
	if err != nil {
		return err
	}
	var joined []kv.Record
	var old []kv.Key
	for d, err := range s.serverDays(ctx, l, server, first, last) {
		if err != nil {
			return err
		}
		cut := d.day*dayMilli < keepFrom
		if !cut && (len(d.chunks) == 1 || d.day == last && len(d.chunks) <= pieces) {
			continue
		}
		points, err := s.points(nil, server, d)
		if err != nil {
			return err
		}
		points = between(points, keepFrom, lastMilli)
		if len(points) > maxPoints {
			continue // readers join them
		}
		keys := d.keys
		if len(points) > 0 {
			newest := keys[len(keys)-1]
			keys = keys[:len(keys)-1]
			joined = append(joined, kv.Record{Key: chunkKey(server, newest), Value: s.codec.encode(points)})
		}
		for _, key := range keys {
			old = append(old, chunkKey(server, key))
		}
	}
	if err := put(ctx, s.samples, "samples", joined); err != nil {
		return err
	}
	return drop(ctx, s.samples, old)
}

func chunkKey(server cluster.ServerID, key rowKey) kv.Key {
	return kv.Key{Part: []byte(server), Row: key.bytes()}
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

// sweep deletes the chunks of imports that were given up.
func (s *Store) sweep(ctx context.Context, ids []uint32) error {
	if len(ids) == 0 {
		return nil
	}
	return dropAll(ctx, s.samples, kv.Range{}, func(r kv.Record) bool {
		key, err := parseRow(r.Key.Row)
		return err == nil && slices.Contains(ids, key.imported)
	})
}

// dropAll deletes the records of a range that match.
func dropAll(ctx context.Context, table kv.LooseTable, in kv.Range, match func(kv.Record) bool) error {
	var keys []kv.Key
	for record, err := range table.Scan(ctx, in) {
		if err != nil {
			return fmt.Errorf("history: delete: %w", err)
		}
		if match(record) {
			keys = append(keys, kv.Key{Part: slices.Clone(record.Key.Part), Row: slices.Clone(record.Key.Row)})
		}
	}
	return drop(ctx, table, keys)
}

// Remove forgets a server: its samples, its reimages and what is known of it.
// It reports whether there was such a server.
func (s *Store) Remove(ctx context.Context, server cluster.ServerID) (bool, error) {
	every := func(kv.Record) bool { return true }
	if err := dropAll(ctx, s.samples, kv.Range{Part: []byte(server)}, every); err != nil {
		return false, err
	}
	if err := dropAll(ctx, s.reimages, kv.Range{Part: []byte(server)}, every); err != nil {
		return false, err
	}
	found := false
	err := dropAll(ctx, s.servers, kv.Range{Part: serversPart, From: []byte(server), To: append([]byte(server), 0)},
		func(kv.Record) bool { found = true; return true })
	return found, err
}

// RemoveBefore forgets the samples and reimages from before a moment. Servers stay known.
func (s *Store) RemoveBefore(ctx context.Context, moment time.Time) error {
	servers, err := s.Servers(ctx)
	if err != nil {
		return err
	}
	milli := moment.UnixMilli()
	if milli <= 0 {
		return nil
	}
	for _, server := range servers {
		if err := s.rewrite(ctx, server.ID, 0, (milli-1)/dayMilli, milli, 1); err != nil {
			return err
		}
	}
	all, err := s.Reimages(ctx)
	if err != nil {
		return err
	}
	var keys []kv.Key
	for _, r := range all {
		if r.At.Before(moment) {
			keys = append(keys, reimageKey(r))
		}
	}
	return drop(ctx, s.reimages, keys)
}

// RemoveAll forgets everything: samples, servers and reimages.
func (s *Store) RemoveAll(ctx context.Context) error {
	for _, table := range []kv.LooseTable{s.samples, s.reimages, s.servers} {
		if err := dropAll(ctx, table, kv.Range{}, func(kv.Record) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}
