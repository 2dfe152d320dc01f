// Package volume reads and writes vDisks: it turns a vDisk's bytes into slices of
// extent groups, and sends those to the disks that hold the groups' replicas.
//
// # What an answer means
//
// A write has returned when every replica of the group's list holds it outside our processes.
// A replica that could not be reached is taken off the list first, under a
// new generation, so that it is never read again (fabric/group). After Flush, or with fua,
// each of the list has it on stable storage.
//
// # One writer
//
// A vDisk is written by the holder of its lease. Disks refuse writes with an older token than
// the newest they have seen, so a holder that lost its lease without noticing changes nothing.
//
// Within a volume, a write has its slices for itself: no other request sees or changes them until it
// returned. Else two replicas could apply two writes in different orders, and of two
// reads the later could see the older bytes.
//
// # After a crash
//
// A write under way may have reached some replicas and not others. Its group is marked (fabric/maps). Whoever opens
// the vDisk next compares the replicas of marked groups by their checksums before it reads from them, and copies
// what differs from one to the others. The same is done where a write fails on all replicas.
//
// # Packed groups
//
// Pack puts the extents of cold groups into new ones that take less space and are never written again; Dedup has equal ones share their bytes. A volume remembers where
// its extents are and is not told that they have moved: a group that is gone makes it look again. A write to a packed extent goes to a new one on top.
package volume
