// Package disk keeps extent groups in a directory: one disk of a data server,
// with a tier, a quota and an identity (the extent store of NSDI'17 §2).
//
// A group has up to 4 MiB in slices of 4 KiB, a CRC32C each. Clients write and
// read any part of it. A slice that was never written reads as zeros; one that
// cannot be trusted is a SliceError that names it, and never wrong bytes.
//
// # What an answer means
//
// A write that returned is outside this process, in the page cache: it survives
// kill -9. After Sync, or with sync set, it survives a power cut as well. Of a
// write that was under way, or was answered and not synced when the power went,
// each slice is as it was before or as it was to become. The one exception is a
// slice of a large overwrite that the hardware tore inside its 4 KiB, or whose checksum
// was lost with the power: it reads as Torn, and Salvage gives the mix of old and new
// sectors that a plain disk would give.
//
// # How a write gets to its group
//
//	up to 64 KiB: log (slices and checksums) ── drain ──> group file (slices, then table)
//	larger:       log (checksums only), slices straight to the group file; drain: table
//
// The log is one preallocated ring, so that many small writes share one fdatasync.
// The table of checksums in a group file is changed by the drain alone, from
// records that are on stable storage. Three orders make a crash harmless:
//
//   - A record is synced before anything that it protects is overwritten in a group
//     file by the drain. Before a large write over slices that the file already holds,
//     its record is synced or an intent, which stands for many such records.
//   - The group files are synced before the tail of the log moves past a record.
//   - A group file with no header is no group: what its Create was to bring was never
//     synced. So Create need not wait for the disk.
//
// Opened after a crash, the disk reads the log from its tail. A slice whose newest
// version is in the log has it from there. One that was written in place is
// compared with the checksums of its versions, newest first: the first that fits
// is what it holds. If none fits it is torn, or rotten if it is known to have been
// synced and no intent says that it may have been overwritten since. Then everything is drained and the log begins anew, one lap on,
// so that no record left behind can be taken for a new one.
//
// How a torn end of the log is told from rot: each record says up to where the log,
// and the slices written in place, were known to be synced when it was written, and
// a sync adds such a mark behind itself. A bad record before the mark is rot, one behind it was
// never synced. What rots after a sync and before its mark reached the disk (one
// write later, or the kernel's next write-back) is taken for never synced, and only by an
// Open after a power cut in that time.
//
// # Bounds
//
// Memory: the headers and tables of at most Options.OpenGroups groups, an index of what is in
// the log, and one number for each vDisk that was ever fenced. Space: a group grows by blocks of 1 MiB,
// which are charged to the quota and allocated before a write to them is answered;
// draining needs no space beyond them.
//
// After a failed write or sync the disk takes no more writes until it is opened
// again, since what the page cache then holds is not known. Reads go on.
package disk
