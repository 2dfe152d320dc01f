package storage

import (
	"fmt"
	"math/rand/v2"
	"time"

	"gleaner/placement"
	"gleaner/sim/datacenter"
)

// How long HDFS waits for a server's heartbeat before it considers its replicas
// lost, and above which utilisation a server is busy in the paper (OSDI'16 §6.4).
const (
	Noticed   = 10*time.Minute + 30*time.Second
	BusyAbove = 0.66
)

// A Placer chooses servers for replicas, and accounts for their space.
type Placer interface {
	// Place appends servers to those that hold a block's replicas already, none
	// for a new block, until there are n. An error means that it refuses to.
	Place(have []placement.ServerIndex, creator placement.ServerIndex, n int, r *rand.Rand) ([]placement.ServerIndex, error)
	// Take books room for a block on a server's disk, Release returns room for n.
	Take(placement.ServerIndex) placement.DiskIndex
	Release(disk placement.DiskIndex, n int)
}

// A Store is where the replicas of all blocks are.
type Store struct {
	placer   Placer
	blocks   int
	replicas int
	r        *rand.Rand

	where []placement.ServerIndex // replicas slots a block: the servers, the first count of them valid
	count []uint8                 // replicas a block has
	on    [][]uint32              // the blocks on each server
	disk  []placement.DiskIndex   // of each server that has any: it has one disk
}

// Fill places blocks, each created by a server drawn at random.
func Fill(placer Placer, servers, blocks, replicas int, r *rand.Rand) (*Store, error) {
	s := &Store{
		placer: placer, blocks: blocks, replicas: replicas, r: r, where: make([]placement.ServerIndex, blocks*replicas),
		count: make([]uint8, blocks), on: make([][]uint32, servers), disk: make([]placement.DiskIndex, servers),
	}
	each := blocks * replicas / servers
	for i := range s.on {
		s.on[i] = make([]uint32, 0, each+each/4)
	}
	have := make([]placement.ServerIndex, 0, replicas)
	for b := range blocks {
		placed, err := placer.Place(have, placement.ServerIndex(r.IntN(servers)), replicas, r)
		if err != nil {
			return nil, fmt.Errorf("storage: after %d of %d blocks: %w", b, blocks, err)
		}
		for _, server := range placed {
			s.take(server)
			s.add(uint32(b), server)
		}
	}
	return s, nil
}

// take books room for a block on a server.
func (s *Store) take(server placement.ServerIndex) { s.disk[server] = s.placer.Take(server) }

func (s *Store) add(b uint32, server placement.ServerIndex) {
	s.where[int(b)*s.replicas+int(s.count[b])] = server
	s.count[b]++
	s.on[server] = append(s.on[server], b)
}

// Replicas returns the servers that hold block b; the slice is the store's own.
func (s *Store) Replicas(b int) []placement.ServerIndex { return s.where[b*s.replicas:][:s.count[b]] }

// drop forgets that a server holds block b.
func (s *Store) drop(b uint32, server placement.ServerIndex) {
	at := s.where[int(b)*s.replicas:][:s.count[b]]
	for i, other := range at {
		if other == server {
			at[i] = at[len(at)-1]
			s.count[b]--
			return
		}
	}
	panic("storage: a server lists a block that is not on it")
}

// Access reads n blocks, each drawn at random in a random slot from the first up
// to the last, and counts those that fail because all their replicas are on busy servers.
func (s *Store) Access(d *datacenter.Datacenter, first, last, n int, r *rand.Rand) (failed int) {
	for range n {
		b, slot := r.IntN(s.blocks), first+r.IntN(last-first)
		if s.denied(d, b, slot) {
			failed++
		}
	}
	return failed
}

func (s *Store) denied(d *datacenter.Datacenter, b, slot int) bool {
	for _, server := range s.Replicas(b) {
		if d.CPU(int(server), slot) <= BusyAbove {
			return false
		}
	}
	return true
}
