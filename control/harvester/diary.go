package harvester

import (
	"context"
	"log/slog"
	"time"

	"gleaner/cluster"
	"gleaner/history"
)

// A diary writes the history of primaries: their mean use, every two minutes.
// It writes in its own goroutine, so that the loop never waits for a disk.
type diary struct {
	store   *history.Store
	log     *slog.Logger
	pages   chan history.Sample
	servers map[cluster.ServerID]*page
	full    bool // the last sample was dropped
}

// A page is what a server's primary used since its last sample.
type page struct {
	size        cluster.Resources
	since, last time.Time
	cpu, memory float64 // times seconds
}

// pageEvery is how often the history gets a sample.
const pageEvery = 2 * time.Minute

func newDiary(store *history.Store, log *slog.Logger) *diary {
	return &diary{store: store, log: log, pages: make(chan history.Sample, 100), servers: map[cluster.ServerID]*page{}}
}

func (d *diary) Action(cluster.Action) error { return nil }

func (d *diary) Event(ev cluster.Event) error {
	switch ev.Kind {
	case cluster.ServerJoined:
		d.servers[ev.Server.ID] = &page{size: ev.Server.Size()}
	case cluster.ServerLeft:
		delete(d.servers, ev.On)
	case cluster.UseReported:
		for _, use := range ev.Use {
			if p := d.servers[use.On]; p != nil && p.add(ev.At, use.Primary) {
				d.turn(use.On, p)
			}
		}
	}
	return nil
}

// add adds the use since the last report, and reports whether the page is full.
func (p *page) add(at time.Time, primary cluster.Resources) bool {
	if p.since.IsZero() {
		p.since, p.last = at, at
	}
	while := at.Sub(p.last).Seconds()
	p.cpu += while * float64(primary.CPU)
	p.memory += while * float64(primary.Memory)
	p.last = at
	return at.Sub(p.since) >= pageEvery
}

// turn queues a page to be written, and begins the next.
func (d *diary) turn(of cluster.ServerID, p *page) {
	all := p.last.Sub(p.since).Seconds()
	cpu, _ := history.Clamp(p.cpu / all / float64(p.size.CPU))
	mem, _ := history.Clamp(p.memory / all / float64(p.size.Memory))
	full := false
	select {
	case d.pages <- history.Sample{Milli: p.last.UnixMilli(), Server: of, CPU: cpu, Mem: mem}:
	default:
		full = true
	}
	if full && !d.full {
		d.log.Error("the history does not keep up; samples are lost until it does")
	}
	d.full = full
	*p = page{size: p.size, since: p.last, last: p.last}
}

// keep writes the queued pages until ctx is done.
func (d *diary) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case page := <-d.pages:
			if err := d.store.Append(ctx, page); err != nil {
				return err
			}
		}
	}
}
