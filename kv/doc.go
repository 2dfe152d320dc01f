// Package kv keeps ordered tables of bytes: the interface between Gleaner and
// the store of its metadata. kv/mem keeps them in memory, kv/pebble in a
// directory of this machine, kv/cassandra in Apache Cassandra; kv/kvtest is the
// test suite that every store passes, kv/transfer copies one store to another.
//
// # Tables, parts and rows
//
// The Key of a record has a part, and a row in that part. The rows of a part are
// in the order of their bytes, and a Range with a Part is some of them in order.
// Each store orders parts as it likes: a Range without a Part is a piece of that
// order, as Split made it, and only that store can read its bounds. So what must
// be read in order shares a part, and a part is small enough for one server.
//
// There are two kinds of tables. A Table changes by compare-and-set, linearizably:
// one record (CompareAndSet, CompareAndDelete) or some rows of one part together
// (Apply). A LooseTable does not compare, is eventually consistent, and is cheaper.
// No write spans two parts.
//
// # Versions, and writes whose answer is lost
//
// A compare-and-set names the version it expects and the one it writes. The writer
// chooses the latter, as its own id and a count (see Writer), so no two writes ever
// have the same. Stores on a network need that: after a broken connection or a
// timeout, a write may have been applied, or may be applied later. The store then
// returns ErrUnknown, and the writer reads the record:
//
//   - The version is its own: the write was applied.
//   - The version is the old one: the write was not applied, since no version
//     is used twice. It may still be under way, so the writer sends the same write
//     again; if both arrive, the second fails. Either way it is written once.
//   - The version is of another write. That may have replaced this one or come
//     before it; the versions do not tell. ErrUnknown is returned. A caller that
//     must know puts what it needs into the value (a Lease has its holder).
//   - The record was to be new and is not there. It may have been written and
//     deleted since, or may still arrive, so a retry could restore a deleted
//     record. ErrUnknown is returned. A caller that knows of no deletes may retry:
//     that is Writer.Create, for keys that are never used twice.
//
// Writer.Set does this. Writer.Delete does it as far as possible: a record that
// is gone does not tell who deleted it. Writer.Apply reads the rows it changes: a
// row with its new version proves that the Apply was applied, a row with its old
// version proves that it was not.
//
// # What a scan promises
//
// In every store, a scan yields each record that exists throughout the scan once,
// with a value that it had during the scan and that is not older than what was
// acknowledged before. It may or may not yield a record written or deleted
// meanwhile. mem and pebble promise more: a scan is a snapshot of the moment at
// which it began. Only tests may rely on that.
//
// # How it fits Apache Cassandra
//
// In kv/cassandra a table is a CQL table
//
//	(part blob, row blob, writer bigint, seq bigint, value blob, PRIMARY KEY (part, row))
//
// and a loose one is the same without writer and seq.
//
//   - Get: SELECT at SERIAL for a table, which finishes or discards writes that
//     are under way, and at QUORUM for a loose one.
//   - CompareAndSet: INSERT … IF NOT EXISTS for the zero version, else UPDATE … IF
//     writer = ? AND seq = ?; CompareAndDelete: DELETE … IF the same. Each touches one
//     partition, as lightweight transactions must. Not applied is ErrConflict; an error is
//     ErrUnknown, unless nothing was sent, the statement was refused, or there were too few
//     replicas to begin.
//   - Apply: a conditional batch of those statements, which one partition may have. Keep is
//     an UPDATE of the version to what it is, IF it is that.
//   - Load: INSERT without a condition and with a time before all others, so that every
//     conditional write after it wins.
//   - Peek: SELECT at QUORUM, which takes no round of Paxos.
//   - Scan with a Part: SELECT … WHERE part = ? AND row >= ? AND row < ?, by pages.
//     Without: WHERE token(part) > ? AND token(part) <= ?, some ranges of tokens ahead.
//     Both at QUORUM, which sees every write acknowledged at QUORUM before.
//   - Rest: the bounds of a range of the whole table are a token, or a token, a part and a
//     row after which to continue.
//   - Split: the token ring divided evenly into n.
//   - Drop: DROP TABLE.
//   - Put and Delete of a loose table: unconditional statements at QUORUM, those of one
//     partition together.
//
// Hence the limits: a part has at least one byte, a part or row at most
// MaxKey and a value at most MaxValue, table names are plain, and a Put of many
// records is not atomic.
package kv
