// Package web serves the HTTP API of a running gleaner (docs/api.md), and the
// pages beside it (docs/page.md). Both can run commands, so they are guarded: see Guard
// and Browsers.
package web
