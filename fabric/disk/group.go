package disk

import (
	"bytes"
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// The sizes of the fabric, in bytes.
const (
	SliceSize = 4 << 10
	BlockSize = 1 << 20
	GroupSize = 4 << 20

	SlicesPerGroup = GroupSize / SliceSize
)

// A GroupID names an extent group.
type GroupID uint64

func (id GroupID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// A group file is a header in two copies, the table of checksums and the slices.
const (
	headerBytes  = 64
	secondHeader = 2 << 10
	tableStart   = 4 << 10
	entryBytes   = 8
	tableBytes   = SlicesPerGroup * entryBytes
	slicesStart  = tableStart + tableBytes
	maxGroupFile = slicesStart + GroupSize

	groupMagic = "gleangrp"
	sealedFlag = 1
)

func sliceOffset(slice int) int64 { return slicesStart + int64(slice)*SliceSize }

// header is what a group file says of itself.
type header struct {
	group      GroupID
	vdisk      VDiskID
	generation uint64
	born       uint64 // where the log stood: records before it are of an earlier group of that name
	sealed     bool
}

func (h header) encode() []byte {
	out := make([]byte, headerBytes)
	copy(out, groupMagic)
	binary.LittleEndian.PutUint32(out[8:], 1)
	if h.sealed {
		binary.LittleEndian.PutUint32(out[12:], sealedFlag)
	}
	binary.LittleEndian.PutUint64(out[16:], uint64(h.group))
	binary.LittleEndian.PutUint64(out[24:], uint64(h.vdisk))
	binary.LittleEndian.PutUint64(out[32:], h.generation)
	binary.LittleEndian.PutUint64(out[40:], h.born)
	binary.LittleEndian.PutUint32(out[60:], checksum(out[:60]))
	return out
}

func decodeHeader(data []byte) (header, bool) {
	if len(data) < headerBytes || string(data[:8]) != groupMagic || binary.LittleEndian.Uint32(data[8:]) != 1 ||
		binary.LittleEndian.Uint32(data[60:]) != checksum(data[:60]) {
		return header{}, false
	}
	return header{
		group:      GroupID(binary.LittleEndian.Uint64(data[16:])),
		vdisk:      VDiskID(binary.LittleEndian.Uint64(data[24:])),
		generation: binary.LittleEndian.Uint64(data[32:]),
		born:       binary.LittleEndian.Uint64(data[40:]),
		sealed:     binary.LittleEndian.Uint32(data[12:])&sealedFlag != 0,
	}, true
}

// state is what a group's table says of a slice.
type state uint8

const (
	never state = iota // never written: zeros
	written
	torn
	rotten
)

// entry is what is known of a slice: its state, and its checksum where it is written.
type entry struct {
	state state
	sum   uint32
}

// encodeTable makes the table of a group file: 8 bytes a slice. Never written is all
// zeros, as in a fresh file; the others prove themselves by a checksum of their own, so that
// a flipped bit makes no slice look unwritten.
func encodeTable(group GroupID, entries []entry) []byte {
	out, p := make([]byte, tableBytes), newProver(group)
	for slice, e := range entries {
		if e.state != never {
			binary.LittleEndian.PutUint32(out[slice*entryBytes:], e.sum)
			binary.LittleEndian.PutUint32(out[slice*entryBytes+4:], p.proof(slice, e))
		}
	}
	return out
}

func decodeTable(group GroupID, data []byte) []entry {
	entries, p := make([]entry, SlicesPerGroup), newProver(group)
	for slice := range entries {
		entries[slice] = p.decode(slice, data[slice*entryBytes:])
	}
	return entries
}

// A prover has what the entries of a group prove themselves by, made once for all of them.
type prover struct{ says [24]byte }

func newProver(group GroupID) *prover {
	p := &prover{}
	binary.LittleEndian.PutUint64(p.says[:], uint64(group))
	return p
}

func (p *prover) decode(slice int, data []byte) entry {
	sum, proof := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	if sum == 0 && proof == 0 {
		return entry{}
	}
	e := entry{state(proof), sum}
	if e.state < written || e.state > rotten || proof != p.proof(slice, e) {
		return entry{state: rotten}
	}
	return e
}

// proof is the state in the lowest byte, below 24 bits of checksum of all that the entry says.
func (p *prover) proof(slice int, e entry) uint32 {
	binary.LittleEndian.PutUint64(p.says[8:], uint64(slice))
	binary.LittleEndian.PutUint32(p.says[16:], e.sum)
	p.says[20] = byte(e.state)
	return checksum(p.says[:])&^0xff | uint32(e.state)
}

// group is an open group file.
type group struct {
	id GroupID

	// pins, dirty and place are guarded by Disk.mu.
	pins  int
	dirty bool          // has writes that no Sync covered; not closed until one does
	place *list.Element // nil once the group is not to be found any more

	ready    chan struct{} // closed when the group is loaded, or could not be
	unusable error         // why not

	mu      sync.RWMutex // held for writing by all that changes what follows, or the slices
	gone    bool         // removed
	file    File
	header  header
	flawed  bool // one of the two copies of the header is rotten
	halfway bool // the copies differ, or one is missing: a crash interrupted a change, which load completes
	table   []entry
	size    int64
}

// load reads header and table.
func (g *group) load(fsys FS, name string) error {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("disk: group %s: %w", g.id, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("disk: open group %s: %w", g.id, err)
	}
	if err := g.read(f); err != nil {
		f.Close()
		return err
	}
	g.file = f
	if g.halfway {
		return g.setHeader(g.header)
	}
	return nil
}

func (g *group) read(f File) error {
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("disk: open group %s: %w", g.id, err)
	}
	front := make([]byte, slicesStart)
	if _, err := f.ReadAt(front, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("disk: read header of group %s: %w", g.id, err)
	}
	h, ok := agree(g.id, front)
	if size < slicesStart || blank(front) && blank(front[secondHeader:]) {
		return fmt.Errorf("disk: group %s: %w", g.id, ErrNotFound)
	}
	if !ok {
		return &SliceError{g.id, Header, Rotten}
	}
	first, whole := decodeHeader(front)
	second, same := decodeHeader(front[secondHeader:])
	lost := whole && blank(front[secondHeader:]) || same && blank(front) // with the power: the group was never synced
	g.flawed, g.halfway = (!whole || !same) && !lost, lost || whole && same && first != second
	g.header, g.table, g.size = h, decodeTable(g.id, front[tableStart:]), size
	return nil
}

// blank says whether a header is all zeros: a file in which both are, or that is too short, was never
// synced and was lost with the power. Rot leaves no such thing.
func blank(header []byte) bool {
	var zeros [headerBytes]byte
	return bytes.Equal(header[:headerBytes], zeros[:])
}

// agree picks the header of two copies. The first is written first, so it is the newer if they differ.
func agree(id GroupID, front []byte) (header, bool) {
	for _, at := range []int{0, secondHeader} {
		if h, ok := decodeHeader(front[at:]); ok && h.group == id {
			return h, true
		}
	}
	return header{}, false
}

// setHeader makes a header durable, one copy after the other.
func (g *group) setHeader(h header) error {
	for _, at := range []int64{0, secondHeader} {
		if _, err := g.file.WriteAt(h.encode(), at); err != nil {
			return fmt.Errorf("disk: write header of group %s: %w", g.id, err)
		}
		if err := g.file.Sync(); err != nil {
			return fmt.Errorf("disk: sync header of group %s: %w", g.id, err)
		}
	}
	g.header, g.flawed, g.halfway = h, false, false
	return nil
}

// there says whether the group was removed since it was pinned.
func (g *group) there() error {
	if g.gone {
		return fmt.Errorf("disk: group %s: %w", g.id, ErrNotFound)
	}
	return nil
}

func (g *group) close() error {
	if g.file == nil {
		return nil
	}
	return g.file.Close()
}

// allows says whether a caller of that generation may use the group.
func (g *group) allows(generation uint64) error {
	if err := g.there(); err != nil {
		return err
	}
	if g.header.generation != generation {
		return &GenerationError{g.id, g.header.generation, generation}
	}
	return nil
}
