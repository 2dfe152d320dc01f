package local

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"gleaner/cluster"
)

// A Sample is what this machine did lately.
type Sample struct {
	Primary   cluster.Resources // all that is not a harvested task
	Harvested cluster.Resources // used by harvested tasks
}

// A tally tells the CPU time that harvested tasks have used so far, and the
// memory they hold now.
type tally func() (cpu time.Duration, memory int64, err error)

// A meter reads what the machine and its harvested tasks use.
type meter struct {
	cores     int
	harvest   tally
	at        time.Time
	busy      time.Duration // of all cores together, since the machine started
	harvested time.Duration
}

// sample tells what was used since it was last called.
func (m *meter) sample() (Sample, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Sample{}, fmt.Errorf("local: %w", err)
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Sample{}, fmt.Errorf("local: %w", err)
	}
	busy, err := busyTime(stat)
	if err != nil {
		return Sample{}, err
	}
	harvested, memory, err := m.harvest()
	if err != nil {
		return Sample{}, err
	}
	at := time.Now()
	past := at.Sub(m.at)
	all := cluster.Resources{CPU: share(busy-m.busy, past, m.cores), Memory: heldMemory(meminfo)}
	ours := cluster.Resources{CPU: share(harvested-m.harvested, past, m.cores), Memory: cluster.Bytes(memory)}
	m.at, m.busy, m.harvested = at, busy, harvested
	return Sample{Primary: all.Sub(ours).Max(cluster.Resources{}), Harvested: ours}, nil
}

// share is the part of the cores that time used in a while comes to. Counters
// that are read one after the other may overshoot a little.
func share(used, while time.Duration, cores int) cluster.MilliCPU {
	if while <= 0 {
		return 0
	}
	n := cluster.MilliCPU(float64(used) / float64(while) * float64(cluster.Core))
	return min(max(n, 0), cluster.MilliCPU(cores)*cluster.Core)
}

// The fields of the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal. What the hypervisor gave to others counts as
// busy: nobody here can have it. The guests behind are in user already.
const (
	cpuIdle   = 3
	cpuIOWait = 4
	cpuFields = 8
)

// busyTime reads how long cores have been busy, all together.
func busyTime(stat []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 1+cpuIOWait || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("local: /proc/stat starts with %.80q, not with the times of all cores", line)
	}
	var busy time.Duration
	for i, field := range fields[1:min(len(fields), 1+cpuFields)] {
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("local: /proc/stat: %.80q is not a number of ticks", field)
		}
		if i != cpuIdle && i != cpuIOWait {
			busy += time.Duration(ticks) * clockTick
		}
	}
	return busy, nil
}

// heldMemory is the memory that is not available: the page cache is, the
// kernel hands it back when asked.
func heldMemory(meminfo []byte) cluster.Bytes {
	return amount(meminfo, "MemTotal:") - amount(meminfo, "MemAvailable:")
}

func amount(meminfo []byte, name string) cluster.Bytes {
	for line := range bytes.Lines(meminfo) {
		if fields := bytes.Fields(line); len(fields) > 1 && string(fields[0]) == name {
			kib, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return cluster.Bytes(kib) << 10
		}
	}
	return 0
}

// memorySize is the memory of this machine.
func memorySize() (cluster.Bytes, error) {
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("local: %w", err)
	}
	return amount(meminfo, "MemTotal:"), nil
}
