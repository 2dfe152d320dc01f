package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"gleaner/kv"
	"gleaner/kv/internal/flat"
)

const (
	// smallTable is the size up to which Split weighs every record itself:
	// Pebble's estimates count whole blocks, which is too coarse below.
	smallTable = 8 << 20
	// unseen is how many times larger a table's files must be than what is only
	// in memory and the log, which estimates leave out, for Split to trust the estimates.
	unseen = 5
	// grains is how many pieces Split weighs for each range it makes, so a
	// range is off by about a grains-th part, or by a few blocks.
	grains = 16
)

// Split weighs ranges by the space they take on disk.
func (t *table) Split(ctx context.Context, n int) ([]kv.Range, error) {
	if n < 1 {
		return nil, fmt.Errorf("kv: cannot cut a table into %d ranges", n)
	}
	if n == 1 {
		return []kv.Range{{}}, nil
	}
	lo, hi := flat.Bounds(t.prefix, kv.Range{})
	it, err := t.store.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, t.failed("split", err)
	}
	defer it.Close()
	s := scale{db: t.store.db, it: it}
	total := s.estimate(lo, hi)
	if total <= max(smallTable, unseen*t.store.db.Metrics().WAL.Size) {
		s.weighEach(n * grains)
	} else if it.First() {
		s.weigh(bytes.Clone(it.Key()), s.seek(it.SeekLT, hi), max(2*blockSize, total/uint64(n*grains)))
	}
	if err := errors.Join(s.err, it.Error(), ctx.Err()); err != nil {
		return nil, t.failed("split", err)
	}
	return cut(s.pieces, n, len(t.prefix)), nil
}

// A piece is some keys of a table: from its first up to the next piece's first.
type piece struct {
	from   []byte
	weight uint64
}

// A scale weighs a table in pieces, in the order of their keys.
type scale struct {
	db     *pebble.DB
	it     *pebble.Iterator
	pieces []piece
	err    error
}

func (s *scale) estimate(lo, hi []byte) uint64 {
	size, err := s.db.EstimateDiskUsage(lo, hi)
	s.err = errors.Join(s.err, err)
	return size
}

// weighEach weighs every record. It makes a piece of each, or of several, so that there are
// never more than twice as many pieces as enough.
func (s *scale) weighEach(enough int) {
	var sum, grain uint64
	for ok := s.it.First(); ok; ok = s.it.Next() {
		value, err := s.it.ValueAndErr()
		s.err = errors.Join(s.err, err)
		weight := uint64(len(s.it.Key()) + len(value))
		sum += weight
		if last := len(s.pieces) - 1; last >= 0 && s.pieces[last].weight < grain {
			s.pieces[last].weight += weight
			continue
		}
		if len(s.pieces) == 2*enough {
			s.halve()
			grain = sum / uint64(enough)
		}
		s.add(bytes.Clone(s.it.Key()), weight)
	}
}

// halve joins every two pieces.
func (s *scale) halve() {
	half := s.pieces[:len(s.pieces)/2]
	for i := range half {
		half[i] = piece{s.pieces[2*i].from, s.pieces[2*i].weight + s.pieces[2*i+1].weight}
	}
	s.pieces = half
}

// weigh makes pieces of at most grain of the keys from first to last, both of
// which are there, as far as Pebble's estimates tell keys apart.
func (s *scale) weigh(first, last []byte, grain uint64) {
	size := s.estimate(first, last)
	if size <= grain || bytes.Equal(first, last) || s.err != nil {
		s.add(first, size)
		return
	}
	mid := between(first, last)
	left := s.seek(s.it.SeekLT, mid)
	right := s.seek(s.it.SeekGE, mid)
	if s.err == nil {
		s.weigh(first, left, grain)
		s.weigh(right, last, grain)
	}
}

// seek gives the key next to the given one. There is one unless the disk fails.
func (s *scale) seek(to func([]byte) bool, key []byte) []byte {
	if !to(key) {
		s.err = errors.Join(s.err, s.it.Error(), errGone)
		return nil
	}
	return bytes.Clone(s.it.Key())
}

var errGone = errors.New("a key is gone from a snapshot")

func (s *scale) add(from []byte, weight uint64) {
	s.pieces = append(s.pieces, piece{from, weight})
}

// between gives a key about halfway between a and b as numbers: a < key <= b.
func between(a, b []byte) []byte {
	same := 0
	for same < len(a) && a[same] == b[same] {
		same++
	}
	x, y := number(a[same:]), number(b[same:])
	mid := x + (y-x)/2
	if mid == x {
		return b
	}
	return binary.BigEndian.AppendUint64(bytes.Clone(b[:same]), mid)
}

// number reads the first 8 bytes of b, or all and then zeros.
func number(b []byte) uint64 {
	var digits [8]byte
	copy(digits[:], b)
	return binary.BigEndian.Uint64(digits[:])
}

// cut joins pieces to at most n ranges of about equal weight, and takes off
// the first skip bytes of their keys.
func cut(pieces []piece, n, skip int) []kv.Range {
	var total, sum uint64
	for _, p := range pieces {
		total += p.weight
	}
	ranges := []kv.Range{{}}
	for i, p := range pieces {
		if i > 0 && sum >= total*uint64(len(ranges))/uint64(n) && len(ranges) < n {
			from := p.from[skip:]
			ranges[len(ranges)-1].To = from
			ranges = append(ranges, kv.Range{From: from})
		}
		sum += p.weight
	}
	return ranges
}
