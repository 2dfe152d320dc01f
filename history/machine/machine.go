// Package machine tells how busy this machine is, from /proc.
package machine

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"

	"gleaner/input"
)

// A Meter reads how busy the machine is.
type Meter struct {
	proc fs.FS
	last cpuTimes
}

// Open starts a meter: what is read first is since now. It needs Linux.
func Open() (*Meter, error) {
	if runtime.GOOS != "linux" {
		return nil, input.Errorf("", "this machine runs %s: its utilisation is read from /proc, which only Linux has", runtime.GOOS)
	}
	return open(os.DirFS("/proc"))
}

func open(proc fs.FS) (*Meter, error) {
	m := &Meter{proc: proc}
	_, _, err := m.Read()
	return m, err
}

// Read gives the share of the CPU in use since it was last called, and that of
// memory in use now. Time the hypervisor gave to others counts as in use, as
// nobody here can have it; waiting for disks does not. The page cache is not
// use: the kernel hands it back when asked.
func (m *Meter) Read() (cpu, mem float32, err error) {
	stat, err := fs.ReadFile(m.proc, "stat")
	if err != nil {
		return 0, 0, fmt.Errorf("machine: %w", err)
	}
	now, err := parseStat(stat)
	if err != nil {
		return 0, 0, err
	}
	meminfo, err := fs.ReadFile(m.proc, "meminfo")
	if err != nil {
		return 0, 0, fmt.Errorf("machine: %w", err)
	}
	used, err := parseMeminfo(meminfo)
	if err != nil {
		return 0, 0, err
	}
	cpu = now.since(m.last)
	m.last = now
	return cpu, float32(used), nil
}

// cpuTimes are ticks since the machine started, over all its cores.
type cpuTimes struct{ idle, total uint64 }

// since gives the share of the ticks since before that were not idle. The
// kernel's idle counters can step back a little; the share stays within 0 and 1.
func (t cpuTimes) since(before cpuTimes) float32 {
	total := float64(t.total) - float64(before.total)
	idle := float64(t.idle) - float64(before.idle)
	if total <= 0 {
		return 0
	}
	return float32(min(max(1-idle/total, 0), 1))
}

// The fields of the cpu line that are added up: user, nice, system, idle,
// iowait, irq, softirq, steal. The guests behind them are in user already.
const (
	idleField   = 3
	iowaitField = 4
	cpuFields   = 8
)

// parseStat reads the first line of /proc/stat.
func parseStat(stat []byte) (cpuTimes, error) {
	var t cpuTimes
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 1+idleField+1 || string(fields[0]) != "cpu" {
		return t, fmt.Errorf("machine: /proc/stat starts with %.80q, not with the times of all cores", line)
	}
	for i, field := range fields[1:min(len(fields), 1+cpuFields)] {
		ticks, err := strconv.ParseUint(string(field), 10, 56) // eight of them fit a uint64
		if err != nil {
			return t, fmt.Errorf("machine: /proc/stat: %.80q is not a number of ticks", field)
		}
		t.total += ticks
		if i == idleField || i == iowaitField {
			t.idle += ticks
		}
	}
	return t, nil
}

// parseMeminfo reads the share of memory in use from /proc/meminfo.
func parseMeminfo(meminfo []byte) (float64, error) {
	total, available := math.NaN(), math.NaN()
	for line := range bytes.Lines(meminfo) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		var into *float64
		switch string(fields[0]) {
		case "MemTotal:":
			into = &total
		case "MemAvailable:":
			into = &available
		default:
			continue
		}
		kib, err := strconv.ParseUint(string(fields[1]), 10, 56)
		if err != nil {
			return 0, fmt.Errorf("machine: /proc/meminfo: %.80q is not a number of kilobytes", fields[1])
		}
		*into = float64(kib)
	}
	if !(total > 0) || available != available {
		return 0, fmt.Errorf("machine: /proc/meminfo does not tell MemTotal and MemAvailable")
	}
	return max(0, 1-available/total), nil
}
