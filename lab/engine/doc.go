// Package engine builds real engines and runs them as processes, so that
// traffic can be recorded from them and played to them.
//
// An engine never becomes part of this program: its sources are a separate module,
// built once and kept in the user's cache.
package engine
