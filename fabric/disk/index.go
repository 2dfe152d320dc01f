package disk

import (
	"maps"
	"slices"
	"sync"
)

// version is what a slice is, newer than its group's table says.
type version struct {
	entry
	at     uint64 // in the log: of the slice's bytes, or of the record that tells of them
	logged bool   // the bytes are in the log, not in the group file
}

// index has the slices whose tables are behind. The versions of a group are
// changed by whoever holds its lock.
type index struct {
	mu     sync.Mutex
	groups map[GroupID]map[int]version
}

// of gives the versions of a group, to be read under the group's lock.
func (x *index) of(group GroupID) map[int]version {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.groups[group]
}

// open gives the versions of a group, to be changed under the group's lock.
func (x *index) open(group GroupID) map[int]version {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.groups[group] == nil {
		x.groups[group] = map[int]version{}
	}
	return x.groups[group]
}

// has says whether there is a version of a slice of a group from one on, under the group's lock.
func (x *index) has(group GroupID, first int) bool {
	for slice := range x.of(group) {
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
	versions := x.groups[group]
	for _, slice := range drained {
		delete(versions, slice)
	}
	if len(versions) == 0 {
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

// before gives the slices, in order, whose version is older than a position in the log.
func before(versions map[int]version, at uint64) []int {
	var out []int
	for slice, v := range versions {
		if v.at < at {
			out = append(out, slice)
		}
	}
	slices.Sort(out)
	return out
}
