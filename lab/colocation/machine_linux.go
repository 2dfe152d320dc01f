package colocation

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticks are how long the machine's cores have been what, all together.
type ticks struct{ busy, stolen, all float64 }

// readTicks reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal.
func readTicks() (ticks, error) {
	const idle, iowait, steal, fields = 3, 4, 7, 8
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	columns := bytes.Fields(line)
	if len(columns) < 1+fields {
		return ticks{}, fmt.Errorf("/proc/stat starts with %.80q, not with the times of all cores", line)
	}
	var t ticks
	for i, column := range columns[1 : 1+fields] {
		n, err := strconv.ParseFloat(string(column), 64)
		if err != nil {
			return ticks{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += n
		switch i {
		case idle, iowait:
		case steal:
			t.stolen += n
		default:
			t.busy += n
		}
	}
	return t, nil
}

// A reading is what the machine and the primary had used at some time.
type reading struct {
	at      time.Time
	ticks   ticks
	primary time.Duration // by the service, and by this process: its clients and the harvester
}

func read(service int) (r reading, err error) {
	if r.ticks, err = readTicks(); err != nil {
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

// cpuTime is what a process has used, to the nanosecond: the kernel's clock of
// that process (clock_getcpuclockid).
func cpuTime(pid int) (time.Duration, error) {
	const clockOfProcess = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|clockOfProcess, &used); err != nil {
		return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// since tells the shares of the machine that were busy, taken by its host, and
// used by the primary.
func (r reading) since(before reading) (busy, stolen, primary float64) {
	all := max(r.ticks.all-before.ticks.all, 1)
	cores := float64(runtime.NumCPU()) * r.at.Sub(before.at).Seconds()
	return (r.ticks.busy - before.ticks.busy) / all, (r.ticks.stolen - before.ticks.stolen) / all, (r.primary - before.primary).Seconds() / cores
}
