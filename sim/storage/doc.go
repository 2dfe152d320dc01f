// Package storage simulates blocks on harvested disks: a year of reimages that
// destroy replicas, and a month of accesses that busy servers deny (OSDI'16 §6.4).
//
// # The model
//
// All blocks are placed when the simulation begins, each by a server drawn at
// random. A reimage destroys the replicas on its server at once and leaves it
// empty, ready to take others. It is noticed when the server has missed its
// heartbeats for Noticed; then every block that was there is rebuilt from a
// remaining replica, in the order that placement/repair decides. Each server
// sends at most repair.PerHour blocks an hour, one after the other, so a rebuild takes
// one turn of two minutes of its source. The target is chosen by the same policy
// that placed the block. A rebuild whose source or target is reimaged during its
// turn has failed and starts again. A block is lost when its last replica is
// destroyed, even during a rebuild.
//
// An access reads one block in one slot. It fails if all servers that hold a
// replica are busy then: if their primaries use more than BusyAbove.
package storage
