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

// A Parser reads flat keys one after the other. Most keys have the part of the
// one before, so it keeps the last part, and allocates only for a longer one.
type Parser struct {
	flat []byte // the last part that has 0x00 in it, flat, with its end
	part []byte // and as it is
}

// Parse gives the part and the row of the key whose flat form is b. They share the bytes of b and of
// the parser, and are valid until the next one is parsed.
func (p *Parser) Parse(b []byte) (part, row []byte, err error) {
	if n := len(p.flat); n > 0 && len(b) >= n && bytes.Equal(b[:n], p.flat) {
		return p.part, b[n:], nil
	}
	i := bytes.IndexByte(b, escape)
	if i >= 0 && i+1 < len(b) && b[i+1] == end {
		return b[:i:i], b[i+2:], nil
	}
	return p.unescape(b)
}

// unescape is Parse for a part that has 0x00 in it.
func (p *Parser) unescape(b []byte) (part, row []byte, err error) {
	p.flat, p.part = p.flat[:0], p.part[:0]
	for i := 0; i < len(b); i++ {
		if b[i] != escape {
			p.part = append(p.part, b[i])
			continue
		}
		if i++; i == len(b) {
			break
		}
		switch b[i] {
		case end:
			p.flat = append(p.flat, b[:i+1]...)
			return p.part, b[i+1:], nil
		case zero:
			p.part = append(p.part, 0)
		default:
			return nil, nil, errShape
		}
	}
	return nil, nil, errShape
}

// Rest gives the keys of r after last.
func Rest(r kv.Range, last kv.Key) kv.Range {
	if len(r.Part) > 0 {
		r.From = append(bytes.Clone(last.Row), 0)
	} else {
		r.From = append(Append(nil, last), 0)
	}
	return r
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
