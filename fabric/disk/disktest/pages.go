package disktest

import (
	"bytes"
	"slices"
)

const (
	pageSize = 4 << 10
	sectors  = pageSize / Sector
)

// pages are the bytes of a file. A page is never changed, only replaced, so that
// copies share them; nil is zeros.
type pages struct {
	size int64
	list []*[pageSize]byte
}

func (p *pages) copy() pages { return pages{p.size, slices.Clone(p.list)} }

// extend makes the file longer, with zeros.
func (p *pages) extend(size int64) {
	p.size = max(p.size, size)
	if more := int((p.size+pageSize-1)/pageSize) - len(p.list); more > 0 {
		p.list = append(p.list, make([]*[pageSize]byte, more)...)
	}
}

// truncate makes the file shorter.
func (p *pages) truncate(size int64) {
	if size >= p.size {
		return
	}
	p.size, p.list = size, p.list[:(size+pageSize-1)/pageSize]
	if within := size % pageSize; within > 0 && p.list[size/pageSize] != nil {
		last := *p.list[size/pageSize]
		clear(last[within:])
		p.list[size/pageSize] = &last
	}
}

// read gives how many bytes there are.
func (p *pages) read(buf []byte, at int64) int {
	n := int(max(0, min(int64(len(buf)), p.size-at)))
	for done := 0; done < n; {
		from := int(at+int64(done)) % pageSize
		part := buf[done:min(n, done+pageSize-from)]
		if page := p.list[(at+int64(done))/pageSize]; page != nil {
			copy(part, page[from:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	return n
}

// write replaces bytes of a file that is long enough.
func (p *pages) write(buf []byte, at int64) {
	for len(buf) > 0 {
		from := int(at % pageSize)
		n := min(len(buf), pageSize-from)
		old := p.list[at/pageSize]
		if old != nil || !bytes.Equal(buf[:n], zeros[:n]) { // logs are formatted with zeros, and fabrics of tests have many
			fresh := new([pageSize]byte)
			if old != nil && n < pageSize {
				*fresh = *old
			}
			copy(fresh[from:], buf)
			p.list[at/pageSize] = fresh
		}
		at, buf = at+int64(n), buf[n:]
	}
}

var zeros [pageSize]byte
