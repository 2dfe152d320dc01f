// Package virtual is a fabric in virtual time: the real maps, scans, thresholds, plans, queues and placement, over simulated disks (NSDI'17 §3).
//
// # The model
//
// Space and time are simulated, bytes are not. A read goes to the replica whose disk is less behind, a write to all of them. What is written
// for the first time gets a group on the fastest tier that has room. Reads and writes of upkeep wait in the same queues.
//
// Upkeep scans when a front does, does one task at a time and rests three times as long as that took; a server that sends a replica waits as
// long as a front lets it. A scan takes no time: the maps are on no disk of these. The maps change when a task
// begins, and its reads and writes follow one after the other. A disk that goes away in their midst is noticed by the next scan.
//
// A clock may run faster than the disks. Then all that is counted in minutes and hours (when to scan, how long ago a group was used) is
// shorter by that factor. With as much less data a long run becomes a short one in which disks are as busy as before.
package virtual
