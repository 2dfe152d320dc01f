// Package pack makes the contents of an extent small: it compresses them in pieces, each on its own, so that a small read
// unpacks little, and gives them a fingerprint by which equal ones are found (NSDI'17 §3.2).
package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"

	"gleaner/fabric/disk"
)

// A piece is what is compressed together.
const (
	PieceSize = 32 << 10
	Pieces    = disk.BlockSize / PieceSize

	slices = disk.BlockSize / disk.SliceSize
)

// A Level says how hard to try. Higher ones take longer and give less to store.
type Level uint8

const (
	Fast Level = iota + 1
	Better
	Best
)

// Levels are their names, from the lowest on.
var Levels = [...]string{"fast", "better", "best"}

func (l Level) String() string {
	if l < Fast || l > Best {
		return fmt.Sprintf("Level(%d)", uint8(l))
	}
	return Levels[l-Fast]
}

// ParseLevel reads the name of a level.
func ParseLevel(name string) (Level, bool) {
	for i, known := range Levels {
		if name == known {
			return Fast + Level(i), true
		}
	}
	return 0, false
}

// ErrDamaged is returned for bytes that are not what Pack gave.
var ErrDamaged = errors.New("packed bytes are damaged")

// A Mask is a set of an extent's slices.
type Mask [slices / 64]uint64

// Has reports whether a slice is in the set.
func (m *Mask) Has(slice int) bool { return m[slice/64]>>(slice%64)&1 != 0 }

// Add takes a slice into the set.
func (m *Mask) Add(slice int) { m[slice/64] |= 1 << (slice % 64) }

// Contents are what an extent holds: disk.BlockSize bytes, zeros where a slice was never written.
type Contents struct {
	Written Mask
	Data    []byte
}

// A Print is the fingerprint of contents. That of others is different.
type Print [32]byte

// Print gives the fingerprint.
func (c *Contents) Print() (p Print) {
	h := blake3.New()
	for _, word := range c.Written {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, word))
	}
	_, _ = h.Write(c.Data)
	h.Sum(p[:0])
	return p
}

// An Index says what packed contents are made of.
type Index struct {
	Written Mask
	Lengths [Pieces]uint16 // 0: zeros; PieceSize: not compressed
}

// Length is how many bytes all pieces take.
func (x *Index) Length() int64 { return x.Start(Pieces) }

// Start is where a piece begins.
func (x *Index) Start(piece int) (at int64) {
	for _, n := range x.Lengths[:piece] {
		at += int64(n)
	}
	return at
}

// Pack compresses contents and appends them to out.
func Pack(c Contents, level Level, out []byte) (Index, []byte) {
	x := Index{Written: c.Written}
	for i := range Pieces {
		piece := c.Data[i*PieceSize:][:PieceSize]
		if zero(piece) {
			continue
		}
		before := len(out)
		if out = encoders[level-Fast].EncodeAll(piece, out); len(out)-before >= PieceSize {
			out = append(out[:before], piece...)
		}
		x.Lengths[i] = uint16(len(out) - before)
	}
	return x, out
}

func zero(piece []byte) bool {
	for _, b := range piece {
		if b != 0 {
			return false
		}
	}
	return true
}

// Unpack fills piece, of PieceSize bytes, with what was packed as those bytes.
func Unpack(piece, packed []byte) error {
	switch len(packed) {
	case 0:
		clear(piece)
		return nil
	case PieceSize:
		copy(piece, packed)
		return nil
	}
	out, err := decoder().DecodeAll(packed, piece[:0:PieceSize])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case len(out) != PieceSize:
		return fmt.Errorf("%w: %d bytes in place of %d", ErrDamaged, len(out), PieceSize)
	}
	return nil
}

// Encoders and the decoder keep their tables. They may be used by many at a time.
var (
	encoders = [...]*zstd.Encoder{encoder(zstd.SpeedDefault), encoder(zstd.SpeedBetterCompression), encoder(zstd.SpeedBestCompression)}
	decoder  = sync.OnceValue(newDecoder)
)

func encoder(level zstd.EncoderLevel) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithWindowSize(PieceSize), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		panic(err) // the options are wrong
	}
	return e
}

func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(PieceSize), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are wrong
	}
	return d
}

// IndexBytes is the length of an index in a record.
const IndexBytes = slices/8 + 2*Pieces

// Append adds the index to a record.
func (x *Index) Append(out []byte) []byte {
	for _, word := range x.Written {
		out = binary.BigEndian.AppendUint64(out, word)
	}
	for _, n := range x.Lengths {
		out = binary.BigEndian.AppendUint16(out, n)
	}
	return out
}

// ReadIndex reads what Append wrote, from IndexBytes bytes.
func ReadIndex(data []byte) (x Index, err error) {
	for i := range x.Written {
		x.Written[i] = binary.BigEndian.Uint64(data[8*i:])
	}
	for i := range x.Lengths {
		if x.Lengths[i] = binary.BigEndian.Uint16(data[slices/8+2*i:]); x.Lengths[i] > PieceSize {
			return x, ErrDamaged
		}
	}
	return x, nil
}
