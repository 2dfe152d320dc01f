package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
)

// A rowKey is the row of a chunk. Rows of a server are in the order of days,
// and within a day in the order of imports.
type rowKey struct {
	day           int64 // since 1970
	imported, nth uint32
}

func (k rowKey) bytes() []byte {
	row := binary.BigEndian.AppendUint32(nil, uint32(k.day))
	row = binary.BigEndian.AppendUint32(row, k.imported)
	return binary.BigEndian.AppendUint32(row, k.nth)
}

// key is the key of that chunk of a server.
func (k rowKey) key(server cluster.ServerID) kv.Key {
	return kv.Key{Part: []byte(server), Row: k.bytes()}
}

func parseRow(row []byte) (rowKey, error) {
	if len(row) != 12 {
		return rowKey{}, fmt.Errorf("history: damaged row %x", row)
	}
	return rowKey{int64(binary.BigEndian.Uint32(row)), binary.BigEndian.Uint32(row[4:]), binary.BigEndian.Uint32(row[8:])}, nil
}

// days gives the range of a server's rows from the first day to the last.
func days(server cluster.ServerID, first, last int64) kv.Range {
	return kv.Range{Part: []byte(server), From: rowKey{day: first}.bytes(), To: rowKey{day: last + 1}.bytes()}
}

// A serverDay is the chunks of a server and day that count, the oldest first.
// Usually there is one.
type serverDay struct {
	day    int64
	keys   []rowKey
	chunks [][]byte
}

// serverDays yields the days of a server; each is valid until the next.
func (s *Store) serverDays(ctx context.Context, l *ledger, server cluster.ServerID, first, last int64) iter.Seq2[*serverDay, error] {
	return func(yield func(*serverDay, error) bool) {
		var d serverDay
		for record, err := range s.samples.Scan(ctx, days(server, first, last)) {
			var key rowKey
			if err == nil {
				key, err = parseRow(record.Key.Row)
			}
			if err != nil {
				yield(nil, fmt.Errorf("history: read samples of %q: %w", server, err))
				return
			}
			if !l.counts(key.imported) {
				continue
			}
			if len(d.keys) > 0 && d.day != key.day {
				if !yield(&d, nil) {
					return
				}
				d.keys, d.chunks = d.keys[:0], d.chunks[:0]
			}
			d.day, d.keys, d.chunks = key.day, append(d.keys, key), append(d.chunks, bytes.Clone(record.Value))
		}
		if len(d.keys) > 0 {
			yield(&d, nil)
		}
	}
}

// points appends the day's points, in order, to into.
func (s *Store) points(into []point, server cluster.ServerID, d *serverDay) ([]point, error) {
	for i, chunk := range d.chunks {
		old := len(into)
		var err error
		if into, err = s.codec.decode(into, d.day, chunk); err != nil {
			return into, fmt.Errorf("history: samples of %q on day %d: %w", server, d.day, err)
		}
		if i > 0 {
			into = merge(into[:old], into[old:])
		}
	}
	return into, nil
}

// Samples yields the samples of a server from (inclusive) to (exclusive), in order.
func (s *Store) Samples(ctx context.Context, server cluster.ServerID, from, to time.Time) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		l, err := s.ledger.read(ctx)
		if err != nil {
			yield(Sample{}, err)
			return
		}
		for points, err := range s.eachDay(ctx, l, server, from.UnixMilli(), to.UnixMilli()) {
			if err != nil {
				yield(Sample{}, err)
				return
			}
			for _, p := range points {
				if !yield(Sample{Milli: p.milli, Server: server, CPU: fromMillionths(p.cpu), Mem: fromMillionths(p.mem)}, nil) {
					return
				}
			}
		}
	}
}

// eachDay yields a server's points from (inclusive) to (exclusive), a day at a
// time; they are valid until the next day's.
func (s *Store) eachDay(ctx context.Context, l *ledger, server cluster.ServerID, from, to int64) iter.Seq2[[]point, error] {
	return func(yield func([]point, error) bool) {
		from, to = max(from, 0), min(to, lastMilli)
		if from >= to {
			return
		}
		var points []point
		for d, err := range s.serverDays(ctx, l, server, from/dayMilli, (to-1)/dayMilli) {
			if err == nil {
				points, err = s.points(points[:0], server, d)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(between(points, from, to), nil) {
				return
			}
		}
	}
}

// between gives the points from (inclusive) to (exclusive).
func between(points []point, from, to int64) []point {
	at := func(milli int64) int {
		i, _ := slices.BinarySearchFunc(points, milli, func(p point, m int64) int { return cmp.Compare(p.milli, m) })
		return i
	}
	return points[at(from):at(to)]
}
