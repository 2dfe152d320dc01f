// Package upkeep decides what keeps the fabric healthy (NSDI'17 §3.2, §3.3): jobs for the curator over the fabric's maps, a policy of
// thresholds, and what is to be done with each task.
//
//	maps ── curator.Scan of Jobs ──> proposals ── Planner ──> tasks ── queue ──> Do ──> volume.Space
//
// A job sees the records of one key. What is decided over all keys is decided by the Planner, which reads proposals in the order of
// their priority: the coldest groups until a tier is below its limit, sparse groups of one vDisk until together they fill a group.
//
// Scans lock nothing, so a task may be out of date. Every operation looks at the maps again, under the group's lock, and does nothing where
// the task does not hold any more. What has no replica to spare is never given up: new is written, read back and entered in the maps
// before old is removed. So tasks may be refused, done twice and done in any order.
package upkeep
