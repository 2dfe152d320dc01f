//go:build !unix

package main

// fileLimit is how many files this process may open; 0 if not known.
func fileLimit() int { return 0 }
