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

// A Sample is what was used on this machine since the last one.
type Sample struct {
	Primary   cluster.Resources // used by all that is not a harvested task
	Harvested cluster.Resources // used by harvested tasks
}

// A tally returns the CPU time that harvested tasks have used so far, and the
// memory they hold now.
type tally func() (cpu time.Duration, memory int64, err error)

// A meter reads what the machine and its harvested tasks use.
type meter struct {
	cores   int
	harvest tally
	cpu     func() (time.Duration, error) // the CPU time of harvest, for glances
	stat    *os.File                      // /proc/stat
	text    [512]byte                     // its beginning
	// The readings of the last sample and of the last glance.
	sampled, glanced reading
}

// A reading is the CPU time that was used up to a time.
type reading struct {
	at        time.Time
	busy      time.Duration // of all cores together, since the machine started
	harvested time.Duration
}

// newMeter starts to measure.
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

// sample returns what was used since its last call.
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

// glance returns the CPU that the primary used since its last call.
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

// until advances r to now and returns what the primary and harvested tasks used
// meanwhile.
func (r *reading) until(now reading, cores int) (primary, ours cluster.MilliCPU) {
	while := now.at.Sub(r.at)
	all := share(now.busy-r.busy, while, cores)
	ours = share(now.harvested-r.harvested, while, cores)
	*r = now
	return max(all-ours, 0), ours
}

// share converts CPU time used during while into cores, limited to what there is:
// counters that are read one after the other may overshoot a little.
func share(used, while time.Duration, cores int) cluster.MilliCPU {
	if while <= 0 {
		return 0
	}
	n := cluster.MilliCPU(float64(used) / float64(while) * float64(cluster.Core))
	return min(max(n, 0), cluster.MilliCPU(cores)*cluster.Core)
}
