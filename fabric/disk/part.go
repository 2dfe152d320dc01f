package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// Read fills buf with a part of a group. The caller must be of the group's generation.
func (d *Disk) Read(id GroupID, generation uint64, offset int64, buf []byte) error {
	if err := Inside(offset, len(buf)); err != nil {
		return err
	}
	return d.reading(id, generation, func(g *group) error { return d.readPart(g, offset, buf) })
}

// reading calls do with a group that is not changed meanwhile.
func (d *Disk) reading(id GroupID, generation uint64, do func(*group) error) error {
	g, err := d.pin(id)
	if err != nil {
		return err
	}
	defer d.unpin(g)
	g.mu.RLock()
	defer g.mu.RUnlock()
	if err := g.allows(generation); err != nil {
		return err
	}
	if generation == Unfinished {
		return fmt.Errorf("disk: group %s: %w", id, ErrUnfinished)
	}
	return do(g)
}

// Inside says whether a part of n bytes lies in a group; ErrRange if not.
func Inside(offset int64, n int) error {
	if n == 0 || offset < 0 || offset > GroupSize || int64(n) > GroupSize-offset {
		return fmt.Errorf("disk: %d bytes at %d: %w", n, offset, ErrRange)
	}
	return nil
}

// readPart reads whole slices straight into buf, and cuts what it needs from
// those at the edges. The group is locked.
func (d *Disk) readPart(g *group, offset int64, buf []byte) error {
	versions := d.index.of(g.id)
	for len(buf) > 0 {
		slice, within := int(offset/SliceSize), int(offset%SliceSize)
		n := len(buf) / SliceSize * SliceSize
		if within == 0 && n > 0 {
			if err := d.readSlices(g, versions, slice, buf[:n]); err != nil {
				return err
			}
		} else {
			whole := takeBuffer(SliceSize)
			err := d.readSlices(g, versions, slice, *whole)
			n = copy(buf, (*whole)[within:])
			giveBuffer(whole)
			if err != nil {
				return err
			}
		}
		offset, buf = offset+int64(n), buf[n:]
	}
	return nil
}

// current is the newest version of a slice.
func current(g *group, versions *versions, slice int) version {
	if v, ok := versions.get(slice); ok {
		return v
	}
	return version{entry: g.table[slice]}
}

// readSlices reads whole slices, by runs that lie together.
func (d *Disk) readSlices(g *group, versions *versions, first int, buf []byte) error {
	for len(buf) > 0 {
		from := current(g, versions, first)
		run := 1
		for run < len(buf)/SliceSize && from.joins(current(g, versions, first+run), run) {
			run++
		}
		if err := d.readRun(g, versions, first, buf[:run*SliceSize]); err != nil {
			return err
		}
		first, buf = first+run, buf[run*SliceSize:]
	}
	return nil
}

// joins says whether the slice that is n behind lies n behind v as well.
func (v version) joins(next version, n int) bool {
	return next.state == v.state && next.logged == v.logged && (!v.logged || next.at == v.at+uint64(n)*SliceSize)
}

// readRun reads slices that lie together.
func (d *Disk) readRun(g *group, versions *versions, first int, buf []byte) error {
	from := current(g, versions, first)
	switch from.state {
	case never:
		clear(buf)
		return nil
	case torn:
		return &SliceError{g.id, first, Torn}
	case rotten:
		return d.foundRotten(g, first)
	}
	file, offset := g.file, sliceOffset(first)
	if from.logged {
		file, offset = d.log.file, d.log.offset(from.at)
	}
	if err := readFull(file, buf, offset); err != nil {
		return fmt.Errorf("disk: read group %s: %w", g.id, err)
	}
	for i := range len(buf) / SliceSize {
		if checksum(buf[i*SliceSize:][:SliceSize]) != current(g, versions, first+i).sum {
			return d.foundRotten(g, first+i)
		}
	}
	return nil
}

func (d *Disk) foundRotten(g *group, slice int) error {
	d.rotten.Add(1)
	return &SliceError{g.id, slice, Rotten}
}

// readFull reads; what a file that was cut short lacks is zeros, which no checksum takes for data.
func readFull(f File, buf []byte, offset int64) error {
	n, err := f.ReadAt(buf, offset)
	if errors.Is(err, io.EOF) {
		clear(buf[n:])
		return nil
	}
	return err
}

