package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync"
)

// A log file is a slot that says where the tail is, in two copies, and a ring of records.
const (
	logStart   = 8 << 10
	secondSlot = 4 << 10
	slotBytes  = 64
	logMagic   = "gleanlog"
	minLog     = 256 << 10 // two of the longest write, its records and what the ring's end wastes
	maxLog     = 128 << 20 // a second of small writes, so that a drain has much to write to each group, and is made in a moment
)

// mostVersions bounds how many versions of slices the log may hold, and with it
// the index and the time that an Open after a crash takes.
const mostVersions = 1 << 19

// ring is the log. Positions count bytes from its first ever; the ring holds those
// from tail to head.
type ring struct {
	file File
	size uint64
	salt uint64

	mu       sync.Mutex
	synced   sync.Cond // a sync ended
	syncing  bool
	err      error // of a write or sync; there are no more
	head     uint64
	tail     uint64
	data     uint64 // end of the last record that is not a mark
	durable  uint64 // synced up to here
	placed   uint64 // slices written in place are synced up to here
	spent    uint64 // intents before it
	told     [2]uint64
	reserved uint64
	versions int // of slices, since the last drain began
	slot     uint64
	// silent while the log is recovered: a mark would say that a slice is what the
	// last record says, where an older version was found.
	silent bool
}

