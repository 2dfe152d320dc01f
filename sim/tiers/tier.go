package tiers

import (
	"time"

	"gleaner/sim/disks"
)

// A tier is disks of one kind.
type tier struct{ disks []disks.Disk }

func newTier(kind disks.Kind, n int) tier {
	t := tier{make([]disks.Disk, n)}
	for i := range t.disks {
		t.disks[i].Kind = kind
	}
	return t
}

func (t *tier) capacity() int64 { return int64(len(t.disks)) * t.disks[0].Kind.Capacity }

func (t *tier) usage() float64 {
	used := int64(0)
	for i := range t.disks {
		used += t.disks[i].Used
	}
	return float64(used) / float64(t.capacity())
}

// take finds room for both copies of a group on the two emptiest disks.
func (t *tier) take() (on [2]uint8, ok bool) {
	a, b := -1, -1 // emptiest, second
	for i := range t.disks {
		switch used := t.disks[i].Used; {
		case a < 0 || used < t.disks[a].Used:
			a, b = i, a
		case b < 0 || used < t.disks[b].Used:
			b = i
		}
	}
	if b < 0 || !t.disks[a].Take(Group) {
		return on, false
	}
	if !t.disks[b].Take(Group) {
		t.disks[a].Give(Group)
		return on, false
	}
	return [2]uint8{uint8(a), uint8(b)}, true
}

func (t *tier) give(on [2]uint8) {
	for _, d := range on {
		t.disks[d].Give(Group)
	}
}

// read reads from the disk that is less behind, and returns when that is done.
func (t *tier) read(on [2]uint8, at time.Duration, size int64) time.Duration {
	a, b := &t.disks[on[0]], &t.disks[on[1]]
	if b.Backlog(at) < a.Backlog(at) {
		a = b
	}
	return a.Do(at, size, false)
}

// write writes both copies.
func (t *tier) write(on [2]uint8, at time.Duration, size int64) time.Duration {
	return max(t.disks[on[0]].Do(at, size, true), t.disks[on[1]].Do(at, size, true))
}