// Write changes a part of a group. The writer must be of the group's generation and
// have its vDisk's highest token; a higher one than any before fences off the
// others. A part of a slice that is torn or rotten is refused with its SliceError;
// a write of the whole slice heals it. With sync set the write is on stable
// storage when it returns, else it is outside this process.
func (d *Disk) Write(id GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	if err := Inside(offset, len(data)); err != nil {
		return err
	}
	if err := d.usable(); err != nil {
		return err
	}
	if err := d.synced(d.relieve()); err != nil {
		return err
	}
	pieces := split(offset, data)
	n, versions := cost(pieces)
	for !d.log.reserve(n, versions) {
		if err := d.drain(); err != nil {
			return err
		}
	}
	end, err := d.admit(id, generation, token, pieces)
	d.log.release(n)
	d.wakeDrainer()
	if err != nil || !sync {
		return err
	}
	if d.onlyLogged(pieces) {
		return d.synced(d.log.sync(end))
	}
	return d.Sync()
}

func (d *Disk) synced(err error) error {
	if err != nil {
		return d.fail(err)
	}
	return nil
}

// onlyLogged says whether a sync of the log makes a write durable.
func (d *Disk) onlyLogged(pieces []piece) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(pieces) == 1 && !pieces[0].place && d.made == d.named.Load()
}

// piece is a part of a write that goes one way.
type piece struct {
	offset int64
	data   []byte
	place  bool     // whole slices, straight to the group file
	sums   []uint32 // of those
}

func (p piece) slices() (first, count int) {
	first = int(p.offset / SliceSize)
	last := int((p.offset + int64(len(p.data)) - 1) / SliceSize)
	return first, last - first + 1
}

// record is the length of the piece's record.
func (p piece) record() int {
	_, count := p.slices()
	if p.place {
		return frame + sumsLength(count)
	}
	return frame + count*SliceSize
}

// split sends small writes through the log, and of larger ones all but the edges in place.
func split(offset int64, data []byte) []piece {
	if len(data) <= mostLogged {
		return []piece{{offset: offset, data: data}}
	}
	var pieces []piece
	begin := int((SliceSize - offset%SliceSize) % SliceSize)
	end := len(data) - int((offset+int64(len(data)))%SliceSize)
	if begin > 0 {
		pieces = append(pieces, piece{offset: offset, data: data[:begin]})
	}
	pieces = append(pieces, piece{offset + int64(begin), data[begin:end], true, checksums(data[begin:end])})
	if end < len(data) {
		pieces = append(pieces, piece{offset: offset + int64(end), data: data[end:]})
	}
	return pieces
}

func checksums(slices []byte) []uint32 {
	sums := make([]uint32, len(slices)/SliceSize)
	for i := range sums {
		sums[i] = checksum(slices[i*SliceSize:][:SliceSize])
	}
	return sums
}

func cost(pieces []piece) (bytes, versions int) {
	for _, p := range pieces {
		_, count := p.slices()
		bytes += p.record()
		if p.place {
			bytes += frame // of an intent
		}
		versions += count
	}
	return bytes, versions
}

