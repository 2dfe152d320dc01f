// Package flat writes a key of two parts as one string of bytes, so that flat
// keys sort as keys do: by part, then by row. docs/formats/kv.md has the layout.
package flat

import (
	"bytes"
	"errors"

	"gleaner/kv"
)

const (
	escape = 0x00 // begins every mark
	end    = 0x01 // escape, end: the part ends here
	zero   = 0xff // escape, zero: a 0x00 of the part
)

// Append appends the flat form of key to dst.
func Append(dst []byte, key kv.Key) []byte {
	return append(appendPart(dst, key.Part, end), key.Row...)
}

func appendPart(dst, part []byte, mark byte) []byte {
	for {
		i := bytes.IndexByte(part, escape)
		if i < 0 {
			return append(append(dst, part...), escape, mark)
		}
		dst = append(append(dst, part[:i]...), escape, zero)
		part = part[i+1:]
	}
}

var errShape = errors.New("kv: a key on disk does not parse")

// Parse gives the key whose flat form is b. It shares b's bytes where it can.
func Parse(b []byte) (kv.Key, error) {
	i := bytes.IndexByte(b, escape)
	if i >= 0 && i+1 < len(b) && b[i+1] == end {
		return kv.Key{Part: b[:i:i], Row: b[i+2:]}, nil
	}
	return unescape(b)
}

// unescape is Parse for a part that has 0x00 in it.
func unescape(b []byte) (kv.Key, error) {
	var part []byte
	for {
		i := bytes.IndexByte(b, escape)
		if i < 0 || i+1 == len(b) {
			return kv.Key{}, errShape
		}
		part = append(part, b[:i]...)
		switch b[i+1] {
		case end:
			return kv.Key{Part: part, Row: b[i+2:]}, nil
		case zero:
			part = append(part, 0)
		default:
			return kv.Key{}, errShape
		}
		b = b[i+2:]
	}
}

// Bounds gives the flat keys of r as lo <= key < hi, each after prefix, whose
// last byte is not 0xff. Bounds of a range without a part are flat already.
func Bounds(prefix []byte, r kv.Range) (lo, hi []byte) {
	lo, hi = bytes.Clone(prefix), bytes.Clone(prefix)
	if len(r.Part) > 0 {
		lo = appendPart(lo, r.Part, end)
		if r.To == nil {
			return append(lo, r.From...), appendPart(hi, r.Part, end+1)
		}
		return append(lo, r.From...), append(appendPart(hi, r.Part, end), r.To...)
	}
	if r.To == nil && len(hi) > 0 {
		hi[len(hi)-1]++
	}
	return append(lo, r.From...), append(hi, r.To...)
}
