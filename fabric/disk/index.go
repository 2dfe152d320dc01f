package disk

import (
	"maps"
	"math/bits"
	"slices"
	"sync"
)

// version is what a slice is, newer than its group's table says.
type version struct {
	entry
	at     uint64 // in the log: of the slice's bytes, or of the record that tells of them
	logged bool   // the bytes are in the log, not in the group file
}

// versions has the slices of a group whose table is behind. They are kept by runs, since a large write brings hundreds at once. A nil one has none.
type versions struct {
	known Mask
	runs  [SlicesPerGroup / runSlices]*[runSlices]version // nil where none is known
}

const runSlices = 16

// get gives the version of a slice, if there is one.
func (v *versions) get(slice int) (version, bool) {
	if v == nil || !v.known.Has(slice) {
		return version{}, false
	}
	return v.runs[slice/runSlices][slice%runSlices], true
}

func (v *versions) set(slice int, to version) {
	run := &v.runs[slice/runSlices]
	if *run == nil {
		*run = new([runSlices]version)
	}
	(*run)[slice%runSlices] = to
	v.known.Add(slice)
}

func (v *versions) remove(slice int) {
	v.known.remove(slice)
	first := slice / runSlices * runSlices
	if v.known[first/64]>>(first%64)&(1<<runSlices-1) == 0 {
		v.runs[slice/runSlices] = nil
	}
}

// before gives the slices, in order, whose version is older than a position in the log.
func (v *versions) before(at uint64) []int {
	if v == nil {
		return nil
	}
	var out []int
	for slice := range v.known.all {
		if v.runs[slice/runSlices][slice%runSlices].at < at {
			out = append(out, slice)
		}
	}
	return out
}

// all gives the slices of a set in order.
func (m *Mask) all(yield func(int) bool) {
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			if !yield(i*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// remove takes a slice out of the set.
func (m *Mask) remove(slice int) { m[slice/64] &^= 1 << (slice % 64) }

// index has the versions of all groups. Those of a group are changed by whoever holds its lock.
type index struct {
	mu     sync.Mutex
	groups map[GroupID]*versions
}

// of gives the versions of a group, to be read under the group's lock.
func (x *index) of(group GroupID) *versions {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.groups[group]
}

// open gives the versions of a group, to be changed under the group's lock.
func (x *index) open(group GroupID) *versions {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.groups[group] == nil {
		x.groups[group] = &versions{}
	}
	return x.groups[group]
}

// has says whether there is a version of a slice of a group from one on, under the group's lock.
func (x *index) has(group GroupID, first int) bool {
	v := x.of(group)
	if v == nil {
		return false
	}
	for slice := range v.known.all {
		if slice >= first {
			return true
		}
	}
	return false
}

// drop forgets slices of a group.
func (x *index) drop(group GroupID, drained []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	v := x.groups[group]
	if v == nil {
		return
	}
	for _, slice := range drained {
		v.remove(slice)
	}
	if v.known == (Mask{}) {
		delete(x.groups, group)
	}
}

func (x *index) forget(group GroupID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.groups, group)
}

func (x *index) all() []GroupID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.groups))
}
