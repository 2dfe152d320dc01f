// Package record records gRPC traffic as a trace, without any change to either side.
//
// A Proxy between clients and a server passes bytes on unchanged and without delay. For
// each connection a copy goes to a listener, which reads the HTTP/2 frames, joins them
// to messages and decodes these with the descriptors of the server. If the listener is
// too slow or fails, the copy ends and is counted as lost; the traffic is not affected.
//
// Each request message becomes one trace.Call, with what the server sent until the next
// request message as its response (docs/formats/trace.md).
package record
