//go:build !unix

package main

// fileLimit is how many files this process may open; 0 when nobody knows.
func fileLimit() int { return 0 }
