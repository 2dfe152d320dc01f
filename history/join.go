package history

import (
	"context"
	"slices"

	"gleaner/cluster"
	"gleaner/kv"
)

// join makes one chunk of each day of a server that has several; the last day may
// keep as many as pieces. The joined chunk replaces the newest before the older
// ones are deleted, so the day reads the same at every moment. Days are skipped
// while an import with a lower number is under way: its samples would be older
// than the joined chunk, and the samples it replaces are part of that.
func (s *Store) join(ctx context.Context, server cluster.ServerID, first, last int64, pieces int) error {
	l, err := s.ledger.read(ctx)
	if err != nil {
		return err
	}
	var joined []kv.Record
	var old []kv.Key
	for d, err := range s.index(ctx, l, days(server, first, last)) {
		if err != nil {
			return err
		}
		newest := d.keys[len(d.keys)-1]
		earlier := slices.ContainsFunc(l.Open, func(id uint32) bool { return id < newest.imported })
		if len(d.keys) == 1 || d.day == last && len(d.keys) <= pieces || earlier {
			continue
		}
		if joined, old, err = s.joinDay(ctx, l, server, d.day, joined, old); err != nil {
			return err
		}
	}
	return s.replaceChunks(ctx, joined, old)
}

// joinDay appends the joined chunk of a day to joined, and the keys of those it replaces to old.
func (s *Store) joinDay(ctx context.Context, l *ledger, server cluster.ServerID, day int64, joined []kv.Record, old []kv.Key) ([]kv.Record, []kv.Key, error) {
	for d, err := range s.serverDays(ctx, l, server, day, day) {
		if err != nil {
			return nil, nil, err
		}
		points, err := s.points(nil, server, d)
		if err != nil {
			return nil, nil, err
		}
		if len(points) > maxPoints {
			continue // too many for a chunk: readers merge them
		}
		n := len(d.keys) - 1
		joined = append(joined, kv.Record{Key: d.keys[n].key(server), Value: s.codec.encode(points)})
		for _, key := range d.keys[:n] {
			old = append(old, key.key(server))
		}
	}
	return joined, old, nil
}
