// Package record listens in on gRPC traffic and writes it down as a trace,
// without any change to either side.
//
// A Proxy stands between clients and a server and passes bytes: what arrives
// on one side leaves on the other, the very same, without waiting for anything.
// A copy goes to a listener of its own for each connection, which reads the
// HTTP/2 frames, puts the messages together and decodes them with the
// descriptors of the server. When the listener is slow, damaged or dies, the
// copy ends and is counted as lost; the traffic does not notice.
//
// Each request message becomes one trace.Call, with what the server sent
// until the next request message as its response (docs/formats/trace.md).
package record
