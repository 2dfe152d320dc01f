package storage

import (
	"time"

	"gleaner/sim/datacenter"
)

// A Result is what became of the blocks.
type Result struct {
	Reimages int // that happened
	Rebuilt  int // replicas
	Lost     int // blocks
	Refused  int // rebuilds that found no target; tried again each hour
}

// Run lets the reimages from one time to another happen to the store. It calls
// progress, if there is one, with the share of the time that has passed, and ends
// early with its error.
func (s *Store) Run(reimages []datacenter.Reimage, from, to time.Time, progress func(float64) error) (Result, error) {
	turn := time.Hour / RepairsPerHour
	y := &year{
		Store:    s,
		senders:  make([]sender, s.servers),
		underway: make([]bool, s.blocks),
		reimaged: make([]int32, s.servers),
		have:     make([]int32, 0, s.replicas),
		late:     int32((Noticed + turn - 1) / turn),
	}
	for i := range y.senders {
		y.senders[i].waiting = make([]queue, s.replicas)
		y.reimaged[i] = -1
	}
	last := int32(to.Sub(from) / turn)
	for y.now = 0; y.now <= last; y.now++ {
		end := from.Add(time.Duration(y.now+1) * turn)
		for len(reimages) > 0 && reimages[0].At.Before(end) && reimages[0].At.Before(to) {
			if !reimages[0].At.Before(from) {
				y.reimage(reimages[0].Server)
			}
			reimages = reimages[1:]
		}
		y.finish()
		y.begin()
		if progress != nil && y.now%RepairsPerHour == 0 {
			if err := progress(float64(y.now) / float64(last)); err != nil {
				return y.result, err
			}
		}
	}
	return y.result, nil
}

// A year is a run under way. Time goes in turns, in each of which every server
// can send one block.
type year struct {
	*Store
	result Result
	now    int32 // the turn
	late   int32 // turns until a reimage is noticed

	unnoticed []notice
	senders   []sender // of each server
	active    []int32  // the servers that have something to send, in order of when they began to
	refused   []uint32 // blocks whose rebuild found no target
	flights   []flight
	underway  []bool  // of each block: a rebuild is
	reimaged  []int32 // of each server: the turn it was last reimaged in
	have      []int32
}

// A notice is a reimage that is not known yet, and the blocks to be rebuilt then,
// one entry a replica.
type notice struct {
	turn   int32
	blocks []uint32
}

// A sender is the blocks that a server is to send, by how many replicas they had left.
type sender struct {
	waiting []queue
	length  int
}

// A queue is first in, first out.
type queue struct {
	items []uint32
	head  int
}

func (q *queue) push(b uint32) { q.items = append(q.items, b) }

func (q *queue) pop() (b uint32, ok bool) {
	if q.head == len(q.items) {
		return 0, false
	}
	b = q.items[q.head]
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return b, true
}

// A flight is a rebuild under way in this turn.
type flight struct {
	block          uint32
	source, target int32
}

func (y *year) reimage(server int32) {
	y.result.Reimages++
	y.reimaged[server] = y.now
	blocks := y.on[server]
	if len(blocks) == 0 {
		return
	}
	y.placer.Release(server, len(blocks))
	left := make([]uint32, 0, len(blocks))
	for _, b := range blocks {
		y.drop(b, server)
		if y.count[b] == 0 {
			y.result.Lost++
		} else {
			left = append(left, b)
		}
	}
	y.on[server] = blocks[:0]
	// What it was to send is to be sent by others.
	for b, ok := y.next(server); ok; b, ok = y.next(server) {
		left = append(left, b)
	}
	y.unnoticed = append(y.unnoticed, notice{y.now + y.late, left})
}

// finish ends the rebuilds of the turn before.
func (y *year) finish() {
	for _, f := range y.flights {
		y.underway[f.block] = false
		if y.reimaged[f.source] == y.now || y.reimaged[f.target] == y.now {
			y.placer.Release(f.target, 1)
			y.wait(f.block)
			continue
		}
		y.add(f.block, f.target)
		y.result.Rebuilt++
	}
	y.flights = y.flights[:0]
}

// wait has one replica of b rebuilt by the server that has least to send of those
// that hold it. A lost block waits for nothing.
func (y *year) wait(b uint32) {
	at := y.Replicas(int(b))
	if len(at) == 0 {
		return
	}
	least := at[0]
	for _, server := range at[1:] {
		if y.senders[server].length < y.senders[least].length {
			least = server
		}
	}
	s := &y.senders[least]
	if s.length == 0 {
		y.active = append(y.active, least)
	}
	s.length++
	s.waiting[len(at)].push(b)
}

// next takes the most urgent of the blocks a server is to send.
func (y *year) next(server int32) (uint32, bool) {
	s := &y.senders[server]
	for level := range s.waiting {
		if b, ok := s.waiting[level].pop(); ok {
			s.length--
			return b, true
		}
	}
	return 0, false
}

// begin starts the rebuilds of this turn: one for each server that has any.
func (y *year) begin() {
	for len(y.unnoticed) > 0 && y.unnoticed[0].turn <= y.now {
		for _, b := range y.unnoticed[0].blocks {
			y.wait(b)
		}
		y.unnoticed = y.unnoticed[1:]
	}
	if y.now%RepairsPerHour == 0 {
		again := y.refused
		y.refused = nil
		for _, b := range again {
			y.wait(b)
		}
	}
	still := y.active[:0]
	for _, server := range y.active {
		y.send(server)
		if y.senders[server].length > 0 {
			still = append(still, server)
		}
	}
	y.active = still
}

// send starts the most urgent rebuild that a server can do now.
func (y *year) send(server int32) {
	var later []uint32
	for b, ok := y.next(server); ok; b, ok = y.next(server) {
		if y.count[b] == 0 {
			continue // lost meanwhile
		}
		if y.underway[b] {
			later = append(later, b)
			continue
		}
		if y.rebuild(b, server) {
			break
		}
	}
	for _, b := range later {
		s := &y.senders[server]
		s.waiting[y.count[b]].push(b)
		s.length++
	}
}

// rebuild starts to rebuild a replica of b, if there is a target for it.
func (y *year) rebuild(b uint32, source int32) bool {
	left := int(y.count[b])
	y.have = append(y.have[:0], y.Replicas(int(b))...)
	placed, err := y.placer.Place(y.have, -1, y.replicas, y.r)
	if err != nil {
		y.result.Refused++
		y.refused = append(y.refused, b)
		return false
	}
	target := placed[left]
	y.placer.Take(target)
	y.underway[b] = true
	y.flights = append(y.flights, flight{b, source, target})
	return true
}
