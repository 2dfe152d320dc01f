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

// A mover moves groups from one tier to the other, a few at a time.
type mover struct {
	from, to *tier
	waiting  []int
	moves    [4]move
	turn     int // the move whose turn it is
}

// A move is one group on its way.
type move struct {
	busy  bool
	group int
	on    [2]uint8      // its new disks
	piece int           // to be read or written next
	read  time.Duration // when the piece will have been read; 0: not asked for yet
}

func (m *mover) add(groups []group, i int) {
	groups[i].moving = true
	m.waiting = append(m.waiting, i)
}

// clear forgets the groups that wait.
func (m *mover) clear(groups []group) {
	for _, i := range m.waiting {
		groups[i].moving = false
	}
	m.waiting = m.waiting[:0]
}

// step writes a piece that was read, then asks for the next one.
func (m *mover) step(s *Store) {
	m.turn = (m.turn + 1) % len(m.moves)
	one := &m.moves[m.turn]
	if !one.busy && !m.begin(one, s.groups) || one.read > s.now { // its disk is behind
		return
	}
	if one.read > 0 {
		for _, d := range one.on {
			m.to.disks[d].Do(s.now, piece, true)
		}
		if one.piece++; one.piece == pieces {
			m.end(one, s)
			return
		}
	}
	one.read = m.from.disks[s.groups[one.group].on[0]].Do(s.now, piece, false)
}

// begin takes the next group, if there is one and room for it.
func (m *mover) begin(one *move, groups []group) bool {
	if len(m.waiting) == 0 {
		return false
	}
	on, ok := m.to.take()
	if !ok {
		m.clear(groups)
		return false
	}
	*one = move{busy: true, group: m.waiting[0], on: on}
	m.waiting = m.waiting[1:]
	return true
}

func (m *mover) end(one *move, s *Store) {
	g := &s.groups[one.group]
	m.from.give(g.on)
	g.on, g.slow, g.moving, g.accesses = one.on, m.to == &s.hdd, false, 0
	one.busy = false
	s.Moved++
}
