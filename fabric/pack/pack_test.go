package pack

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"

	"gleaner/fabric/disk"
)

// contents gives an extent with a piece of each kind: text, noise, zeros that were written, and slices that never were.
func contents(seed uint64) Contents {
	c, rng := Contents{Data: make([]byte, disk.BlockSize)}, rand.New(rand.NewPCG(seed, 1))
	for slice := range slices {
		kind := slice * disk.SliceSize / PieceSize % 4
		if kind == 3 {
			continue
		}
		c.Written.Add(slice)
		part := c.Data[slice*disk.SliceSize:][:disk.SliceSize]
		switch kind {
		case 0:
			copy(part, bytes.Repeat([]byte("a line of a log\n"), disk.SliceSize/16))
		case 1:
			for i := 0; i < len(part); i += 8 {
				binary.LittleEndian.PutUint64(part[i:], rng.Uint64())
			}
		}
	}
	return c
}

func TestPack(t *testing.T) {
	c := contents(1)
	before := 0
	for level := Fast; level <= Best; level++ {
		x, packed := Pack(c, level, []byte("before"))
		if int64(len(packed)) != 6+x.Length() || x.Written != c.Written {
			t.Fatalf("%s: %d bytes, want %d", level, len(packed), 6+x.Length())
		}
		for i := range Pieces {
			kind, n := i%4, x.Lengths[i]
			if (n == 0) != (kind >= 2) || (n == PieceSize) != (kind == 1) {
				t.Errorf("%s: piece %d, of kind %d, has %d bytes", level, i, kind, n)
			}
			piece := bytes.Repeat([]byte{7}, PieceSize)
			if err := Unpack(piece, packed[6+x.Start(i):][:n]); err != nil || !bytes.Equal(piece, c.Data[i*PieceSize:][:PieceSize]) {
				t.Fatalf("%s: piece %d is other than was packed, %v", level, i, err)
			}
		}
		if before > 0 && len(packed) > before {
			t.Errorf("%s: %d bytes, more than the %d of the level below", level, len(packed), before)
		}
		before = len(packed)
	}
}

// A fingerprint differs where a byte does, and where zeros were written or not.
func TestPrint(t *testing.T) {
	c := contents(1)
	same, other, less := contents(1), contents(1), contents(1)
	other.Data[5]++
	less.Written[0] &^= 1
	if same.Print() != c.Print() {
		t.Error("equal contents have two fingerprints")
	}
	if other.Print() == c.Print() || less.Print() == c.Print() {
		t.Error("different contents have one fingerprint")
	}
}

// Bytes that were not packed here are refused or unpacked, and never beyond the piece.
func FuzzUnpack(f *testing.F) {
	x, packed := Pack(contents(1), Better, nil)
	f.Add(packed[:x.Lengths[0]])
	f.Add([]byte{})
	f.Add(packed[:PieceSize])
	f.Fuzz(func(t *testing.T, data []byte) {
		piece := make([]byte, PieceSize+1)
		_ = Unpack(piece[:PieceSize], data)
		if piece[PieceSize] != 0 {
			t.Error("written beyond the piece")
		}
	})
}

// An index is read as it was written; any other bytes are refused.
func FuzzReadIndex(f *testing.F) {
	x, _ := Pack(contents(1), Better, nil)
	f.Add(x.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) != IndexBytes {
			return
		}
		if x, err := ReadIndex(data); err == nil && !bytes.Equal(x.Append(nil), data) {
			t.Errorf("%x reads as %+v", data, x)
		}
	})
}

// Whichever shards are lost, as many as there is parity, all can be computed from the others; one less is refused.
func TestShards(t *testing.T) {
	for data := 2; data <= 5; data++ {
		for parity := 1; parity <= 3; parity++ {
			image := contents(uint64(data)).Data[:100_000]
			length := int64(100_000/data + 77)
			shards, err := Cut(image, data, parity, length)
			if err != nil || !bytes.HasPrefix(bytes.Join(shards[:data], nil), image) {
				t.Fatalf("%d and %d: %v", data, parity, err)
			}
			for lost := 1; lost < 1<<len(shards); lost += 2 { // the first, and some of the others
				left := make([][]byte, len(shards))
				for i := range shards {
					if lost>>i&1 == 0 {
						left[i] = shards[i]
					}
				}
				got, err := Compute(left, data, 0)
				if few := bits.OnesCount(uint(lost)) > parity; few != (err != nil) || !few && !bytes.Equal(got, shards[0]) {
					t.Fatalf("%d and %d without %b: %v", data, parity, lost, err)
				}
			}
		}
	}
}
