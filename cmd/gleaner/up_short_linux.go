package main

import (
	"runtime"
	"sync"
)

// A fileShare is how many files each part of a gleaner that is up may hold, so that
// none takes what another needs. Two ninths are kept back for everything that opens
// files for a moment: samples, the starts of tasks, writes.
type fileShare struct {
	strangers, known, socket, store, tasks int
	groups, clients                        int // of disks
}

// shareFiles divides the files that this process may have open. The Go runtime has
// raised that to the hard limit, and restores the original limit for tasks.
func shareFiles(limit int) fileShare {
	ninth := max(limit/9, 8)
	return fileShare{strangers: min(ninth, 128), known: min(ninth, 1000), socket: min(ninth, 1000), store: min(ninth, 1000), tasks: 2 * ninth,
		groups: min(ninth/2, 1024), clients: min(ninth/2, 128)}
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
