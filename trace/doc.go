// Package trace holds recorded calls: who called what, when, with which
// arguments, and what came back.
//
// The common record is one call a line as JSON (docs/formats/trace.md). Open
// also reads what systems write themselves, told apart by content: Kubernetes
// audit logs, the same events with Hadoop RPC inside, and the TRACE log of a
// Hadoop client. Nothing below this package knows which of them a call came from.
package trace
