package disk

import "sync"

// An intent tells the log that slices of some groups may be overwritten in place before the records that tell
// of it are synced. One sync of an intent stands for those of many large overwrites. After a power cut, a slice of
// such a group that fits none of its checksums is torn and not rotten: it may be what was written last.
//
// An intent is spent when a flush begins: until that ends nobody knows which writes it covers, and afterwards all that
// the intent allowed has its records on stable storage. Who writes appends its record first and then looks for
// an intent, so a write that still relied on a spent one is among those that the flush waits for.
type intents struct {
	mu    sync.Mutex
	at    map[GroupID]uint64 // where the log has the intent
	first GroupID            // of the last one
	count int
}

const (
	widestIntent = 16  // groups of an intent: who overwrites one after the other syncs one of 64 MiB
	mostIntended = 256 // groups, between two flushes: they are read in full after a crash
)

// covers says whether an intent that is not spent covers a group.
func (x *intents) covers(id GroupID, spent uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	at, ok := x.at[id]
	return ok && at >= spent
}

// next is how many groups, from one on, the next intent covers: the more, the longer they have been overwritten in order;
// none if too many are covered.
func (x *intents) next(id GroupID, spent uint64) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	for other, at := range x.at {
		if at < spent {
			delete(x.at, other)
		}
	}
	count := 1
	if id >= x.first && id <= x.first+GroupID(x.count) {
		count = min(2*x.count, widestIntent)
	}
	if len(x.at)+count > mostIntended {
		return 0
	}
	x.first, x.count = id, count
	return count
}

// note enters an intent that is on stable storage.
func (x *intents) note(id GroupID, count int, at uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range count {
		x.at[id+GroupID(i)] = at
	}
}

// intend returns when slices of a group may be overwritten in place by a write whose record ends at a position: it is
// synced, unless an intent covers the group.
func (d *Disk) intend(id GroupID, end uint64) error {
	spent := d.log.spentBefore()
	if d.intents.covers(id, spent) {
		return nil
	}
	count := d.intents.next(id, spent)
	if count == 0 {
		return d.log.sync(end)
	}
	at, end, err := d.log.append(record{kind: intent, group: id, count: count}, make([]byte, frame))
	if err == nil {
		err = d.log.sync(end)
	}
	if err == nil {
		d.intents.note(id, count, at)
	}
	return err
}
