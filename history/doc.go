// Package history keeps what every server did: its utilisation, its reimages,
// and how long tasks ran.
//
// Samples come from CSV (ReadSamples), from Prometheus (history/prometheus) and
// from this machine (local/proc). A Store keeps them in kv as compressed
// chunks, one per server and day, and gives them back as series on an even grid:
// the average server of a tenant (OSDI'16 §3.2). A slot without a sample is
// NaN; nothing is interpolated.
//
// An Import is all or nothing. It writes rows as it goes, so memory stays
// bounded in whatever order samples come, but every row carries the import's
// number, and readers skip numbers that the ledger does not count. Commit is one
// compare-and-set of the ledger. An import under way has a lease: when it
// expires, another process may give the import up.
//
// An index has the header of every chunk. LastWindow chooses the window to learn
// from by it, so the samples of a window are read once.
//
// docs/formats/history.md describes the tables and chunks.
package history
