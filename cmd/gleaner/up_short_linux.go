package main

import (
	"runtime"
	"sync"
)

// A fileShare is how many files each part of a gleaner that is up may hold, so that
// none takes what another needs. A quarter is kept back for everything that opens
// files for a moment: samples, the starts of tasks, writes.
type fileShare struct {
	strangers, known, socket, store, tasks int
}

// shareFiles divides the files that this process may have open. The Go runtime has
// raised that to the hard limit, and restores the original limit for tasks.
func shareFiles(limit int) fileShare {
	eighth := max(limit/8, 8)
	return fileShare{strangers: min(eighth, 128), known: min(eighth, 1000), socket: min(eighth, 1000), store: min(eighth, 1000), tasks: 2 * eighth}
}

// spareThreads is how many threads are made at the start: if the runtime needs
// another and the machine has none left, it aborts the process.
const spareThreads = 64

func makeThreads() {
	var made sync.WaitGroup
	made.Add(spareThreads)
	for range spareThreads {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // the runtime keeps it for later
			made.Done()
			made.Wait()
		}()
	}
	made.Wait()
}
