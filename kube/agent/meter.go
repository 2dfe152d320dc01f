package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/local/proc"
)

const (
	// agree is how many looks in a row must show that the primary uses more before it
	// counts: a program that runs for an instant is not in all of them.
	agree = 4
	// stretch is the time whose mean counts in any case.
	stretch = time.Second
)

// A meter reads what the primary of a node uses: all that is used there, less what harvested
// pods use. The page cache is not use, because the kernel frees it when memory is needed.
type meter struct {
	proc           string // the directory /proc
	most           cluster.MilliCPU
	looked, meaned reading // at the last look, and at the start of the stretch
	recent         [agree]cluster.MilliCPU
	looks          int
	mean           cluster.MilliCPU // of the last stretch
	ready          bool             // a stretch is over
}

// A reading is the CPU time that was used up to a time.
type reading struct {
	at              time.Time
	busy, harvested time.Duration
}

// until is the CPU that the primary used from one reading to the next.
func (r reading) until(now reading) cluster.MilliCPU {
	while := now.at.Sub(r.at)
	if while <= 0 {
		return 0
	}
	used := now.busy - r.busy - (now.harvested - r.harvested)
	return max(0, cluster.MilliCPU(float64(used)/float64(while)*float64(cluster.Core)))
}

// look returns what the primary uses, given what harvested pods have used and hold.
func (m *meter) look(at time.Time, harvested time.Duration, held cluster.Bytes) (cluster.Resources, error) {
	stat, err := os.ReadFile(filepath.Join(m.proc, "stat"))
	if err != nil {
		return cluster.Resources{}, fmt.Errorf("agent: %w", err)
	}
	cpu, err := proc.ParseStat(stat)
	if err != nil {
		return cluster.Resources{}, err
	}
	meminfo, err := os.ReadFile(filepath.Join(m.proc, "meminfo"))
	if err != nil {
		return cluster.Resources{}, fmt.Errorf("agent: %w", err)
	}
	memory, err := proc.ParseMemory(meminfo)
	if err != nil {
		return cluster.Resources{}, err
	}
	return cluster.Resources{CPU: m.count(reading{at, cpu.Busy(), harvested}), Memory: max(0, memory.Total-memory.Available-held)}, nil
}

// count returns the primary's CPU: the mean of the last stretch or, if the last looks agree
// on more, that.
func (m *meter) count(now reading) cluster.MilliCPU {
	if m.meaned.at.IsZero() {
		m.looked, m.meaned = now, now
		return 0
	}
	m.recent[m.looks%agree] = m.looked.until(now)
	m.looks++
	m.looked = now
	if now.at.Sub(m.meaned.at) >= stretch {
		m.mean, m.meaned, m.ready = m.meaned.until(now), now, true
	}
	return min(m.most, max(m.mean, slices.Min(m.recent[:])))
}
