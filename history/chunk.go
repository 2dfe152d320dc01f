package history

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// A point is a sample without its server.
type point struct {
	milli    int64
	cpu, mem int32 // millionths; mem may be absent
}

const (
	dayMilli = 24 * 60 * 60 * 1000

	// maxPoints bounds a chunk, and so the cost of decoding one.
	maxPoints = 1 << 18

	chunkVersion = 1
)

// A codec encodes points as chunks (docs/formats/history.md). It is safe for concurrent use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	// A point takes at most 10 bytes for its time and 5 for each share.
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(20*maxPoints))
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &codec{enc: enc, dec: dec}, nil
}

// A chunkHeader is what can be read of a chunk without decompressing it.
type chunkHeader struct {
	count       int
	first, last int64 // milliseconds since the day began
	unit        [3]int64
}

// The three columns of a chunk. The unit of each is the largest power of ten
// that divides all its values; a chunk without memory has the unit 0 for it.
const (
	timeColumn = iota
	cpuColumn
	memColumn
)

// encode makes a chunk of the points of one day, which are in order and without duplicates.
func (c *codec) encode(points []point) []byte {
	var unit [3]int64
	unit[timeColumn] = commonTen(points, 1000, func(p point) int64 { return p.milli })
	unit[cpuColumn] = commonTen(points, 10_000, func(p point) int64 { return int64(p.cpu) })
	if slices.ContainsFunc(points, func(p point) bool { return p.mem != absent }) {
		unit[memColumn] = commonTen(points, 10_000, func(p point) int64 { return int64(max(p.mem, 0)) })
	}

	first, last := points[0].milli%dayMilli, points[len(points)-1].milli%dayMilli
	out := make([]byte, 0, 24+2*len(points))
	out = append(out, chunkVersion)
	out = binary.AppendUvarint(out, uint64(len(points)))
	out = binary.AppendUvarint(out, uint64(first))
	out = binary.AppendUvarint(out, uint64(last-first))
	for _, u := range unit {
		out = binary.AppendUvarint(out, uint64(u))
	}
	raw := appendColumns(make([]byte, 0, 4*len(points)), points, unit)
	return c.enc.EncodeAll(raw, out)
}

// appendColumns writes the columns one after the other: times as the change of
// their interval, shares as the change from the one before. One is added to
// memory, so that 0 means that it was not recorded.
func appendColumns(raw []byte, points []point, unit [3]int64) []byte {
	interval := int64(0)
	for i, p := range points[1:] {
		next := (p.milli - points[i].milli) / unit[timeColumn]
		raw = binary.AppendVarint(raw, next-interval)
		interval = next
	}
	before, by := int64(0), unit[cpuColumn]
	for _, p := range points {
		now := int64(p.cpu) / by
		raw = binary.AppendVarint(raw, now-before)
		before = now
	}
	if by = unit[memColumn]; by == 0 {
		return raw
	}
	before = 0
	for _, p := range points {
		now := int64(0)
		if p.mem != absent {
			now = int64(p.mem)/by + 1
		}
		raw = binary.AppendVarint(raw, now-before)
		before = now
	}
	return raw
}

// commonTen gives the largest power of ten, up to most, that divides every value.
func commonTen(points []point, most int64, value func(point) int64) int64 {
	for _, p := range points {
		for v := value(p); v%most != 0; {
			most /= 10
		}
		if most == 1 {
			break
		}
	}
	return most
}

var errChunk = errors.New("history: damaged chunk")

// readHeader reads the header of a chunk and gives what follows it.
func readHeader(chunk []byte) (chunkHeader, []byte, error) {
	var h chunkHeader
	if len(chunk) == 0 || chunk[0] != chunkVersion {
		return h, nil, fmt.Errorf("%w: its version is not %d", errChunk, chunkVersion)
	}
	chunk = chunk[1:]
	var fields [6]uint64
	for i := range fields {
		v, n := binary.Uvarint(chunk)
		if n <= 0 || v > dayMilli {
			return h, nil, errChunk
		}
		fields[i], chunk = v, chunk[n:]
	}
	h = chunkHeader{count: int(fields[0]), first: int64(fields[1]), last: int64(fields[1] + fields[2]),
		unit: [3]int64{int64(fields[3]), int64(fields[4]), int64(fields[5])}}
	if h.count == 0 || h.count > maxPoints || h.last >= dayMilli || h.unit[timeColumn] == 0 || h.unit[cpuColumn] == 0 {
		return h, nil, errChunk
	}
	return h, chunk, nil
}

// decode appends the points of a chunk of the given day to points. Whatever the
// bytes are, the points are in order, within the day, and from 0 to 1.
func (c *codec) decode(points []point, day int64, chunk []byte) ([]point, error) {
	h, packed, err := readHeader(chunk)
	if err != nil {
		return points, err
	}
	raw, err := c.dec.DecodeAll(packed, nil)
	if err != nil {
		return points, fmt.Errorf("%w: %w", errChunk, err)
	}
	if len(raw) < 2*h.count-1 {
		return points, errChunk // a value takes a byte at least
	}
	old := len(points)
	points = slices.Grow(points, h.count)[:old+h.count]
	if readColumns(points[old:], raw, day*dayMilli+h.first, h) {
		return points, nil
	}
	return points[:old], errChunk
}

// readColumns is the inverse of appendColumns; it reports whether the columns are valid.
func readColumns(points []point, raw []byte, first int64, h chunkHeader) bool {
	ok := true
	next := func() int64 {
		if len(raw) > 0 && raw[0] < 0x80 { // most values
			v := int64(raw[0])
			raw = raw[1:]
			return v>>1 ^ -(v & 1)
		}
		v, n := binary.Varint(raw)
		ok = ok && n > 0
		raw = raw[max(n, 0):]
		return v
	}
	milli, interval := first, int64(0)
	points[0].milli = milli
	for i := range points[1:] {
		interval += next()
		ok = ok && interval > 0 && interval <= dayMilli
		milli += interval * h.unit[timeColumn]
		points[i+1].milli = milli
	}
	ok = ok && milli-first == h.last-h.first
	now := int64(0)
	for i := range points {
		now += next()
		ok = ok && uint64(now) <= million
		points[i].cpu = int32(now * h.unit[cpuColumn])
		ok = ok && uint32(points[i].cpu) <= million
		points[i].mem = absent
	}
	if h.unit[memColumn] == 0 {
		return ok && len(raw) == 0
	}
	now = 0
	for i := range points {
		now += next()
		ok = ok && uint64(now) <= million+1
		if now > 0 {
			points[i].mem = int32((now - 1) * h.unit[memColumn])
			ok = ok && uint32(points[i].mem) <= million
		}
	}
	return ok && len(raw) == 0
}

// merge merges sorted points with newer sorted ones; of two at one moment the newer wins.
func merge(old, newer []point) []point {
	out := make([]point, 0, len(old)+len(newer))
	for len(old) > 0 && len(newer) > 0 {
		switch {
		case old[0].milli < newer[0].milli:
			out, old = append(out, old[0]), old[1:]
		case old[0].milli > newer[0].milli:
			out, newer = append(out, newer[0]), newer[1:]
		default:
			old = old[1:]
		}
	}
	return append(append(out, old...), newer...)
}

// order sorts points by time; of several at one moment it keeps the one added last.
func order(points []point) []point {
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.milli, b.milli) })
	kept := points[:0]
	for i, p := range points {
		if i+1 == len(points) || points[i+1].milli != p.milli {
			kept = append(kept, p)
		}
	}
	return kept
}
