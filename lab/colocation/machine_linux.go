package colocation

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/local/proc"
)

// A reading is what the machine and the primary had used at some time.
type reading struct {
	at      time.Time
	cpu     proc.CPU
	primary time.Duration // by the service, and by this process: its clients and the harvester
}

func read(service int) (r reading, err error) {
	if r.cpu, err = proc.ReadCPU(); err != nil {
		return r, err
	}
	for _, pid := range []int{service, os.Getpid()} {
		used, err := cpuTime(pid)
		if err != nil {
			return r, err
		}
		r.primary += used
	}
	r.at = time.Now()
	return r, nil
}

// cpuTime is the CPU time of a process, to the nanosecond, from the kernel's clock of
// that process (clock_getcpuclockid).
func cpuTime(pid int) (time.Duration, error) {
	const clockOfProcess = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|clockOfProcess, &used); err != nil {
		return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// since returns the shares of the machine that were busy, taken by its host, and
// used by the primary.
func (r reading) since(before reading) (busy, stolen, primary float64) {
	all := max(float64(r.cpu.Total())-float64(before.cpu.Total()), 1)
	cores := float64(runtime.NumCPU()) * r.at.Sub(before.at).Seconds()
	return float64(int64(r.cpu.Used-before.cpu.Used)) / all, float64(int64(r.cpu.Stolen-before.cpu.Stolen)) / all, (r.primary - before.primary).Seconds() / cores
}
