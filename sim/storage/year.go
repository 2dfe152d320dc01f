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
		waiting:  make([][]uint32, s.replicas),
		spare:    make([][]uint32, s.replicas),
		underway: make([]bool, s.blocks),
		sent:     make([]int32, s.servers),
		reimaged: make([]int32, s.servers),
		have:     make([]int32, 0, s.replicas),
		late:     int32((Noticed + turn - 1) / turn),
	}
	for i := range y.sent {
		y.sent[i], y.reimaged[i] = -1, -1
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
	waiting   [][]uint32 // blocks to rebuild one replica of, by how many replicas are left
	spare     [][]uint32 // what waiting is built up in for the next turn
	refused   []uint32   // blocks whose rebuild found no target
	flights   []flight
	underway  []bool // of each block: a rebuild is
	sent      []int32
	reimaged  []int32 // of each server: in which turn it last sent, or was reimaged
	have      []int32
}

// A notice is a reimage that is not known yet, and what it destroyed.
type notice struct {
	turn   int32
	blocks []uint32
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
	y.unnoticed = append(y.unnoticed, notice{y.now + y.late, left})
}

// finish ends the rebuilds of the turn before.
func (y *year) finish() {
	for _, f := range y.flights {
		y.underway[f.block] = false
		switch {
		case y.count[f.block] == 0: // lost meanwhile
			y.placer.Release(f.target, 1)
		case y.reimaged[f.source] == y.now || y.reimaged[f.target] == y.now:
			y.placer.Release(f.target, 1)
			y.wait(f.block)
		default:
			y.add(f.block, f.target)
			y.result.Rebuilt++
		}
	}
	y.flights = y.flights[:0]
}

func (y *year) wait(b uint32) {
	level := y.count[b]
	y.waiting[level] = append(y.waiting[level], b)
}

// begin starts as many rebuilds as sources allow, the most urgent first.
func (y *year) begin() {
	for len(y.unnoticed) > 0 && y.unnoticed[0].turn <= y.now {
		for _, b := range y.unnoticed[0].blocks {
			if y.count[b] > 0 {
				y.wait(b)
			}
		}
		y.unnoticed = y.unnoticed[1:]
	}
	if y.now%RepairsPerHour == 0 {
		for _, b := range y.refused {
			if y.count[b] > 0 {
				y.wait(b)
			}
		}
		y.refused = y.refused[:0]
	}
	for level := 1; level < y.replicas; level++ {
		for _, b := range y.waiting[level] {
			y.rebuild(b)
		}
		y.waiting[level] = y.waiting[level][:0]
	}
	y.waiting, y.spare = y.spare, y.waiting
}

// rebuild starts to rebuild a replica of b, or leaves it waiting for the next turn.
func (y *year) rebuild(b uint32) {
	left := int(y.count[b])
	if left == 0 {
		return
	}
	source, ok := y.source(b)
	if !ok || y.underway[b] {
		y.spare[left] = append(y.spare[left], b)
		return
	}
	y.have = append(y.have[:0], y.Replicas(int(b))...)
	placed, err := y.placer.Place(y.have, -1, y.replicas, y.r)
	if err != nil {
		y.result.Refused++
		y.refused = append(y.refused, b)
		return
	}
	target := placed[left]
	y.placer.Take(target)
	y.sent[source] = y.now
	y.underway[b] = true
	y.flights = append(y.flights, flight{b, source, target})
}

// source finds a server that holds b and has not sent in this turn.
func (y *year) source(b uint32) (int32, bool) {
	for _, server := range y.Replicas(int(b)) {
		if y.sent[server] != y.now {
			return server, true
		}
	}
	return 0, false
}
