// Package tiers simulates a store of two tiers in virtual time: extent groups on SSDs
// or HDDs, requests that wait in the queues of their disks, and moves between the
// tiers that use the same disks (NSDI'17 §2, §3.2.2).
//
// # The model
//
// A group has two copies on two disks of one tier. A read goes to the copy
// whose disk is less behind, a write to both. When the simulation begins all groups are written, the newest on
// SSDs up to a given share of them. A group on HDDs that is accessed Repeated times
// within Window moves up, unless the SSDs are more than UpTo full. Tier moves the
// coldest groups down: those accessed longest ago. Both directions are paced at
// PerSecond groups, four at a time; a group moves in pieces of 1 MiB, each read like
// any other and then written to both new places. Requests that change a group while it moves change
// nothing: what is simulated is time and space, not data.
package tiers

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gleaner/input"
	"gleaner/sim/disks"
	"gleaner/sim/oltp"
)

// Group is the size of an extent group, and piece what is moved of it at once.
const (
	Group  = 4 << 20
	piece  = 1 << 20
	pieces = Group / piece
)

// How groups move.
const (
	Repeated  = 3
	Window    = 10 * time.Minute
	UpTo      = 0.95
	PerSecond = 6 // at most, in each direction: a sixth of what four SSDs can write
)

// tick is the time between two pieces.
const tick = time.Second / (PerSecond * pieces)

// A Config is the disks of a store.
type Config struct {
	SSDs, HDDs int // two or more of each
	SSD, HDD   disks.Kind
}

// Paper is the cluster of NSDI'17 §3.4.2: its disks' number and capacity, with the
// speeds of FAST'12.
func Paper() Config {
	c := Config{SSDs: 4, HDDs: 8, SSD: disks.SSD(), HDD: disks.HDD()}
	c.SSD.Capacity, c.HDD.Capacity = 1.85e12/4, 13.80e12/8
	return c
}

type group struct {
	accessed time.Duration // last; before 0: only written before the beginning
	counted  time.Duration // when the present window began
	accesses uint16        // in it
	slow     bool          // on HDDs
	moving   bool
	on       [2]uint8 // disks of its tier
}

// A Store is two tiers of disks and the groups on them.
type Store struct {
	ssd, hdd tier
	first    []int // group of each vDisk
	groups   []group
	now      time.Duration // the last tick
	up, down mover

	SSDRead int64 // bytes of requests that SSDs served
	Moved   int64 // groups, in both directions
}

// New returns a store that holds vDisks of these sizes, with the newest groups on
// SSDs up to a share of their space.
func New(cfg Config, vdisks []int64, share float64) (*Store, error) {
	s := &Store{ssd: newTier(cfg.SSD, cfg.SSDs), hdd: newTier(cfg.HDD, cfg.HDDs)}
	for _, size := range vdisks {
		s.first = append(s.first, len(s.groups))
		s.groups = append(s.groups, make([]group, (size+Group-1)/Group)...)
	}
	s.up.to, s.down.to = &s.ssd, &s.hdd
	s.up.from, s.down.from = &s.hdd, &s.ssd
	for i := len(s.groups) - 1; i >= 0; i-- {
		g := &s.groups[i]
		g.accessed = time.Duration(i - len(s.groups)) // in the order of their writing
		g.slow = s.ssd.usage() >= share
		on, ok := s.tierOf(g).take()
		if !ok {
			return nil, input.Fieldf("capacity", "the disks are full after %d of %d groups", len(s.groups)-i, len(s.groups))
		}
		g.on = on
	}
	return s, nil
}

func (s *Store) tierOf(g *group) *tier {
	if g.slow {
		return &s.hdd
	}
	return &s.ssd
}

// Usage is the share of each tier's space that is taken.
func (s *Store) Usage() (ssd, hdd float64) { return s.ssd.usage(), s.hdd.usage() }

// Operations are how many reads and writes all disks served, of requests and moves.
func (s *Store) Operations() (reads, writes int64) {
	for _, d := range slices.Concat(s.ssd.disks, s.hdd.disks) {
		reads, writes = reads+d.Reads, writes+d.Writes
	}
	return reads, writes
}

// Serve serves a request, none before the last, and returns its latency.
func (s *Store) Serve(r oltp.Request) time.Duration {
	s.Advance(r.At)
	if r.Offset/Group != (r.Offset+r.Size-1)/Group {
		panic(fmt.Sprintf("tiers: %+v is in two groups", r))
	}
	i := s.first[r.VDisk] + int(r.Offset/Group)
	g := &s.groups[i]
	s.touch(i, r.At)
	if r.Write {
		return s.tierOf(g).write(g.on, r.At, r.Size) - r.At
	}
	if !g.slow {
		s.SSDRead += r.Size
	}
	return s.tierOf(g).read(g.on, r.At, r.Size) - r.At
}

// touch counts an access, and lets a group move up that has enough of them.
func (s *Store) touch(i int, at time.Duration) {
	g := &s.groups[i]
	if at-g.counted > Window {
		g.counted, g.accesses = at, 0
	}
	g.accessed = at
	g.accesses++
	if g.slow && !g.moving && g.accesses == Repeated {
		s.up.add(s.groups, i)
	}
}

// Tier plans to move the coldest groups from SSDs to HDDs, as many as take up a share
// of the SSDs, and returns how many these are. It replaces an older plan.
func (s *Store) Tier(share float64) int {
	s.down.clear(s.groups)
	type candidate struct {
		accessed time.Duration
		group    int
	}
	var fast []candidate
	for i := range s.groups {
		if g := &s.groups[i]; !g.slow && !g.moving {
			fast = append(fast, candidate{g.accessed, i})
		}
	}
	slices.SortFunc(fast, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.accessed, b.accessed), cmp.Compare(a.group, b.group))
	})
	n := min(len(fast), int(share*float64(s.ssd.capacity())/(2*Group)))
	for _, c := range fast[:n] {
		s.down.add(s.groups, c.group)
	}
	return n
}

// Advance lets moves go on until a time.
func (s *Store) Advance(to time.Duration) {
	for s.now+tick <= to {
		s.now += tick
		if s.ssd.usage() >= UpTo {
			s.up.clear(s.groups) // what is hot later will ask again
		}
		s.down.step(s)
		s.up.step(s)
	}
}
