// Package search is a primary to harvest beside: a real search service, in a
// process of its own, and a load for it that follows a trace of utilisation.
//
// The service is in room service; here are its corpus and its clients. The load is an open loop:
// queries are sent when the trace says, not when the service is ready for them, and
// a query's latency counts from when it was due. A stall of the service therefore
// shows in the latency of all queries that were due meanwhile, not only of those
// that it had accepted.
package search
