// Package web serves the HTTP API of a running gleaner (docs/api.md). It can
// run commands, so it is guarded: see Guard.
package web
