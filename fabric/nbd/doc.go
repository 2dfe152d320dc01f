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
// # Who executes a request
//
// A connection has one leader: the goroutine that reads its requests. Which
// goroutine executes them depends on how long the device takes:
//
//   - At first the leader executes each request itself. Its replies wait until it
//     would have to wait for input, and go out in one write. Nothing is handed
//     from goroutine to goroutine, which costs as much as a small request does.
//   - When requests of a kind take longer than handOver on average, each gets a
//     goroutine of its own. Such a device gains more from being asked several
//     things at once than a wake-up costs.
//   - A request that the leader executes and that takes longer than patience
//     loses it the lead: a new goroutine reads on.
//
// So a device that is fast costs no switch, one that is slow is asked in
// parallel, and one request that never ends holds up no other. The protocol allows replies
// in any order.
//
// # What a client can cost
//
// A connection has at most maxInFlight requests with maxInFlightBytes of payload under way,
// and is not read while it has that many; nor is one whose client does not take
// its replies. Neither affects another connection. A handshake
// may last handshakeTime; of more than maxHandshakes the oldest is cut. At most
// Options.Clients connections may have an export open.
package nbd
