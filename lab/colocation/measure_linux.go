package colocation

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// rest is how long the machine is left idle between days.
const rest = time.Second

// measure plays the day in every setting, all settings in turn and then in reverse,
// so that a machine that becomes faster or slower favours none. Jobs need the share
// wanted of the machine.
func measure(ctx context.Context, size size, settings []setting, shapes []shape, wanted float64, done func(done, of int)) (m *measurement, err error) {
	m = &measurement{size: size, cores: runtime.NumCPU()}
	if roomFor(cluster.Resources{CPU: cluster.MilliCPU(m.cores) * cluster.Core}) <= 0 {
		m.missing = "a machine of one core has nothing to harvest"
		return m, nil
	}
	b, err := open(ctx, size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	tasks := wanted * float64(m.cores) * size.length.Seconds() / size.task().Seconds()
	jobs := arrivals(shapes, int(tasks), size.length, rand.New(rand.NewPCG(1, 7)))
	for _, s := range settings {
		m.results = append(m.results, result{setting: s})
	}
	played := 0
	for round := range size.rounds {
		for i := range m.results {
			if round%2 == 1 {
				i = len(m.results) - 1 - i
			}
			done(played, size.rounds*len(settings))
			if err := m.play(ctx, b, &m.results[i], jobs); err != nil {
				return nil, err
			}
			played++
		}
	}
	return m, nil
}

// play plays a day, and repeats it, a limited number of times, if other processes
// were too busy on the machine meanwhile.
func (m *measurement) play(ctx context.Context, b *bench, r *result, jobs []arrival) error {
	for {
		unix.Sync() // so that earlier writes do not reach the disk during the day
		time.Sleep(rest)
		o, err := b.play(ctx, r.setting, jobs)
		if err != nil {
			return err
		}
		if o.others() < disturbing || m.again >= m.size.rounds {
			r.days = append(r.days, o)
			return nil
		}
		m.again++
	}
}
