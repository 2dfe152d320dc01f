package shuffle

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Format is the format of runs. It is kept with what names runs, so that runs of
// another format are not read.
const Format = 1

// A Run is a sorted file of pairs, with a section for each partition.
type Run struct {
	Name string  `json:"name"`
	Ends []int64 `json:"ends"` // where each section ends; the first begins at 0
}

// Section gives the section of a partition.
func (r Run) Section(part int) Section {
	s := Section{Run: r.Name, To: r.Ends[part]}
	if part > 0 {
		s.From = r.Ends[part-1]
	}
	return s
}

// Size is the length of the run in bytes.
func (r Run) Size() int64 { return r.Ends[len(r.Ends)-1] }

// A Section is a part of a run that is sorted in itself.
type Section struct {
	Run      string
	From, To int64
}

// Damaged is the error for a run that is missing, short or changed.
type Damaged struct {
	Run string
	Err error
}

func (d *Damaged) Error() string { return fmt.Sprintf("run %s: %v", d.Run, d.Err) }

// Unwrap returns what is wrong with the run.
func (d *Damaged) Unwrap() error { return d.Err }

// A block is a header and whole pairs. The header is the checksum of what
// follows it, and the length of the pairs.
const headerSize = 8

// maxBlock is more than any block has: a pair is at most a value of kv and some keys.
const maxBlock = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BlockSize is how long blocks are made if a sorter or a merge has so much memory.
func BlockSize(memory int) int { return min(max(memory/64, 64), 32<<10) }

// A writer writes a run. After an error it does nothing but return it.
type writer struct {
	to    io.WriteCloser
	block []byte // header and pairs
	size  int
	at    int64
	err   error
}

func (w *writer) open(ctx context.Context, space Space, name string, size int) (*writer, error) {
	to, err := space.Create(ctx, name)
	*w = writer{to: to, block: append(w.block[:0], make([]byte, headerSize)...), size: size}
	return w, err
}

func (w *writer) add(p Pair) {
	b := binary.AppendUvarint(w.block, uint64(p.Job))
	b = binary.AppendUvarint(b, uint64(len(p.Key)))
	b = append(b, p.Key...)
	b = append(b, p.Source)
	b = binary.AppendUvarint(b, uint64(len(p.Value)))
	w.block = append(b, p.Value...)
	if len(w.block) >= w.size {
		w.flush()
	}
}

func (w *writer) flush() {
	if len(w.block) == headerSize {
		return
	}
	seal(w.block)
	if w.err == nil {
		_, w.err = w.to.Write(w.block)
	}
	w.at += int64(len(w.block))
	w.block = w.block[:headerSize]
}

// seal writes the header of a block.
func seal(block []byte) {
	binary.BigEndian.PutUint32(block[4:], uint32(len(block)-headerSize))
	binary.BigEndian.PutUint32(block, crc32.Checksum(block[4:], castagnoli))
}

// endSection ends a section, and gives where.
func (w *writer) endSection() int64 {
	w.flush()
	return w.at
}

func (w *writer) close() error { return errors.Join(w.err, w.to.Close()) }

// A cursor reads the pairs of a section. Its pair is valid until the next.
type cursor struct {
	Pair
	of    Section
	from  Source
	block []byte
	left  []byte // of the block
	err   error
}

// next moves to the next pair, and tells whether there is one.
func (c *cursor) next() bool {
	for len(c.left) == 0 {
		if c.of.From == c.of.To || c.err != nil {
			return false
		}
		c.err = c.read()
		if c.err != nil {
			return false
		}
	}
	c.err = c.parse()
	return c.err == nil
}

func (c *cursor) damaged(err error) error { return &Damaged{c.of.Run, err} }

var (
	errShort    = errors.New("a block is cut short")
	errChecksum = errors.New("a block has another checksum")
	errPair     = errors.New("a pair does not parse")
)

// read reads the next block.
func (c *cursor) read() error {
	var header [headerSize]byte
	if c.of.To-c.of.From < headerSize {
		return c.damaged(errShort)
	}
	if err := c.readAt(header[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(header[4:]))
	if size == 0 || size > maxBlock || size > c.of.To-c.of.From {
		return c.damaged(errShort)
	}
	if int64(cap(c.block)) < size {
		c.block = make([]byte, size)
	}
	c.block = c.block[:size]
	if err := c.readAt(c.block); err != nil {
		return err
	}
	sum := crc32.Update(crc32.Checksum(header[4:], castagnoli), castagnoli, c.block)
	if sum != binary.BigEndian.Uint32(header[:]) {
		return c.damaged(errChecksum)
	}
	c.left = c.block
	return nil
}

func (c *cursor) readAt(b []byte) error {
	n, err := c.from.ReadAt(b, c.of.From)
	c.of.From += int64(n)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return c.damaged(errShort)
	}
	return err
}

// parse takes a pair off the block.
func (c *cursor) parse() error {
	job, ok := c.number()
	if !ok || job > 1<<16-1 {
		return c.damaged(errPair)
	}
	key, ok := c.string()
	if !ok || len(c.left) == 0 {
		return c.damaged(errPair)
	}
	source := c.left[0]
	c.left = c.left[1:]
	value, ok := c.string()
	if !ok {
		return c.damaged(errPair)
	}
	c.Pair = Pair{Job: uint16(job), Key: key, Source: source, Value: value}
	return nil
}

func (c *cursor) number() (uint64, bool) {
	n, size := binary.Uvarint(c.left)
	if size <= 0 {
		return 0, false
	}
	c.left = c.left[size:]
	return n, true
}

func (c *cursor) string() ([]byte, bool) {
	n, ok := c.number()
	if !ok || n > uint64(len(c.left)) {
		return nil, false
	}
	s := c.left[:n:n]
	c.left = c.left[n:]
	return s, true
}
