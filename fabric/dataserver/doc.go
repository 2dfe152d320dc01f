// Package dataserver lets a front reach the disks of the fabric through one
// interface, Disk, be they in its own process (Local) or at a data server (Serve,
// Client). What a disk promises is said in package disk, and an error is the same for errors.Is and
// errors.As on both sides.
//
// # A connection
//
// A client has one connection for each disk that it uses, and one for beats. So no
// disk waits for another, and no beat for any disk. Many requests are in flight on each; answers come in any
// order. docs/formats/fabric-wire.md has every byte.
//
// A caller who has the only request in flight receives its answer itself; where there are several, a
// goroutine of the connection does. Requests that are about to be sent leave together.
//
// Both sides prove that they know the key of the cluster before either says anything
// else: an HMAC over nonces of both, the cluster's id and, under TLS, what only the two ends of that
// TLS connection know (RFC 9266). So certificates need no authority: that of a
// server is made when it starts, and whoever stands between is found out. Beyond Unix sockets and the
// loopback, both sides insist on TLS.
//
// # What a server refuses
//
// ErrBusy, at once: reads, writes and copies while the primary needs the machine, and anything of a disk
// that has 256 requests or 64 MiB in hand already. So a disk that hangs costs no more than that,
// and a connection is always read.
//
// # What a client can rely on
//
// A request ends when its ctx does, whatever became of the server. A write that ended so, or with
// ErrLost, may or may not have been done, and may yet be done until a higher token fences it off.
// With ErrUnreachable it was not sent. A client redials by itself, waiting longer
// each time. It learns that a server is gone for good, or stopped, when Beat meets
// its deadline: then all that is in flight is ErrLost.
//
// # Copies
//
// A Copy reads a replica by its checksums, so that it is of one point in time, and checks it
// on arrival. It is written as disk.Unfinished, which no reader accepts, synced, and
// only then gets its generation. What a crash leaves is no replica; the next Copy replaces it.
package dataserver
