package disk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// account is all that the log tells.
type account struct {
	groups map[GroupID]*tale
	end    uint64
	placed uint64 // slices written in place are known to be synced up to here
}

// tale is what the log tells of a group.
type tale struct {
	slices map[int]story
	intent uint64 // where the last one ends; 0 if there is none
}

// of gives the tale of a group, to be told on.
func (a *account) of(id GroupID) *tale {
	if a.groups[id] == nil {
		a.groups[id] = &tale{slices: map[int]story{}}
	}
	return a.groups[id]
}

// story is all that the log tells of a slice, the oldest first.
type story []chapter

type chapter struct {
	version
	before entry // of a slice written in place: what it was
}

// recover reads the log from its tail, decides what each slice in it is, drains
// it all and begins the log anew, one lap on.
func (d *Disk) recover() error {
	told, err := d.log.read()
	if err != nil {
		return err
	}
	end := told.end
	d.log.head, d.log.data, d.log.durable = end, end, d.log.tail
	for _, id := range slices.Sorted(maps.Keys(told.groups)) {
		if err := d.recoverGroup(id, told.groups[id], told.placed); err != nil {
			return err
		}
		if err := d.relieve(); err != nil {
			return err
		}
	}
	if err := d.drainTo(end); err != nil {
		return err
	}
	return d.log.restart(end)
}

// restart begins the log one lap on: no record in the ring is of a position to come.
func (l *ring) restart(end uint64) error {
	next := end + l.size
	if err := l.moveTail(next, l.versions); err != nil {
		return err
	}
	l.head, l.data, l.durable, l.placed, l.silent = next, next, next, next, false
	return nil
}

// recoverGroup enters the slices of a group into the index.
func (d *Disk) recoverGroup(id GroupID, told *tale, placed uint64) error {
	g, err := d.pin(id)
	var bad *SliceError
	if errors.Is(err, ErrNotFound) || errors.As(err, &bad) {
		return nil // removed, or never synced; or of no use
	}
	if err != nil {
		return err
	}
	defer d.unpin(g)
	d.soil(g) // it may have been made and not synced
	buf := make([]byte, SliceSize)
	versions := d.index.open(id)
	intended := told.intent > max(placed, g.header.born)
	for slice := range SlicesPerGroup {
		s := told.slices[slice].since(g.header.born)
		if len(s) == 0 && !(intended && g.table[slice].state == written) {
			continue
		}
		if err := readFull(g.file, buf, sliceOffset(slice)); err != nil {
			return fmt.Errorf("read group %s: %w", id, err)
		}
		switch have := checksum(buf); {
		case len(s) > 0:
			versions.set(slice, s.resolve(have, placed, intended))
		case have != g.table[slice].sum:
			versions.set(slice, version{entry: entry{state: torn}, at: told.intent - frame})
		}
	}
	d.index.drop(id, nil)
	return d.regrow(g, versions)
}

// regrow makes room for slices of the log whose space a crash took back, in blocks as grow does.
func (d *Disk) regrow(g *group, versions *versions) error {
	last := -1
	for slice := range versions.known.all {
		if v, _ := versions.get(slice); v.logged {
			last = slice
		}
	}
	size := slicesStart + (int64(last+1)*SliceSize+BlockSize-1)/BlockSize*BlockSize
	if size <= g.size {
		return nil
	}
	if err := g.file.Allocate(size); err != nil {
		return fmt.Errorf("grow group %s: %w", g.id, err)
	}
	d.used += size - g.size
	g.size = size
	return nil
}

// since leaves out what was told of an earlier group of the same name.
func (s story) since(born uint64) story {
	for len(s) > 0 && s[0].at < born {
		s = s[1:]
	}
	return s
}

// resolve decides what a slice is, from its checksum in the group file, how far slices written
// in place are known to be synced, and whether others may have been: the newest version that the file or the log holds.
func (s story) resolve(have uint32, placed uint64, intended bool) version {
	newest := s[len(s)-1]
	for i := len(s) - 1; i >= 0; i-- {
		c := s[i]
		if c.logged || c.state == rotten {
			return c.version
		}
		if c.sum == have {
			return c.version
		}
		if c.at < placed {
			return newest.lost(intended || i < len(s)-1)
		}
	}
	old := s[0].before
	if old.state == written && old.sum != have {
		return newest.lost(true)
	}
	return version{entry: old, at: newest.at}
}

