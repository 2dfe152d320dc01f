// Package kv keeps ordered tables of bytes: the one seam between Gleaner and
// whatever stores its metadata. kv/mem keeps them in memory, kv/pebble in a
// directory of this machine; kv/kvtest is the suite that every store passes.
//
// # Tables, parts and rows
//
// A record stands under a Key of two: a part, and a row in it. The rows of a part
// are in the order of their bytes, and a Range with a Part is a run of them. Parts
// have an order too, but it is the store's own: a Range without a Part is a piece
// of that order, as Split cut it, and its bounds mean nothing to anyone else. So
// what must be read in order shares a part, and a part is small enough for one server.
//
// There are two kinds. A Table changes by compare-and-set, linearizably: one record
// (CompareAndSet, CompareAndDelete) or some rows of one part together (Apply). A
// LooseTable takes writes as they come, is eventually consistent, and is cheaper.
// No write spans two parts.
//
// # Versions, and writes whose answer is lost
//
// A compare-and-set names the version it expects and the one it writes. The writer
// chooses the latter, as its own id and a count (see Writer), so no two writes ever
// have the same. That is for stores on a network: a broken connection or a
// timeout can hide a write that was applied, or that will be. The store then
// says ErrUnknown, and the writer reads the record:
//
//   - The version is its own: the write was applied.
//   - The version is the old one: the write was not applied, since no version
//     comes twice. It may still be under way, so the same write is tried again; if
//     both arrive, one finds the version changed. Either way it was written once.
//   - Another write stands there. It may have replaced this one or forestalled
//     it, and the versions cannot tell. ErrUnknown stays. A caller that must know
//     puts what it needs into the value (a Lease has its holder).
//   - The record was to be new and is not there. It may have been written and
//     deleted since, or come yet, so trying again could bring it back from the
//     dead. ErrUnknown stays. A caller that knows of no deletes may try again:
//     that is Writer.Create, for keys that are never used twice.
//
// Writer.Set does this, and Writer.Delete as far as it can be done: a record that
// is gone does not say who removed it. Writer.Apply reads the rows it changes: one
// that it set proves the whole Apply applied, one that stands at its old version
// proves that it was not.
//
// # What a scan promises
//
// Every store: each record that stands throughout the scan comes once, with a value
// that it had during the scan and not one older than was acknowledged before. A
// record written or deleted meanwhile may come or not. The two of this module
// promise more: a scan is a snapshot of the moment that it began. What is built on kv may
// not need that; use it in tests.
//
// # How it fits Apache Cassandra
//
// A table is a CQL table
//
//	(part blob, row blob, writer bigint, seq bigint, value blob, PRIMARY KEY (part, row))
//
// and a loose one is the same without writer and seq.
//
//   - Get: SELECT at SERIAL for a table, which finishes or discards what
//     is half done, and at QUORUM for a loose one.
//   - CompareAndSet: INSERT … IF NOT EXISTS for the zero version, else UPDATE … IF
//     writer = ? AND seq = ?; CompareAndDelete: DELETE … IF the same. Each touches one
//     partition, as lightweight transactions must. Not applied is ErrConflict; a
//     timeout, an unavailable replica after the proposal or a lost connection is ErrUnknown.
//   - Apply: a conditional batch of those statements, which one partition may have. Keep is
//     an UPDATE of the version to what it is, IF it is that.
//   - Peek: SELECT at LOCAL_ONE.
//   - Scan with a Part: SELECT … WHERE part = ? AND row >= ? AND row < ?, by pages.
//     Without: WHERE token(part) > ? AND token(part) <= ?; the bounds are tokens.
//     Both at QUORUM, which sees every write acknowledged at QUORUM before.
//   - Rest: the bounds of a range of the whole table are a token, or a token, a part and a
//     row behind which to go on.
//   - Split: the token ring cut into n by the sizes in system.size_estimates.
//   - Drop: DROP TABLE.
//   - Put and Delete of a loose table: one unconditional statement a record, at QUORUM.
//
// From there come the limits: a part has at least one byte, a part or row at most
// MaxKey and a value at most MaxValue, table names are plain, and a Put of many
// records is not atomic.
package kv
