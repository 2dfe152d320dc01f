// Package conn is what the servers of the fabric do alike: they listen, let
// clients in, execute the requests of each, and send the replies together.
//
// # Who executes a request
//
// A connection has one leader: the goroutine that reads its requests. Which
// goroutine executes them depends on how long that takes:
//
//   - At first the leader executes each request itself. Its replies wait until it
//     would have to wait for input, and go out in one write. Nothing is handed
//     from goroutine to goroutine, which costs as much as a small request does.
//   - When requests of a kind take longer than handOver on average, each gets a
//     goroutine of its own while others are under way or have come. What is slow
//     gains more from being asked several things at once than a wake-up costs. One
//     that is alone is still executed by the leader, unless its kind takes so long
//     that others would wait for it.
//   - A request that the leader executes and that takes longer than patience
//     loses it the lead: a new goroutine reads on.
//
// Who answers lets others go first who are about to answer as well, so that one write
// takes all to the client. Goroutines are used again (package hands).
//
// So a device that is fast costs no switch, one that is slow is asked in
// parallel, and one request that never ends holds up no other. The protocols allow
// replies in any order.
//
// # Who comes in
//
// A handshake may last handshakeTime; of more than maxHandshakes the oldest is cut, so that
// a client that connects and is silent keeps nobody out.
package conn
