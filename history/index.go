package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"gleaner/cluster"
	"gleaner/kv"
)

// The index has a row for every chunk, under the same key: the chunk's header
// and how long the chunk is. It tells what the store holds without reading the
// samples. A row is blank while its chunk is being changed; readers then read
// the chunk. Two tables cannot be written at once, so the order of writes keeps
// this true at every moment: a row comes before its chunk and goes after it.

// An indexDay is what the index says of a server's day.
type indexDay struct {
	server cluster.ServerID
	day    int64
	keys   []rowKey // of the chunks that count, the oldest first
	header chunkHeader
	size   int  // of the chunk, in bytes
	sure   bool // header and size tell all: there is one chunk, and it is not being changed
}

// index yields the days of a range of the index; each is valid until the next.
func (s *Store) index(ctx context.Context, l *ledger, in kv.Range) iter.Seq2[*indexDay, error] {
	return func(yield func(*indexDay, error) bool) {
		var d indexDay
		for record, err := range s.headers.Scan(ctx, in) {
			var key rowKey
			if err == nil {
				key, err = parseRow(record.Key.Row)
			}
			if err != nil {
				yield(nil, fmt.Errorf("history: read the index of samples: %w", err))
				return
			}
			if !l.counts(key.imported) {
				continue
			}
			if string(d.server) != string(record.Key.Part) || d.day != key.day {
				if len(d.keys) > 0 && !yield(&d, nil) {
					return
				}
				d = indexDay{server: cluster.ServerID(record.Key.Part), day: key.day, keys: d.keys[:0]}
			}
			if err := d.add(key, record.Value); err != nil {
				yield(nil, fmt.Errorf("history: index of samples of %q on day %d: %w", d.server, d.day, err))
				return
			}
		}
		if len(d.keys) > 0 {
			yield(&d, nil)
		}
	}
}

// add adds a row to the day.
func (d *indexDay) add(key rowKey, value []byte) (err error) {
	d.keys = append(d.keys, key)
	d.sure = len(d.keys) == 1 && len(value) > 0
	if d.sure {
		d.header, d.size, err = parseIndexed(value)
	}
	return err
}

// indexed gives the row of the index for a chunk.
func indexed(chunk kv.Record) (kv.Record, error) {
	_, behind, err := readHeader(chunk.Value)
	if err != nil {
		return kv.Record{}, err
	}
	header := chunk.Value[:len(chunk.Value)-len(behind)]
	return kv.Record{Key: chunk.Key, Value: binary.AppendUvarint(header[:len(header):len(header)], uint64(len(chunk.Value)))}, nil
}

var errIndex = errors.New("damaged row")

func parseIndexed(value []byte) (chunkHeader, int, error) {
	h, behind, err := readHeader(value)
	if err != nil {
		return h, 0, err
	}
	size, n := binary.Uvarint(behind)
	if n <= 0 || n != len(behind) || size > kv.MaxValue {
		return h, 0, errIndex
	}
	return h, int(size), nil
}

// putIndexed writes the rows of the index for chunks.
func (s *Store) putIndexed(ctx context.Context, chunks []kv.Record) error {
	rows := make([]kv.Record, len(chunks))
	for i, chunk := range chunks {
		var err error
		if rows[i], err = indexed(chunk); err != nil {
			return err
		}
	}
	return put(ctx, s.headers, "the index of samples", rows)
}

// putChunks writes chunks that do not count yet.
func (s *Store) putChunks(ctx context.Context, chunks []kv.Record) error {
	if err := s.putIndexed(ctx, chunks); err != nil {
		return err
	}
	return put(ctx, s.samples, "samples", chunks)
}

// replaceChunks overwrites chunks, and then deletes old ones.
func (s *Store) replaceChunks(ctx context.Context, chunks []kv.Record, old []kv.Key) error {
	var blank []kv.Record
	for _, chunk := range chunks {
		blank = append(blank, kv.Record{Key: chunk.Key})
	}
	for _, key := range old {
		blank = append(blank, kv.Record{Key: key})
	}
	if err := put(ctx, s.headers, "the index of samples", blank); err != nil {
		return err
	}
	if err := put(ctx, s.samples, "samples", chunks); err != nil {
		return err
	}
	if err := drop(ctx, s.samples, old); err != nil {
		return err
	}
	if err := s.putIndexed(ctx, chunks); err != nil {
		return err
	}
	return drop(ctx, s.headers, old)
}

// makeIndex makes the index of a history that was kept without one.
func (s *Store) makeIndex(ctx context.Context) error {
	l, err := s.ledger.read(ctx)
	if err != nil || l.Indexed {
		return err
	}
	var rows []kv.Record
	for chunk, err := range s.samples.Scan(ctx, kv.Range{}) {
		var row kv.Record
		if err == nil {
			row, err = indexed(chunk)
		}
		if err != nil {
			return fmt.Errorf("history: make the index of samples: %w", err)
		}
		row.Key = kv.Key{Part: bytes.Clone(row.Key.Part), Row: bytes.Clone(row.Key.Row)}
		rows = append(rows, row)
	}
	if err := put(ctx, s.headers, "the index of samples", rows); err != nil {
		return err
	}
	return s.ledger.change(ctx, func(l *ledger) error { l.Indexed = true; return nil })
}
