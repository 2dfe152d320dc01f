// Package kv keeps ordered tables of bytes: the one seam between Gleaner and
// whatever stores its metadata.
package kv
