package cassandra

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"gleaner/kv"
	"gleaner/kv/internal/flat"
)

// A token is a place on the ring of Cassandra's Murmur3Partitioner, which orders
// parts. Here it counts from 0, where Cassandra counts from -2^63; no part has 0.
type token uint64

const lastToken token = math.MaxUint64

// cql is the token as Cassandra writes it.
func (t token) cql() int64 { return int64(t ^ 1<<63) }

// tokenOf gives the token of a part.
func tokenOf(part []byte) token {
	h := int64(murmur3(part))
	if h == math.MinInt64 {
		h = math.MaxInt64 // as Cassandra does: the least means "before all"
	}
	return token(h) ^ 1<<63
}

// murmur3 is the first half of MurmurHash3 (x64, 128 bits, seed 0) with
// Cassandra's mistake, which can never be mended: the last bytes, those after the
// last block of 16, have a sign.
func murmur3(data []byte) uint64 {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	mix1 := func(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
	mix2 := func(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }
	var h1, h2 uint64
	size := uint64(len(data))
	for ; len(data) >= 16; data = data[16:] {
		h1 ^= mix1(binary.LittleEndian.Uint64(data))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mix2(binary.LittleEndian.Uint64(data[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	h1 ^= mix1(signed(data[:min(8, len(data))]))
	h2 ^= mix2(signed(data[min(8, len(data)):]))
	h1, h2 = h1^size, h2^size
	h1 += h2
	h2 += h1
	return finish(h1) + finish(h2)
}

// signed reads up to 8 bytes, the least significant first, each with its sign.
func signed(tail []byte) (k uint64) {
	for i, b := range tail {
		k ^= uint64(int64(int8(b))) << (8 * i)
	}
	return k
}

func finish(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// A place is a bound of a range of the whole table: after all parts up to a
// token, or with a key after that record.
type place struct {
	token token
	after *kv.Key
}

// bytes is how a range keeps a place (docs/formats/kv.md).
func (p place) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(p.token))
	if p.after != nil {
		b = flat.Append(b, *p.after)
	}
	return b
}

func parsePlace(b []byte) (p place, err error) {
	if len(b) < 8 {
		return p, fmt.Errorf("kv: %q is no bound of a range", b)
	}
	p.token = token(binary.BigEndian.Uint64(b))
	if len(b) == 8 {
		return p, nil
	}
	part, row, err := new(flat.Parser).Parse(b[8:])
	if err == nil && tokenOf(part) != p.token {
		err = fmt.Errorf("kv: %q is no bound of a range", b)
	}
	p.after = &kv.Key{Part: part, Row: row}
	return p, err
}

// bounds gives the places of a range of the whole table.
func bounds(r kv.Range) (from place, to token, err error) {
	to = lastToken
	if r.From != nil {
		if from, err = parsePlace(r.From); err != nil {
			return from, to, err
		}
	}
	if r.To != nil {
		end, err := parsePlace(r.To)
		if err == nil && end.after != nil {
			err = fmt.Errorf("kv: %q is no upper bound of a range", r.To)
		}
		return from, end.token, err
	}
	return from, to, nil
}

// cut divides the ring evenly. The partitioner spreads parts evenly over it,
// so ranges are about equal if there are many parts of about equal size.
func cut(n int) []kv.Range {
	n = min(n, 1<<20)
	ranges := make([]kv.Range, n)
	step := uint64(math.MaxUint64) / uint64(n)
	for i := range n - 1 {
		ranges[i].To = place{token: token(step * uint64(i+1))}.bytes()
		ranges[i+1].From = ranges[i].To
	}
	return ranges
}
