package tiers

import "time"

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
		m.to.write(one.on, s.now, piece)
		if one.piece++; one.piece == pieces {
			m.end(one, s)
			return
		}
	}
	one.read = m.from.read(s.groups[one.group].on, s.now, piece)
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
