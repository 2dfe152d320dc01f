// Package nbd serves block devices by the Network Block Device protocol, so
// that qemu, fio, nbdcopy or a kernel can use them as they are. It knows
// nothing of what is behind a Device. The protocol is that of
// https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md.
//
// # What is kept of the protocol
//
// Handshake: fixed newstyle, with EXPORT_NAME, ABORT, LIST, STARTTLS, INFO, GO,
// STRUCTURED_REPLY, LIST_META_CONTEXT and SET_META_CONTEXT. Transmission: READ
// (with DF), WRITE, DISC, FLUSH, TRIM, WRITE_ZEROES (with NO_HOLE) and BLOCK_STATUS
// (with REQ_ONE) of base:allocation; FUA on any of them; simple and structured
// replies; CAN_MULTI_CONN as the export says. The block sizes advertised
// are the protocol's defaults: 1 byte at least, 4 KiB preferred, 32 MiB at most.
//
// Not kept: the oldstyle handshake, which has no options; CACHE and fast
// zeroes, which are hints; extended headers and RESIZE, which are experiments.
//
// # Who may connect
//
// A Unix socket is for whoever may open its file, and a port of the loopback
// for everyone on the machine. Beyond those Serve insists on TLS. With TLS set
// every client must start it, wherever it comes from, and tls.Config.ClientAuth
// says whether it must have a certificate.
//
// # What a client can cost
//
// A connection has at most maxInFlight requests with maxInFlightBytes of payload under way,
// and is not read while it has that many; nor is one whose client does not take
// its replies. Neither affects another connection. At most Options.Clients connections
// may have an export open. Package conn says what handshakes may cost, and which
// goroutine executes a request.
package nbd
