// Program task is what the pods of the tests on a real node run: it waits, as a task or as a
// primary; a primary that gets SIGUSR1 takes all CPU or much memory at once.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() {
	ignore := flag.Bool("ignore", false, "ignore SIGTERM")
	seconds := flag.Float64("seconds", 3600, "how long")
	burn := flag.Int("burn", 0, "how many cores to use")
	burst := flag.String("burst", "", "what to take on SIGUSR1: cpu or memory")
	flag.Parse()
	if *ignore {
		signal.Ignore(syscall.SIGTERM)
	}
	use(*burn)
	start := make(chan os.Signal, 1)
	signal.Notify(start, syscall.SIGUSR1)
	fmt.Println("ready")
	end := time.After(time.Duration(*seconds * float64(time.Second)))
	for {
		select {
		case <-end:
			return
		case <-start:
			take(*burst)
		}
	}
}

// use keeps so many cores busy.
func use(cores int) {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), cores+1)) // one to hear signals
	for range cores {
		go func() {
			for {
			}
		}()
	}
}

func take(what string) {
	if what == "cpu" {
		use(4 * runtime.NumCPU())
		return
	}
	held, err := syscall.Mmap(-1, 0, 3<<30, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_POPULATE)
	fmt.Println("took", len(held), err)
}
