// Package diary writes the history of primaries, as a world reports what they use.
package diary

import (
	"context"
	"log/slog"
	"time"

	"gleaner/cluster"
	"gleaner/history"
)

// A Diary writes the history of primaries: their mean use, every two minutes. It is a
// recorder of the loop, which never waits for a disk: Keep writes, in a goroutine of its own.
type Diary struct {
	Every time.Duration // between two samples of a server; two minutes if New made it

	store   *history.Store
	log     *slog.Logger
	pages   chan history.Sample
	servers map[cluster.ServerID]*page
	full    bool // the last sample was dropped
}

// A page is what a server's primary used since its last sample.
type page struct {
	server      cluster.Server
	since, last time.Time
	cpu, memory float64 // times seconds
}

// queued is how many samples may wait to be written: the servers of a large cluster turn
// their pages at about the same time.
const queued = 20_000

// New returns the diary of a world that has had no event yet.
func New(store *history.Store, log *slog.Logger) *Diary {
	return &Diary{Every: 2 * time.Minute, store: store, log: log, pages: make(chan history.Sample, queued), servers: map[cluster.ServerID]*page{}}
}

// Action records nothing: a diary is about primaries.
func (d *Diary) Action(cluster.Action) error { return nil }

// Event adds what an event says about primaries.
func (d *Diary) Event(ev cluster.Event) error {
	switch ev.Kind {
	case cluster.ServerJoined:
		d.join(ev.Server)
	case cluster.ServerLeft:
		delete(d.servers, ev.On)
	case cluster.UseReported:
		for _, use := range ev.Use {
			if p := d.servers[use.On]; p != nil && p.add(ev.At, use.Primary, d.Every) {
				d.turn(p)
			}
		}
	}
	return nil
}

// join begins the page of a server, or goes on with it if its size is the same.
func (d *Diary) join(s *cluster.Server) {
	if p := d.servers[s.ID]; p != nil && p.server.Size() == s.Size() {
		p.server = *s
		return
	}
	d.servers[s.ID] = &page{server: *s}
}

// add adds the use since the last report, and reports whether the page is full.
func (p *page) add(at time.Time, primary cluster.Resources, every time.Duration) bool {
	if p.since.IsZero() {
		p.since, p.last = at, at
	}
	while := at.Sub(p.last).Seconds()
	p.cpu += while * float64(primary.CPU)
	p.memory += while * float64(primary.Memory)
	p.last = at
	return at.Sub(p.since) >= every && p.server.CPU > 0
}

// turn queues a page to be written, and begins the next.
func (d *Diary) turn(p *page) {
	all, size := p.last.Sub(p.since).Seconds(), p.server.Size()
	cpu, _ := history.Clamp(p.cpu / all / float64(size.CPU))
	mem, _ := history.Clamp(p.memory / all / float64(size.Memory))
	full := false
	select {
	case d.pages <- history.Sample{Milli: p.last.UnixMilli(), Server: p.server.ID, Tenant: p.server.Tenant(), CPU: cpu, Mem: mem}:
	default:
		full = true
	}
	if full && !d.full {
		d.log.Error("the history does not keep up; samples are lost until it does")
	}
	d.full = full
	*p = page{server: p.server, since: p.last, last: p.last}
}

// Keep writes the queued pages, as many at once as there are, until ctx is done.
func (d *Diary) Keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case page := <-d.pages:
			all := []history.Sample{page}
			for range len(d.pages) {
				all = append(all, <-d.pages)
			}
			if err := d.store.Append(ctx, all...); err != nil {
				return err
			}
		}
	}
}
