// Package trace holds recorded calls: who called what, when, with which arguments,
// and the reply.
//
// The common record is one call a line as JSON (docs/formats/trace.md). Open
// also reads logs that systems write themselves, and recognises them by content:
// Kubernetes audit logs, the same events with Hadoop RPC inside, and the TRACE log of a
// Hadoop client. Packages that use this one do not see which of them a call came from.
package trace
