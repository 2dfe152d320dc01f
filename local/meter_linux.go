package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"gleaner/cluster"
	"gleaner/local/proc"
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
	cores   int
	harvest tally
	cpu     func() (time.Duration, error) // the first half of harvest, for glances
	stat    *os.File                      // /proc/stat
	text    [512]byte                     // its beginning
	// What was read at the last sample and at the last glance.
	sampled, glanced reading
}

// A reading is the CPU time that was used up to a moment.
type reading struct {
	at        time.Time
	busy      time.Duration // of all cores together, since the machine started
	harvested time.Duration
}

// newMeter begins to measure.
func newMeter(cores int, harvest tally, cpu func() (time.Duration, error)) (*meter, error) {
	stat, err := os.Open("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	m := &meter{cores: cores, harvest: harvest, cpu: cpu, stat: stat}
	if _, err := m.sample(); err != nil {
		return nil, errors.Join(err, stat.Close())
	}
	m.glanced = m.sampled
	return m, nil
}

// busy reads how long cores have been busy. It allocates nothing.
func (m *meter) busy() (time.Duration, error) {
	n, err := m.stat.ReadAt(m.text[:], 0)
	if err != nil && err != io.EOF {
		return 0, fmt.Errorf("local: %w", err)
	}
	cpu, err := proc.ParseStat(m.text[:n])
	return cpu.Busy(), err
}

// sample tells what was used since it was last called.
func (m *meter) sample() (Sample, error) {
	held, err := proc.ReadMemory()
	if err != nil {
		return Sample{}, err
	}
	busy, err := m.busy()
	if err != nil {
		return Sample{}, err
	}
	harvested, memory, err := m.harvest()
	if err != nil {
		return Sample{}, err
	}
	cpu, ours := m.sampled.until(reading{time.Now(), busy, harvested}, m.cores)
	return Sample{
		Primary:   cluster.Resources{CPU: cpu, Memory: max(held.Total-held.Available-cluster.Bytes(memory), 0)},
		Harvested: cluster.Resources{CPU: ours, Memory: cluster.Bytes(memory)},
	}, nil
}

// glance tells the CPU that the primary used since it was last called.
func (m *meter) glance() (cluster.MilliCPU, error) {
	busy, err := m.busy()
	if err != nil {
		return 0, err
	}
	harvested, err := m.cpu()
	if err != nil {
		return 0, err
	}
	cpu, _ := m.glanced.until(reading{time.Now(), busy, harvested}, m.cores)
	return cpu, nil
}

// until moves r on to now and tells what the primary and harvested tasks used
// meanwhile.
func (r *reading) until(now reading, cores int) (primary, ours cluster.MilliCPU) {
	while := now.at.Sub(r.at)
	all := share(now.busy-r.busy, while, cores)
	ours = share(now.harvested-r.harvested, while, cores)
	*r = now
	return max(all-ours, 0), ours
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
