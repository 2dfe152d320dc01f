//go:build !linux

package mix

import (
	"errors"
	"os/exec"
	"runtime"
	"time"
)

func startOn(cores int, cmd *exec.Cmd) error {
	if cores > 0 {
		return errors.New("commands cannot be kept to some cores on " + runtime.GOOS)
	}
	return cmd.Start()
}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func pressure() time.Duration { return -1 }

func warm(int, int) error { return nil }
