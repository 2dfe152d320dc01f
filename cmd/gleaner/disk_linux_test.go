package main

import (
	"fmt"
	"os/exec"
	"sync"
	"testing"
)

// TestDiskCommandsAtOnce: of commands that come together one opens the disks, others ask it or wait, and those that
// meet one which ends just then ask again. None fails.
func TestDiskCommandsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{{"create", "1GiB"}, {"snapshot", "kept"}, {"rm"}} {
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				name := fmt.Sprintf("d%d", i)
				command := append([]string{"disk", args[0], name}, args[1:]...)
				if args[0] == "snapshot" {
					command[3] += name
				}
				if text, err := exec.Command("gleaner", append(command, "--data", dir)...).CombinedOutput(); err != nil {
					t.Errorf("%v: %v: %s", command, err, text)
				}
			})
		}
		all.Wait()
	}
}