// lost is a slice that is none of its versions: torn if a write that was not
// synced may have been under way, else rotten.
func (c chapter) lost(underWay bool) version {
	if underWay {
		return version{entry: entry{state: torn}, at: c.at}
	}
	return version{entry: entry{state: rotten}, at: c.at}
}

// read reads the records from the tail on.
func (l *ring) read() (*account, error) {
	synced, placed, err := l.known()
	if err != nil {
		return nil, err
	}
	told := &account{groups: map[GroupID]*tale{}, end: l.tail, placed: placed}
	buf := make([]byte, maxRecord)
	for told.end < l.tail+l.size {
		r, ok, err := l.find(told.end, buf)
		if err != nil {
			return nil, err
		}
		if !ok && told.end < synced {
			return nil, fmt.Errorf("%w: the log's record at %d is rotten", ErrDamaged, told.end)
		}
		if !ok {
			return told, nil
		}
		chapters, whole := tell(r, buf)
		if !whole && told.end >= synced {
			return told, nil
		}
		told.end += r.length()
		told.add(r, chapters)
	}
	return told, nil
}

// add takes in a record at the end.
func (a *account) add(r record, chapters []chapter) {
	switch r.kind {
	case made:
		a.of(r.group)
	case intent:
		for i := range r.count {
			a.of(r.group + GroupID(i)).intent = a.end
		}
	}
	for i, c := range chapters {
		slice := r.first + i
		a.of(r.group).slices[slice] = append(a.of(r.group).slices[slice], c)
	}
}

// known looks at every header in the ring for how far log and slices in place were synced.
func (l *ring) known() (synced, placed uint64, err error) {
	buf := make([]byte, min(1<<20, l.size))
	for from := uint64(0); from < l.size; from += uint64(len(buf)) {
		buf = buf[:min(uint64(len(buf)), l.size-from)]
		if err := readFull(l.file, buf, logStart+int64(from)); err != nil {
			return 0, 0, fmt.Errorf("read log: %w", err)
		}
		for unit := 0; unit < len(buf); unit += recordUnit {
			r, ok := decodeRecord(l.salt, buf[unit:])
			if ok && r.at >= l.tail { // not of an earlier lap
				synced, placed = max(synced, r.synced), max(placed, r.placed)
			}
		}
	}
	return synced, placed, nil
}

// find gives the record at a position, by its first header or else by its second,
// and reads it into buf.
func (l *ring) find(at uint64, buf []byte) (record, bool, error) {
	left := min(uint64(len(buf)), l.size-at%l.size)
	for n := uint64(recordUnit); ; n = left { // the header alone is mostly enough to know the rest
		if err := readFull(l.file, buf[:n], l.offset(at)); err != nil {
			return record{}, false, fmt.Errorf("read log: %w", err)
		}
		for unit := uint64(0); unit < n; unit += recordUnit {
			r, ok := decodeRecord(l.salt, buf[unit:n])
			if ok && r.at == at && r.length() <= left && (unit == 0 || unit+recordUnit == r.length()) {
				err := readFull(l.file, buf[:r.length()], l.offset(at))
				return r, err == nil, err
			}
		}
		if n == left {
			return record{}, false, nil
		}
	}
}

// tell gives what a record, of which buf has the bytes, says of each of its slices,
// and whether its body is whole.
func tell(r record, buf []byte) (chapters []chapter, whole bool) {
	body := buf[recordUnit:][:r.body]
	whole = true
	switch r.kind {
	case logged:
		for i := range r.count {
			c := chapter{version: version{entry{written, r.sums[i]}, r.at + recordUnit + uint64(i)*SliceSize, true}}
			if checksum(body[i*SliceSize:][:SliceSize]) != r.sums[i] {
				c.version, whole = version{entry: entry{state: rotten}, at: r.at}, false
			}
			chapters = append(chapters, c)
		}
	case inPlace:
		whole = checksum(body) == r.sums[0]
		for i := range r.count {
			c := chapter{version: version{entry: entry{state: rotten}, at: r.at}}
			if whole {
				p := decodePlacement(body[i*sumBytes:])
				c = chapter{version{entry: entry{written, p.sum}, at: r.at}, p.before}
			}
			chapters = append(chapters, c)
		}
	}
	return chapters, whole
}
