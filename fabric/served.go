package fabric

import (
	"context"
	"sync/atomic"
	"time"
)

// served counts the requests of a front's clients, and the time that they took.
type served struct{ reads, writes counted }

type counted struct{ n, nanoseconds atomic.Int64 }

func (c *counted) since(begun time.Time) {
	c.n.Add(1)
	c.nanoseconds.Add(int64(time.Since(begun)))
}

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
	defer d.front.served.reads.since(time.Now())
	return d.Volume.ReadAt(ctx, p, offset)
}

func (d device) WriteAt(ctx context.Context, p []byte, offset int64, fua bool) error {
	defer d.front.served.writes.since(time.Now())
	return d.Volume.WriteAt(ctx, p, offset, fua)
}