// admit checks a write and carries it out. It gives where the log then ends.
func (d *Disk) admit(id GroupID, generation, token uint64, pieces []piece) (end uint64, err error) {
	g, err := d.pin(id)
	if err != nil {
		return 0, err
	}
	defer d.unpin(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.allows(generation); err != nil {
		return 0, err
	}
	if g.header.sealed {
		return 0, fmt.Errorf("disk: write group %s: %w", id, ErrSealed)
	}
	if err := d.fences.enter(g.header.vdisk, token); err != nil {
		return 0, err
	}
	defer d.fences.leave()
	if err := d.grow(g, pieces); err != nil {
		return 0, err
	}
	for _, p := range pieces {
		if p.place {
			err = d.writePlace(g, p)
		} else {
			end, err = d.writeLogged(g, p)
		}
		if err != nil {
			return 0, err
		}
	}
	return end, nil
}

// grow takes the space that a write needs, by whole blocks.
func (d *Disk) grow(g *group, pieces []piece) error {
	last := pieces[len(pieces)-1]
	end := last.offset + int64(len(last.data))
	size := slicesStart + (end+BlockSize-1)/BlockSize*BlockSize
	more := size - g.size
	if more <= 0 {
		return nil
	}
	if err := d.charge(more); err != nil {
		return err
	}
	if err := g.file.Allocate(size); err != nil {
		d.refund(more)
		return fmt.Errorf("disk: grow group %s: %w", g.id, err)
	}
	g.size = size
	return nil
}

// writeLogged appends whole slices to the log; what a piece has not of those at its edges is read.
func (d *Disk) writeLogged(g *group, p piece) (end uint64, err error) {
	first, count := p.slices()
	buf := takeBuffer(p.record())
	defer giveBuffer(buf)
	body := (*buf)[recordUnit:][:count*SliceSize]
	within := int(p.offset % SliceSize)
	if err := d.readEdges(g, first, within, len(p.data), body); err != nil {
		return 0, err
	}
	copy(body[within:], p.data)

	r := record{kind: logged, group: g.id, first: first, count: count, body: len(body)}
	for i := range count {
		r.sums[i] = checksum(body[i*SliceSize:][:SliceSize])
	}
	versions := d.index.open(g.id) // before the record: who drains up to it looks at the group
	at, end, err := d.log.append(r, *buf)
	if err != nil {
		return 0, d.fail(err)
	}
	for i := range count {
		versions.set(first+i, version{entry{written, r.sums[i]}, at + recordUnit + uint64(i)*SliceSize, true})
	}
	return end, nil
}

// readEdges reads the first and the last slice where n bytes from within do not cover them.
func (d *Disk) readEdges(g *group, first, within, n int, body []byte) error {
	versions := d.index.of(g.id)
	last := len(body) - SliceSize
	if within > 0 || n < SliceSize {
		if err := d.readSlices(g, versions, first, body[:SliceSize]); err != nil {
			return err
		}
	}
	if last > 0 && within+n < len(body) {
		return d.readSlices(g, versions, first+last/SliceSize, body[last:])
	}
	return nil
}

// writePlace tells the log the checksums of slices, and then writes them in
// place. Where the file holds what is overwritten, the record or an intent is synced first: if the new slices came to the
// disk and nothing told of them, they would be taken for rotten.
func (d *Disk) writePlace(g *group, p piece) error {
	first, count := p.slices()
	buf := takeBuffer(p.record())
	defer giveBuffer(buf)
	clear((*buf)[recordUnit:])
	versions := d.index.open(g.id) // before the record, as in writeLogged
	fresh, over := make([]version, count), false
	for i := range count {
		old := current(g, versions, first+i)
		over = over || g.table[first+i].state != never || (old.state != never && !old.logged)
		fresh[i].entry = entry{written, p.sums[i]}
		placement{fresh[i].sum, old.entry}.encode((*buf)[recordUnit+i*sumBytes:])
	}
	body := (*buf)[recordUnit : len(*buf)-recordUnit]
	r := record{kind: inPlace, group: g.id, first: first, count: count, body: len(body)}
	r.sums[0] = checksum(body)

	d.soil(g) // before the record: who syncs up to it syncs the group
	at, end, err := d.log.append(r, *buf)
	if err == nil && over {
		err = d.intend(g.id, end)
	}
	if err == nil {
		_, err = g.file.WriteAt(p.data, sliceOffset(first))
	}
	if err != nil {
		return d.fail(fmt.Errorf("write group %s: %w", g.id, err))
	}
	for i, v := range fresh {
		v.at = at
		versions.set(first+i, v)
	}
	return nil
}

// Salvage reads a torn slice as a plain disk would give it: a mix of what it was
// and what it was to become. It is for a caller that has no whole replica left.
func (d *Disk) Salvage(id GroupID, generation uint64, slice int, buf []byte) error {
	if slice < 0 || slice >= SlicesPerGroup || len(buf) != SliceSize {
		return fmt.Errorf("disk: salvage slice %d: %w", slice, ErrRange)
	}
	return d.reading(id, generation, func(g *group) error {
		versions := d.index.of(id)
		if current(g, versions, slice).state != torn {
			return d.readSlices(g, versions, slice, buf)
		}
		return readFull(g.file, buf, sliceOffset(slice))
	})
}

// Verify reads all of a group and gives what of it cannot be trusted.
func (d *Disk) Verify(id GroupID) ([]*SliceError, error) {
	g, err := d.pin(id)
	var bad *SliceError
	if errors.As(err, &bad) {
		return []*SliceError{bad}, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.unpin(g)
	fresh := group{id: id} // the tables in memory say nothing of those on disk
	buf := takeBuffer(SliceSize)
	defer giveBuffer(buf)
	g.mu.RLock()
	defer g.mu.RUnlock()
	if err := g.there(); err != nil {
		return nil, err
	}
	f, err := d.fsys.Open(d.groupFile(id)) // the one that is open may have lost its name to a stranger
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("disk: the file of group %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := fresh.read(f); errors.As(err, &bad) {
		return []*SliceError{bad}, nil
	} else if err != nil {
		return nil, err
	}
	fresh.file = f
	return d.verify(&fresh, *buf)
}

func (d *Disk) verify(g *group, buf []byte) ([]*SliceError, error) {
	var found []*SliceError
	if g.flawed {
		found = append(found, &SliceError{g.id, Header, Rotten})
	}
	versions := d.index.of(g.id)
	for slice := range SlicesPerGroup {
		err := d.readSlices(g, versions, slice, buf)
		var bad *SliceError
		if errors.As(err, &bad) {
			found = append(found, bad)
		} else if err != nil {
			return found, err
		}
	}
	return found, nil
}

// buffers of any size up to the longest record.
var buffers = sync.Pool{New: func() any { b := make([]byte, maxRecord); return &b }}

func takeBuffer(n int) *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:n]
	return b
}

func giveBuffer(b *[]byte) {
	*b = (*b)[:cap(*b)]
	buffers.Put(b)
}
