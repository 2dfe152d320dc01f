package nbd

import (
	"math/bits"
	"sync"
)

// buffers has a pool for each power of two up to maxPayload.
var buffers [26]sync.Pool

// A buffer holds the payload of one request.
type buffer struct {
	data  []byte
	class int
}

// takeBuffer gives a buffer of n bytes with anything in them.
func takeBuffer(n int) *buffer {
	class := bits.Len(uint(max(n, preferredBlock) - 1))
	b, _ := buffers[class].Get().(*buffer)
	if b == nil {
		b = &buffer{data: make([]byte, 1<<class), class: class}
	}
	b.data = b.data[:n]
	return b
}

func (b *buffer) free() { buffers[b.class].Put(b) }
