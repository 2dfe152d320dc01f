//go:build unix

package main

import "syscall"

// fileLimit is how many files this process may open; 0 if not known.
func fileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30))
}
