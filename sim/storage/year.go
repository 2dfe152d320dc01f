package storage

import (
	"time"

	"gleaner/placement"
	"gleaner/placement/repair"
	"gleaner/sim/datacenter"
)

// A Result is what happened to the blocks.
type Result struct {
	Reimages int // that happened
	Rebuilt  int // replicas
	Lost     int // blocks
	Refused  int // rebuilds that found no target; tried again each hour
}

// turn is how long a server takes to send one block.
const turn = time.Hour / repair.PerHour

// Run applies the reimages between two times to the store. It calls progress, if
// not nil, with the share of the time that has passed, and stops if that returns
// an error.
func (s *Store) Run(reimages []datacenter.Reimage, from, to time.Time, progress func(float64) error) (Result, error) {
	y := &year{
		Store:    s,
		queue:    repair.New(func(b uint32) []placement.ServerIndex { return s.Replicas(int(b)) }),
		now:      from,
		underway: make([]bool, s.blocks),
		reimaged: make([]time.Time, len(s.on)),
		have:     make([]placement.ServerIndex, 0, s.replicas),
	}
	for ; !y.now.After(to); y.now = y.now.Add(turn) {
		end := y.now.Add(turn)
		for len(reimages) > 0 && reimages[0].At.Before(end) && reimages[0].At.Before(to) {
			if !reimages[0].At.Before(from) {
				y.reimage(placement.ServerIndex(reimages[0].Server))
			}
			reimages = reimages[1:]
		}
		y.finish()
		y.queue.Start(y.now, func(placement.ServerIndex) time.Duration { return turn }, y.rebuild)
		if since := y.now.Sub(from); progress != nil && since%time.Hour == 0 {
			if err := progress(float64(since) / float64(to.Sub(from))); err != nil {
				return y.result, err
			}
		}
	}
	return y.result, nil
}

// A year is the state of Run. Time advances in turns, in each of which every
// server can send one block.
type year struct {
	*Store
	result   Result
	queue    *repair.Queue[uint32]
	now      time.Time // when the turn began
	flights  []flight
	underway []bool      // of each block: a rebuild is
	reimaged []time.Time // of each server: the turn it was last reimaged in
	have     []placement.ServerIndex
}

// A flight is a rebuild under way in this turn.
type flight struct {
	block          uint32
	source, target placement.ServerIndex
}

func (y *year) reimage(server placement.ServerIndex) {
	y.result.Reimages++
	y.reimaged[server] = y.now
	blocks := y.on[server]
	if len(blocks) == 0 {
		return
	}
	y.placer.Release(y.disk[server], len(blocks))
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
	// Others must send what this server was to send, from the turn in which its
	// loss is noticed.
	late := (Noticed + turn - 1) / turn * turn
	y.queue.AddAt(y.now.Add(late), append(left, y.queue.Leave(server)...))
}

// finish ends the rebuilds of the turn before.
func (y *year) finish() {
	for _, f := range y.flights {
		y.underway[f.block] = false
		if y.reimaged[f.source].Equal(y.now) || y.reimaged[f.target].Equal(y.now) {
			y.placer.Release(y.disk[f.target], 1)
			y.queue.Add(f.block)
			continue
		}
		y.add(f.block, f.target)
		y.result.Rebuilt++
	}
	y.flights = y.flights[:0]
}

// rebuild starts to rebuild a replica of b, if there is a target for it.
func (y *year) rebuild(b uint32, source placement.ServerIndex) repair.Answer {
	if y.underway[b] {
		return repair.NotNow
	}
	left := int(y.count[b])
	y.have = append(y.have[:0], y.Replicas(int(b))...)
	placed, err := y.placer.Place(y.have, placement.Nowhere, y.replicas, y.r)
	if err != nil {
		y.result.Refused++
		return repair.NoTarget
	}
	y.take(placed[left])
	y.underway[b] = true
	y.flights = append(y.flights, flight{b, source, placed[left]})
	return repair.Started
}
