package nbdtest

import (
	"context"
	"sync"

	"gleaner/fabric/nbd"
)

const page = 4096

// Memory is a device of bytes in memory, which knows of each page whether it
// takes space.
type Memory struct {
	mu   sync.RWMutex
	data []byte
	held []bool
}

// NewMemory gives a device of zeroes that takes no space.
func NewMemory(size int) *Memory {
	return &Memory{data: make([]byte, size), held: make([]bool, (size+page-1)/page)}
}

// ReadAt fills p.
func (m *Memory) ReadAt(_ context.Context, p []byte, offset int64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	copy(p, m.data[offset:])
	return nil
}

// WriteAt writes p. Memory has nothing more stable than itself.
func (m *Memory) WriteAt(_ context.Context, p []byte, offset int64, _ bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	copy(m.data[offset:], p)
	m.hold(offset, int64(len(p)))
	return nil
}

// Flush does nothing.
func (m *Memory) Flush(context.Context) error { return nil }

// Trim gives up the pages that lie in the range as a whole.
func (m *Memory) Trim(_ context.Context, offset, length int64, _ bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(offset, length)
	return nil
}

// Zero writes zeroes, and gives up whole pages unless it may make no hole.
func (m *Memory) Zero(_ context.Context, offset, length int64, noHole, _ bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.data[offset : offset+length])
	m.hold(offset, length)
	if !noHole {
		m.drop(offset, length)
	}
	return nil
}

// Status tells held pages from those that are holes.
func (m *Memory) Status(_ context.Context, offset, length int64, most int) (blocks []nbd.BlockStatus, _ error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for at := offset; at < offset+length; {
		next := min((at/page+1)*page, int64(len(m.data)))
		hole := !m.held[at/page]
		if last := len(blocks) - 1; last >= 0 && blocks[last].Hole == hole {
			blocks[last].Length += next - at
		} else if len(blocks) == most {
			return blocks, nil
		} else {
			blocks = append(blocks, nbd.BlockStatus{Length: next - at, Hole: hole, Zero: hole})
		}
		at = next
	}
	return blocks, nil
}

// Close does nothing.
func (m *Memory) Close() error { return nil }

func (m *Memory) hold(offset, length int64) {
	for i := offset / page; i*page < offset+length; i++ {
		m.held[i] = true
	}
}

func (m *Memory) drop(offset, length int64) {
	for i := (offset + page - 1) / page; (i+1)*page <= offset+length; i++ {
		clear(m.data[i*page : (i+1)*page])
		m.held[i] = false
	}
}
