package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gleaner/kv"
)

// A Pause says since when and why a curator is paused; the zero Pause, that it is not.
type Pause struct {
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
}

// pauseKey is where the pause is. It is never deleted.
var pauseKey = kv.Key{Part: []byte("pause")}

// Paused says since when and why all processes are paused.
func (c *Curator) Paused(ctx context.Context) (Pause, error) {
	var p Pause
	_, err := c.get(ctx, pauseKey, &p)
	return p, err
}

// Pause has all workers wait within a poll, in every process, and lets no scan begin, until Resume. Whoever
// is about to change tables as a whole says so here.
func (c *Curator) Pause(ctx context.Context, why string) error {
	if why == "" {
		return errors.New("curator: a pause needs a reason")
	}
	return c.setPause(ctx, Pause{why, time.Now()})
}

// Resume ends a pause.
func (c *Curator) Resume(ctx context.Context) error { return c.setPause(ctx, Pause{}) }

func (c *Curator) setPause(ctx context.Context, p Pause) error {
	for {
		version, err := c.get(ctx, pauseKey, new(Pause))
		if err != nil {
			return err
		}
		if _, err := c.put(ctx, pauseKey, version, p); !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
}

// Cancel ends the scan that is under way, in every process, if there is one.
func (c *Curator) Cancel(ctx context.Context) error {
	for {
		s, version, err := c.current(ctx)
		if err != nil || !s.Open {
			return err
		}
		if err := c.finish(ctx, s, version); !errors.Is(err, ErrCancelled) {
			return err
		}
	}
}

// Progress says how far a scan is.
type Progress struct {
	Scan                uint64
	Open                bool // it is under way, or was interrupted
	Jobs                []string
	Started, At         time.Time
	Ranges, Mapped      int
	Partitions, Reduced int
	Records             int64 // mapped
	Workers             []string
	Pause               Pause
}

// Share is how much of the scan is done, from 0 to 1.
func (p Progress) Share() float64 {
	if p.Ranges+p.Partitions == 0 {
		return 0
	}
	return float64(p.Mapped+p.Reduced) / float64(p.Ranges+p.Partitions)
}

// Rate is how many records were mapped a second, since the scan was started.
func (p Progress) Rate() float64 {
	if took := p.At.Sub(p.Started).Seconds(); took > 0 {
		return float64(p.Records) / took
	}
	return 0
}

// Progress reads how far the scan is, whichever processes work on it. Its records are
// those of a third of the TTL ago.
func (c *Curator) Progress(ctx context.Context) (Progress, error) {
	s, _, err := c.current(ctx)
	if err != nil {
		return Progress{}, err
	}
	p := Progress{Scan: s.ID, Open: s.Open, Started: s.Started, At: time.Now()}
	for _, id := range s.Jobs {
		p.Jobs = append(p.Jobs, id[:strings.LastIndexByte(id, '/')])
	}
	if p.Pause, err = c.Paused(ctx); err != nil {
		return Progress{}, err
	}
	if p.Workers, err = c.workers(ctx, p.At); err != nil || !s.Open {
		return p, err
	}
	units, err := c.units(ctx, s)
	if errors.Is(err, ErrCancelled) {
		p.Open = false
		return p, nil
	}
	for _, u := range units {
		p.count(u)
	}
	return p, err
}

func (p *Progress) count(u unit) {
	done := 0
	if u.Done {
		done = 1
	}
	if u.maps() {
		p.Ranges, p.Mapped, p.Records = p.Ranges+1, p.Mapped+done, p.Records+u.Read+u.Live
	} else {
		p.Partitions, p.Reduced = p.Partitions+1, p.Reduced+done
	}
}

// workers lists the processes that scan or work.
func (c *Curator) workers(ctx context.Context, now time.Time) ([]string, error) {
	var out []string
	for r, err := range c.leases.Table.Scan(ctx, kv.Range{}) {
		if err != nil {
			return nil, fmt.Errorf("curator: list workers: %w", err)
		}
		lease, err := c.leases.Get(ctx, string(r.Key.Part))
		if err != nil {
			return nil, fmt.Errorf("curator: list workers: %w", err)
		}
		if lease.Held(now) {
			out = append(out, lease.Holder)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
