// Package history keeps what every server did: its utilisation, its reimages,
// and how long jobs ran.
//
// Samples come from CSV (ReadSamples), from Prometheus (history/prometheus) and
// from this machine (local/proc). A Store keeps them in kv as compressed
// chunks, one a server and day, and gives them back as series on an even grid:
// the average server of a tenant (OSDI'16 §3.2). A slot without a sample is
// NaN; nothing is ever interpolated.
//
// An Import is all or nothing. Its chunks are written as they fill, so memory
// stays bounded whatever the order of the rows, but they carry the import's
// number, and readers pass over numbers the ledger does not count. Commit is one
// compare-and-set of the ledger. See docs/formats/history.md for the bytes.
package history
