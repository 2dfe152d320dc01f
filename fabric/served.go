package fabric

import (
	"context"
	"sync/atomic"
	"time"
)

// served counts the requests of a front's clients, and the time that they took.
type served struct {
	reads, writes counted
	underWay      atomic.Int32
	last          atomic.Int64 // when one began, in Unix nanoseconds
}

type counted struct{ n, nanoseconds atomic.Int64 }

// count counts a request until what it returns is called.
func (s *served) count(c *counted) (end func()) {
	begun := time.Now()
	s.last.Store(begun.UnixNano())
	s.underWay.Add(1)
	return func() {
		s.underWay.Add(-1)
		c.n.Add(1)
		c.nanoseconds.Add(int64(time.Since(begun)))
	}
}

// giveWay lets clients go first: while they ask for anything, upkeep is to do little at a time. It takes a moment then, and longer while a request is under way, but
// not for ever.
func (s *served) giveWay(ctx context.Context) {
	begun := time.Now()
	if begun.UnixNano()-s.last.Load() > int64(calm) {
		return
	}
	for time.Sleep(moment); s.underWay.Load() > 0 && time.Since(begun) < mostWay && ctx.Err() == nil; {
		time.Sleep(moment)
	}
}

const (
	calm    = 100 * time.Millisecond // nobody has asked for anything for so long
	moment  = time.Millisecond       // the shortest sleep of a process that is idle
	mostWay = 3 * moment
)

// Served is how many requests clients have made since the front was opened, and how many seconds they waited for all of them.
type Served struct {
	Reads        int64   `json:"reads"`
	Writes       int64   `json:"writes"`
	ReadSeconds  float64 `json:"read_seconds"`
	WriteSeconds float64 `json:"write_seconds"`
}

// Served tells what clients of this front have asked for.
func (f *Front) Served() Served {
	s := &f.served
	return Served{s.reads.n.Load(), s.writes.n.Load(), float64(s.reads.nanoseconds.Load()) / 1e9, float64(s.writes.nanoseconds.Load()) / 1e9}
}

func (d device) ReadAt(ctx context.Context, p []byte, offset int64) error {
	s := &d.front.served
	defer s.count(&s.reads)()
	return d.Volume.ReadAt(ctx, p, offset)
}

func (d device) WriteAt(ctx context.Context, p []byte, offset int64, fua bool) error {
	s := &d.front.served
	defer s.count(&s.writes)()
	return d.Volume.WriteAt(ctx, p, offset, fua)
}
