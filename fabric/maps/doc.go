// Package maps keeps the fabric's metadata in kv (NSDI'17 §2.2): what a vDisk's blocks
// are made of, and which disks hold that.
//
//	name ──> vDisk ──> block ──> extents ──> group ──> disks
//	           │
//	           └──> parent vDisk, for what the vDisk has not written itself
//
// A block of 1 MiB is a pile of extents, the newest on top. A slice of 4 KiB is read from the first
// extent of the pile that has it written; if none has, from the same block of the parent;
// if there is no parent, it is zeros. An extent is a quarter of a group, and a slice of
// a block has the same place in each extent of the pile. Which slices an extent has written
// is known by the disks and not kept here, so that writing to an extent changes no metadata.
//
// A packed extent is anywhere in its group, compressed. It is never written again, so its record says what it is made of. The group's record lists its
// tenants, the extents that may be in it: it is removed when none of them is.
//
// # Order of changes
//
// What is referred to is made first and removed last: group, its replicas, extent, block; and
// the other way round. So no record refers to one that is not there, and a crash leaves at most
// groups and extents that nothing refers to.
//
// # Groups that a writer may be changing
//
// Replicas are equal but for writes under way. After a crash it must be known where those were. So
// a writer marks a group (Mark) before it writes to it, and unmarks it when all replicas are equal and synced. Who
// takes over a vDisk compares the replicas of its marked groups.
//
// # When groups were used
//
// The access map is eventually consistent: it is written in batches, some time after the reads and writes that it
// tells of, and a crash loses the last of them. Nothing but the choice of a tier depends on it.
//
// docs/formats/fabric.md has every byte.
package maps
