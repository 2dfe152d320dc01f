// Package shuffle brings together the pairs that have the same key, in bounded memory.
//
//	Add ──> Sorter ── full ──> Run, sorted, one section a partition ──┐
//	                           Run                                    ├──> Merge of a partition, sorted
//	                           Run                                    ┘
//
// A Sorter collects pairs in memory that is allocated once. When it is full its
// owner writes it to a Space as a Run: a sorted file with a section for each
// partition. A Merge reads one partition of many runs in order. It has one block
// of each run in memory; if there are more runs than fit, it merges some of them
// to a longer run first.
//
// Pairs are ordered by job, key, source and value. That is an order of all
// pairs, so what a Merge gives does not depend on how pairs were spread over
// sorters and runs.
//
// Runs are written once, and whoever has the Run knows where its sections end.
// Blocks have checksums: a run that is missing, short or changed is Damaged, and
// its owner makes it again. So runs need not be synced.
// docs/formats/curator.md has every byte.
package shuffle
