// Package curator scans kv tables for upkeep (NSDI'17 §3.1). It knows no table: a table's
// owner writes Jobs, the curator reads each table once for all of them and hands back
// proposed tasks (curator/task), and the owner carries those out or refuses.
//
//	table ── Split ──> range ── Filter, Map of every job ──> pairs ──┐
//	table ── Split ──> range ── Filter, Map of every job ──> pairs ──┤ sorted by key (curator/shuffle)
//	                                                                 v
//	     tasks, by priority <── merged <── Reduce of the job, key by key
//
// A job that needs two tables maps both to the same keys, and its Reduce gets
// the values of a key from both: a join.
//
// # Tasks are data
//
// A Reduce sees one key. What is decided over all keys (the coldest groups, the
// fullest disks) is decided by the owner: tasks come in the order of their
// priority, so it reads as many as it wants. A task says what was seen when it was
// proposed; the tables may have changed since, so the owner compares before it acts.
//
// # Units, and who does them
//
// A scan is kept in kv as units: first a range of a table to map, then a partition of
// the pairs to reduce. A worker claims a unit until a moment that it keeps moving on, by
// compare-and-set, so a unit whose worker died is claimed by another. Which unit is next follows from the
// units alone: there is no other state, and no message. Whoever has the lease "master" makes the
// units, waits for all of them, and takes the tasks. Workers in other processes (Work) need
// the same store, jobs and Space as the master.
//
// What a unit has done counts when its record in kv says so, with the runs that hold
// the result. A range is also recorded when memory is full or some time has passed:
// its pairs are written, and what is left of it is Reader.Rest. So a scan that
// was interrupted, by whatever, is continued by the next Scan of the same jobs. A run that turns out
// to be damaged when it is read has its unit done again.
//
// # What a scan promises
//
// A record that exists and does not change throughout the scan is mapped once for each job,
// whatever dies meanwhile; one that changes is mapped as it was at some moment, or at several
// moments if its range was done twice. The tasks depend on nothing else: not on ranges, partitions,
// workers or memory. Tasks are handed over at least once: after a crash, all of them again.
package curator
