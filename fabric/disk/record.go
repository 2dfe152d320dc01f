package disk

import "encoding/binary"

// A record of the log is a header, a body and the header again, all in units of
// recordUnit. The second header says what the record was when the first is rotten.
const (
	recordUnit = 128
	mostLogged = 64 << 10                     // larger writes go in place
	mostSlices = mostLogged/SliceSize + 1     // of a record: a part may begin inside a slice
	sumBytes   = 12                           // of a slice in the body of an inPlace record
	frame      = 2 * recordUnit               // header and header again
	maxRecord  = frame + mostSlices*SliceSize // the longest
)

type recordKind uint8

const (
	logged  recordKind = iota + 1 // slices, in the body
	inPlace                       // checksums of slices that are written in place: new, and what was before
	mark                          // nothing but how far all is synced
	pad                           // nothing: the ring begins again
	made                          // that a group is being made
	intent                        // that groups, as many as count, may be overwritten in place before it is told how
)

// record is the header of one.
type record struct {
	kind  recordKind
	at    uint64 // where it stands in the log, counted from the log's first byte ever
	group GroupID
	first int // slice
	count int // slices; groups of an intent
	body  int // bytes
	// synced says that the log was on stable storage up to there when the record
	// was written, placed the same of slices written in place.
	synced, placed uint64
	sums           [mostSlices]uint32 // of the slices; of the body in sums[0] where it is inPlace
}

func (r record) length() uint64 {
	if r.kind == pad { // the last unit of the ring has room for one header only
		return uint64(recordUnit + r.body)
	}
	return uint64(frame + r.body)
}

func (r record) encode(salt uint64, out []byte) {
	clear(out[:recordUnit])
	le := binary.LittleEndian
	le.PutUint64(out[0:], salt)
	le.PutUint64(out[8:], r.at)
	le.PutUint64(out[16:], uint64(r.group))
	le.PutUint64(out[24:], r.synced)
	le.PutUint64(out[32:], r.placed)
	le.PutUint32(out[40:], uint32(r.body))
	le.PutUint16(out[44:], uint16(r.first))
	le.PutUint16(out[46:], uint16(r.count))
	out[48] = byte(r.kind)
	for i, sum := range r.sums {
		le.PutUint32(out[52+4*i:], sum)
	}
	le.PutUint32(out[124:], checksum(out[:124]))
}

func decodeRecord(salt uint64, data []byte) (record, bool) {
	le := binary.LittleEndian
	if len(data) < recordUnit || le.Uint64(data) != salt || le.Uint32(data[124:]) != checksum(data[:124]) {
		return record{}, false
	}
	r := record{
		kind:   recordKind(data[48]),
		at:     le.Uint64(data[8:]),
		group:  GroupID(le.Uint64(data[16:])),
		synced: le.Uint64(data[24:]),
		placed: le.Uint64(data[32:]),
		body:   int(le.Uint32(data[40:])),
		first:  int(le.Uint16(data[44:])),
		count:  int(le.Uint16(data[46:])),
	}
	for i := range r.sums {
		r.sums[i] = le.Uint32(data[52+4*i:])
	}
	return r, r.sound()
}

// sound says whether a header is one that this package writes.
func (r record) sound() bool {
	fits := r.count > 0 && r.first+r.count <= SlicesPerGroup
	switch r.kind {
	case logged:
		return fits && r.count <= mostSlices && r.body == r.count*SliceSize
	case inPlace:
		return fits && r.body == sumsLength(r.count)
	case mark, made:
		return r.count == 0 && r.body == 0
	case intent:
		return r.count > 0 && r.count <= widestIntent && r.body == 0
	case pad:
		return r.count == 0 && r.body < maxRecord && r.body%recordUnit == 0
	}
	return false
}

// sumsLength is the length of the body of an inPlace record.
func sumsLength(count int) int { return (count*sumBytes + recordUnit - 1) / recordUnit * recordUnit }

// placement is one slice of an inPlace record.
type placement struct {
	sum    uint32
	before entry
}

func (p placement) encode(out []byte) {
	binary.LittleEndian.PutUint32(out, p.sum)
	binary.LittleEndian.PutUint32(out[4:], p.before.sum)
	binary.LittleEndian.PutUint32(out[8:], uint32(p.before.state))
}

func decodePlacement(data []byte) placement {
	return placement{
		sum:    binary.LittleEndian.Uint32(data),
		before: entry{state(binary.LittleEndian.Uint32(data[8:])), binary.LittleEndian.Uint32(data[4:])},
	}
}
