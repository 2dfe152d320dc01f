// Package frame writes calls and replies as bytes: numbers, texts and messages
// in frames with their length before them (docs/formats/lean.md).
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"gleaner/trace"
)

// maxFrame is the largest frame accepted.
const maxFrame = 16 << 20

// Append appends a frame of what body appends, with its length before it.
func Append(b []byte, body func([]byte) []byte) []byte {
	at := len(b)
	b = body(append(b, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// Text appends a text.
func Text(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Leaves appends a message.
func Leaves(b []byte, leaves []trace.Leaf) []byte {
	b = binary.AppendUvarint(b, uint64(len(leaves)))
	for _, l := range leaves {
		b = append(Text(b, l.Path), byte(l.Kind))
		b = Text(b, l.Value)
	}
	return b
}

// Read reads the body of one frame into buf.
func Read(r io.Reader, buf *[]byte) error {
	*buf = append((*buf)[:0], 0, 0, 0, 0)
	if _, err := io.ReadFull(r, *buf); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(*buf)
	if length > maxFrame {
		return fmt.Errorf("frame: a frame of %d bytes", length)
	}
	if cap(*buf) < int(length) {
		*buf = make([]byte, length)
	}
	*buf = (*buf)[:length]
	_, err := io.ReadFull(r, *buf)
	return err
}

var errShort = errors.New("frame: the frame ends too early")

// A Parser reads the parts of a frame. It remembers if one was missing, and End reports
// it.
type Parser struct {
	Body []byte
	bad  bool
}

// Number reads a number.
func (p *Parser) Number() uint64 {
	v, n := binary.Uvarint(p.Body)
	if n <= 0 {
		p.bad, p.Body = true, nil
		return 0
	}
	p.Body = p.Body[n:]
	return v
}

// Text reads a text.
func (p *Parser) Text() string {
	n := p.Number()
	if n > uint64(len(p.Body)) {
		p.bad, p.Body = true, nil
		return ""
	}
	s := string(p.Body[:n])
	p.Body = p.Body[n:]
	return s
}

// Leaves reads a message.
func (p *Parser) Leaves() []trace.Leaf {
	n := p.Number()
	if n > uint64(len(p.Body)) { // each leaf takes three bytes or more
		p.bad = true
		return nil
	}
	out := make([]trace.Leaf, 0, n)
	for range n {
		l := trace.Leaf{Path: p.Text()}
		if len(p.Body) == 0 || p.Body[0] > byte(trace.String) {
			p.bad = true
			return nil
		}
		l.Kind, p.Body = trace.Kind(p.Body[0]), p.Body[1:]
		l.Value = p.Text()
		out = append(out, l)
	}
	return out
}

// End is an error if the frame was too short or too long.
func (p *Parser) End() error {
	if p.bad || len(p.Body) > 0 {
		return errShort
	}
	return nil
}
