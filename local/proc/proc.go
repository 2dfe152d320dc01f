// Package proc reads from /proc how busy this machine is.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"gleaner/cluster"
)

// Tick is the unit of /proc's times: USER_HZ is 100 on every Linux.
const Tick = 10 * time.Millisecond

// A CPU is how many ticks all cores together have spent since the machine
// started: used, given to others by the hypervisor, and idle. Waiting for disks
// is idle.
type CPU struct{ Used, Stolen, Idle uint64 }

// Busy is the time in which the cores were not available.
func (c CPU) Busy() time.Duration { return time.Duration(c.Used+c.Stolen) * Tick }

// Total is the number of all ticks.
func (c CPU) Total() uint64 { return c.Used + c.Stolen + c.Idle }

// ReadCPU reads the times of this machine.
func ReadCPU() (CPU, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPU{}, fmt.Errorf("proc: %w", err)
	}
	return ParseStat(stat)
}

// The fields of the cpu line that are added up: user, nice, system, idle,
// iowait, irq, softirq, steal. The guest fields after them are included in user.
const (
	idleField   = 3
	iowaitField = 4
	stealField  = 7
	cpuFields   = 8
)

// ParseStat reads the first line of /proc/stat. It allocates nothing.
func ParseStat(stat []byte) (CPU, error) {
	var c CPU
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	times, ok := bytes.CutPrefix(line, []byte("cpu "))
	n := 0
	for field := range bytes.FieldsSeq(times) {
		if n == cpuFields {
			break
		}
		ticks, err := strconv.ParseUint(string(field), 10, 56) // eight of them fit a uint64
		if err != nil {
			return CPU{}, fmt.Errorf("proc: /proc/stat: %.80q is not a number of ticks", field)
		}
		switch n {
		case idleField, iowaitField:
			c.Idle += ticks
		case stealField:
			c.Stolen = ticks
		default:
			c.Used += ticks
		}
		n++
	}
	if !ok || n <= idleField {
		return CPU{}, fmt.Errorf("proc: /proc/stat starts with %.80q, not with the times of all cores", line)
	}
	return c, nil
}

// A Memory is how much there is, and how much of it is available. The page cache
// is: the kernel frees it when needed.
type Memory struct{ Total, Available cluster.Bytes }

// ReadMemory reads the memory of this machine.
func ReadMemory() (Memory, error) {
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Memory{}, fmt.Errorf("proc: %w", err)
	}
	return ParseMemory(meminfo)
}

// ParseMemory reads /proc/meminfo.
func ParseMemory(meminfo []byte) (Memory, error) {
	m := Memory{Available: -1}
	for line := range bytes.Lines(meminfo) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		var into *cluster.Bytes
		switch string(fields[0]) {
		case "MemTotal:":
			into = &m.Total
		case "MemAvailable:":
			into = &m.Available
		default:
			continue
		}
		kib, err := strconv.ParseUint(string(fields[1]), 10, 52) // its bytes fit an int64
		if err != nil {
			return Memory{}, fmt.Errorf("proc: /proc/meminfo: %.80q is not a number of kilobytes", fields[1])
		}
		*into = cluster.Bytes(kib) << 10
	}
	if m.Total <= 0 || m.Available < 0 {
		return Memory{}, fmt.Errorf("proc: /proc/meminfo lacks MemTotal or MemAvailable")
	}
	return m, nil
}
