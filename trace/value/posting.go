package value

import "gleaner/trace/program"

// A Place is where a call stands: the scale, the node's number in its type, how many
// times the node made the call before, and the list element.
type Place struct{ Scale, Node, Nth, Item int }

// Index is an index of a path that is not fixed; row is that of the list element that
// holds the key.
func (p Place) Index(by program.IndexBy, row int) int {
	switch by {
	case program.IndexItem:
		return p.Item
	case program.IndexNode:
		return p.Node
	case program.IndexNth:
		return p.Nth
	}
	return row
}

// A Posting is the earlier calls found under one key, in the order of time: in a
// recording when it is mined, in the memory of players when it is replayed.
type Posting[C any] struct {
	first, last C
	all         []C
	some        bool
}

// keep is how many calls are kept under one key. It bounds the memory where all
// calls of a run have one key. Half loses 0.15% of Hadoop's arguments, twice gains
// 0.05% for twice the memory.
const keep = 4096

// Add adds a call. Without all, only the first and the last are kept; with it, the first
// ones and the last.
func (p *Posting[C]) Add(c C, all bool) {
	if !p.some {
		p.first, p.some = c, true
	}
	p.last = c
	p.AddBehind(c, all)
}

// AddBehind adds a call that does not hide the ones before it: it is never the first or the
// last.
func (p *Posting[C]) AddBehind(c C, all bool) {
	switch {
	case all && len(p.all) < keep:
		p.all = append(p.all, c)
	case all:
		p.all[keep-1] = c
	}
}

// All are the calls that are kept, if all are.
func (p *Posting[C]) All() []C { return p.all }

// Choose gives the call that is picked at a place; not ok if there is none.
func (p *Posting[C]) Choose(pick program.Pick, at Place) (c C, ok bool) {
	k := at.Node
	switch pick {
	case program.PickLast:
		return p.last, p.some
	case program.PickFirst:
		return p.first, p.some
	case program.PickNth:
		k = at.Nth
	}
	if k >= len(p.all) {
		return c, false
	}
	return p.all[k], true
}
