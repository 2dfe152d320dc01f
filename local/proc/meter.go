package proc

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"gleaner/input"
)

// A Meter reads how busy the machine is.
type Meter struct {
	proc fs.FS
	last CPU
}

// Open starts a meter: the first Read is since now. It needs Linux.
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

// Read returns the share of the CPU in use since its last call, and that of memory
// in use now. Time that the hypervisor gave to others counts as in use, because it
// is not available here.
func (m *Meter) Read() (cpu, mem float32, err error) {
	stat, err := fs.ReadFile(m.proc, "stat")
	if err != nil {
		return 0, 0, fmt.Errorf("proc: %w", err)
	}
	now, err := ParseStat(stat)
	if err != nil {
		return 0, 0, err
	}
	meminfo, err := fs.ReadFile(m.proc, "meminfo")
	if err != nil {
		return 0, 0, fmt.Errorf("proc: %w", err)
	}
	memory, err := ParseMemory(meminfo)
	if err != nil {
		return 0, 0, err
	}
	cpu = now.since(m.last)
	m.last = now
	return cpu, memory.used(), nil
}

// since returns the share of the ticks since before that were not idle. The
// kernel's idle counters can step back a little; the share stays within 0 and 1.
func (c CPU) since(before CPU) float32 {
	total := float64(c.Total()) - float64(before.Total())
	idle := float64(c.Idle) - float64(before.Idle)
	if total <= 0 {
		return 0
	}
	return float32(min(max(1-idle/total, 0), 1))
}

// used is the share that is not available.
func (m Memory) used() float32 {
	return float32(max(0, 1-float64(m.Available)/float64(m.Total)))
}