func formatLog(fsys FS, name string, id Identity) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	err = f.Allocate(logStart + id.Log)
	// Zeros are written, not only allocated: a sync of blocks that were never
	// written has to wait for the file system's journal.
	for at := int64(0); err == nil && at < logStart+id.Log; at += recordUnit * 1024 {
		_, err = f.WriteAt(make([]byte, min(recordUnit*1024, logStart+id.Log-at)), at)
	}
	for _, at := range []int64{0, secondSlot} {
		if err == nil {
			_, err = f.WriteAt(encodeSlot(id.Salt, 1, 0), at)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func encodeSlot(salt, count, tail uint64) []byte {
	out := make([]byte, slotBytes)
	copy(out, logMagic)
	binary.LittleEndian.PutUint64(out[8:], salt)
	binary.LittleEndian.PutUint64(out[16:], count)
	binary.LittleEndian.PutUint64(out[24:], tail)
	binary.LittleEndian.PutUint32(out[60:], checksum(out[:60]))
	return out
}

func decodeSlot(salt uint64, data []byte) (count, tail uint64, ok bool) {
	if string(data[:8]) != logMagic || binary.LittleEndian.Uint64(data[8:]) != salt ||
		binary.LittleEndian.Uint32(data[60:]) != checksum(data[:60]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(data[16:]), binary.LittleEndian.Uint64(data[24:]), true
}

// openRing finds the tail; the head is found by reading on from there.
func openRing(fsys FS, name string, id Identity) (*ring, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the log is missing", ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	l := &ring{file: f, size: uint64(id.Log), salt: id.Salt, silent: true}
	l.synced.L = &l.mu
	if err := l.findTail(); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func (l *ring) findTail() error {
	front := make([]byte, logStart)
	if _, err := l.file.ReadAt(front, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	found := false
	for _, at := range []int{0, secondSlot} {
		if count, tail, ok := decodeSlot(l.salt, front[at:]); ok && count > l.slot {
			l.slot, l.tail, found = count, tail, true
		}
	}
	if size, err := l.file.Size(); err != nil || size < logStart+int64(l.size) {
		return errors.Join(fmt.Errorf("%w: the log is too short", ErrDamaged), err)
	}
	if !found || l.tail%recordUnit != 0 {
		return fmt.Errorf("%w: the log does not say where it begins", ErrDamaged)
	}
	return nil
}

// offset is where a position is in the file.
func (l *ring) offset(at uint64) int64 { return logStart + int64(at%l.size) }

// reserve takes space for records of n bytes with that many slices. It says no
// where the log has to be drained first.
func (l *ring) reserve(n, versions int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A record that would cross the ring's end wastes less than its own length.
	// The last record's worth is kept for marks.
	if l.head-l.tail+l.reserved+2*uint64(n)+maxRecord > l.size || l.versions+versions > mostVersions {
		return false
	}
	l.reserved += 2 * uint64(n)
	l.versions += versions
	return true
}

func (l *ring) release(n int) {
	l.mu.Lock()
	l.reserved -= 2 * uint64(n)
	l.mu.Unlock()
}

// append writes a record; buf has its body between room for two headers. It gives
// the record's position, and where the next one is.
func (l *ring) append(r record, buf []byte) (at, end uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, err = l.write(r, buf); err == nil {
		l.data = l.head
	}
	return at, l.head, err
}

func (l *ring) write(r record, buf []byte) (uint64, error) {
	if l.err != nil {
		return 0, l.err
	}
	if left := l.size - l.head%l.size; left < uint64(len(buf)) {
		if err := l.pad(left); err != nil {
			return 0, err
		}
	}
	r.at = l.head
	return r.at, l.put(r, buf)
}

// pad fills the ring up to its end.
func (l *ring) pad(left uint64) error {
	r := record{kind: pad, at: l.head, body: int(left) - recordUnit}
	return l.put(r, make([]byte, left))
}

func (l *ring) put(r record, buf []byte) error {
	r.synced, r.placed = l.durable, l.placed
	r.encode(l.salt, buf)
	copy(buf[len(buf)-recordUnit:], buf[:recordUnit])
	if _, err := l.file.WriteAt(buf, l.offset(l.head)); err != nil {
		l.err = fmt.Errorf("%w: write log: %w", ErrFailed, err)
		return l.err
	}
	l.told = [2]uint64{r.synced, r.placed}
	l.head += uint64(len(buf))
	return nil
}

// mark tells the log itself how far all is synced, if no record has told yet.
func (l *ring) mark() {
	if l.silent || l.err != nil || l.told == [2]uint64{l.durable, l.placed} || l.head-l.tail+l.reserved+2*frame > l.size {
		return
	}
	_, _ = l.write(record{kind: mark}, make([]byte, frame)) // a failure is in l.err for whoever comes next
}

// sync makes the log durable up to a position. Whoever comes while a sync is
// under way shares the next.
func (l *ring) sync(upto uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.durable < upto {
		if l.err != nil {
			return l.err
		}
		if l.syncing {
			l.synced.Wait()
			continue
		}
		l.lead()
	}
	return l.err
}

func (l *ring) lead() {
	l.syncing = true
	l.mu.Unlock()
	runtime.Gosched() // those whom the last sync woke may have the next thing to write
	l.mu.Lock()
	upto := l.head
	l.mu.Unlock()
	err := l.file.Sync()
	l.mu.Lock()
	l.syncing = false
	if err != nil {
		l.err = fmt.Errorf("%w: sync log: %w", ErrFailed, err)
	} else {
		l.durable = upto
		l.mark()
	}
	l.synced.Broadcast()
}

// end is the end of the last record that is not a mark.
func (l *ring) end() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data
}

// beginFlush gives up to where a flush is to make all durable, and spends the intents before that.
func (l *ring) beginFlush() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spent = l.data
	return l.data
}

// spentBefore is where intents begin that are not spent.
func (l *ring) spentBefore() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent
}

// notePlaced notes that slices written in place before a position are on stable storage.
func (l *ring) notePlaced(upto uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placed = max(l.placed, upto)
	if l.durable >= upto {
		l.mark()
	}
}

// moveTail frees the ring up to a position, for good. The second copy of the slot
// is written once the first is durable, so that one of them is whole at any time.
func (l *ring) moveTail(upto uint64, versions int) error {
	l.slot++
	slot := encodeSlot(l.salt, l.slot, upto)
	if _, err := l.file.WriteAt(slot, 0); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync log: %w", err)
	}
	if _, err := l.file.WriteAt(slot, secondSlot); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = upto
	l.versions -= versions
	return nil
}

// used is how much of the ring is taken.
func (l *ring) used() (bytes uint64, versions int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head - l.tail, l.versions
}
