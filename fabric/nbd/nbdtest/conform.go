package nbdtest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"gleaner/fabric/nbd"
)

// Conform shows that a device of size bytes, all of them zero at first, keeps what nbd.Device promises.
// Several goroutines change it at random, each a part of its own, and compare all they read with
// a byte slice. What a power cut leaves is not for this suite.
func Conform(t *testing.T, device nbd.Device, size int64, seed uint64) {
	t.Helper()
	const parts = 4
	var all sync.WaitGroup
	for i := range int64(parts) {
		c := &conformist{t: t, device: device, start: i * size / parts, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		c.want = make([]byte, (i+1)*size/parts-c.start)
		c.known = bytes.Repeat([]byte{1}, len(c.want))
		all.Go(func() {
			for range 200 {
				c.step()
			}
			c.read(0, len(c.want))
		})
	}
	all.Wait()
}

// A conformist knows what its part of a device must be.
type conformist struct {
	t      *testing.T
	device nbd.Device
	start  int64
	rng    *rand.Rand
	want   []byte
	known  []byte // 0 where a trim left anything
}

func (c *conformist) step() {
	from, length := c.draw()
	at, part, known := c.start+int64(from), c.want[from:][:length], c.known[from:][:length]
	fua := c.rng.IntN(4) == 0
	ctx := context.Background()
	var err error
	switch c.rng.IntN(7) {
	case 0, 1:
		for i := range part {
			part[i] = byte(c.rng.Uint32())
		}
		data := bytes.Clone(part)
		err = c.device.WriteAt(ctx, data, at, fua)
		clear(data) // the device does not keep it
		fillWith(known, 1)
	case 2:
		err = c.device.Zero(ctx, at, int64(length), c.rng.IntN(2) == 0, fua)
		clear(part)
		fillWith(known, 1)
	case 3:
		err = c.device.Trim(ctx, at, int64(length), fua)
		clear(known)
	case 4:
		err = c.device.Flush(ctx)
	case 5:
		c.status(from, length)
	case 6:
		c.read(from, length)
	}
	if err != nil {
		c.t.Errorf("at %d+%d: %v", at, length, err)
	}
}

// draw draws a range, every other one of whole blocks.
func (c *conformist) draw() (from, length int) {
	from = c.rng.IntN(len(c.want))
	length = 1 + c.rng.IntN(min(len(c.want)-from, 1<<c.rng.IntN(17)))
	up := int(-(c.start + int64(from)) & (page - 1))
	whole := (length - up) &^ (page - 1)
	if c.rng.IntN(2) == 0 && whole > 0 {
		return from + up, whole
	}
	return from, length
}

func (c *conformist) read(from, length int) {
	got := bytes.Repeat([]byte{0xee}, length)
	if err := c.device.ReadAt(context.Background(), got, c.start+int64(from)); err != nil {
		c.t.Errorf("read %d+%d: %v", c.start+int64(from), length, err)
	}
	for i, b := range got {
		if c.known[from+i] != 0 && b != c.want[from+i] {
			c.t.Errorf("byte %d is %#x, not %#x", c.start+int64(from+i), b, c.want[from+i])
			return
		}
	}
}

// status compares what is said to be zero with what is known of it. What is said of
// holes cannot be wrong: a file system that keeps space for zeroes may still call them a hole.
func (c *conformist) status(from, length int) {
	most := 1 + c.rng.IntN(10)
	blocks, err := c.device.Status(context.Background(), c.start+int64(from), int64(length), most)
	if err != nil || len(blocks) == 0 || len(blocks) > most {
		c.t.Errorf("status of %d+%d: %d blocks of at most %d, %v", c.start+int64(from), length, len(blocks), most, err)
	}
	at := int64(0)
	for _, block := range blocks {
		if block.Length <= 0 {
			c.t.Errorf("a block of %d bytes", block.Length)
			return
		}
		for i := at; block.Zero && i < min(at+block.Length, int64(length)); i++ {
			if c.known[from+int(i)] != 0 && c.want[from+int(i)] != 0 {
				c.t.Errorf("byte %d is said to be zero", c.start+int64(from)+i)
				return
			}
		}
		at += block.Length
	}
}

func fillWith(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}
