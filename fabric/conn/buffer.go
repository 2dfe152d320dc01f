package conn

import (
	"math/bits"
	"sync"
)

// buffers has a pool for each power of two up to 32 MiB.
var buffers [26]sync.Pool

const smallestBuffer = 4 << 10

// A Buffer holds the payload of one request.
type Buffer struct {
	Data  []byte
	class int
}

// TakeBuffer gives a buffer of n bytes, at most 32 MiB, with anything in them.
func TakeBuffer(n int) *Buffer {
	class := bits.Len(uint(max(n, smallestBuffer) - 1))
	b, _ := buffers[class].Get().(*Buffer)
	if b == nil {
		b = &Buffer{Data: make([]byte, 1<<class), class: class}
	}
	b.Data = b.Data[:n]
	return b
}

// Free lets others have the buffer.
func (b *Buffer) Free() { buffers[b.class].Put(b) }
