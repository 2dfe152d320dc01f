package curator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gleaner/curator/shuffle"
	"gleaner/kv"
)

// A scan is the record of the scan that is under way, or of the last one.
type scan struct {
	ID      uint64    `json:"id"`
	Open    bool      `json:"open"` // its units are there, and its tasks not handed over
	Units   int       `json:"units"`
	Format  int       `json:"format"`
	Jobs    []string  `json:"jobs"` // with their versions
	Parts   int       `json:"partitions"`
	Started time.Time `json:"started"`
}

// sound reports whether s can be a scan that a curator has recorded.
func (s *scan) sound() bool {
	return !slices.ContainsFunc(s.Jobs, func(id string) bool { return !strings.Contains(id, "/") }) &&
		(!s.Open || s.Parts > 0 && s.Parts <= shuffle.MaxPartitions)
}

// A unit is a piece of a scan's work: a range of a table to map, or a partition
// to reduce.
type unit struct {
	Table string        `json:"table,omitempty"` // empty for a partition
	Whole kv.Range      `json:"whole,omitzero"`
	Rest  kv.Range      `json:"rest,omitzero"` // what is left of it
	Part  int           `json:"partition,omitempty"`
	Runs  []shuffle.Run `json:"runs,omitempty"` // what it has made so far
	Read  int64         `json:"read"`           // records, or pairs, that its runs are made of
	Made  int64         `json:"made"`           // pairs, or tasks
	Done  bool          `json:"done,omitempty"`
	Error string        `json:"error,omitempty"` // of a job, which ends the scan

	Holder string    `json:"holder,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Claims int       `json:"claims"` // how often it was claimed; each claim names its runs by this
	Live   int64     `json:"live"`   // what the holder has read beyond Read, for Progress

	number  int
	version kv.Version
}

func (u *unit) maps() bool { return u.Table != "" }

// sound reports whether u can be of a scan with so many partitions. Workers rely on that.
func (u *unit) sound(parts int) bool {
	ends := 1
	if u.maps() {
		ends = parts
	}
	return u.Part >= 0 && u.Part < parts && !slices.ContainsFunc(u.Runs, func(r shuffle.Run) bool { return len(r.Ends) != ends })
}

// again makes u what it was when it was new, to be done again.
func (u *unit) again() {
	u.Rest, u.Runs, u.Read, u.Made, u.Done = u.Whole, nil, 0, 0, false
	u.free()
}

// free makes u a unit that nobody holds.
func (u *unit) free() { u.Holder, u.Until, u.Live = "", time.Time{}, 0 }

func (u *unit) String() string {
	if u.maps() {
		return fmt.Sprintf("range %d, of table %s", u.number, u.Table)
	}
	return fmt.Sprintf("partition %d", u.Part)
}

// next gives which unit to claim now, -1 if there is none yet, and whether any
// is left to be done. Partitions come when all ranges are done. first is where to
// begin to look, so that workers do not all try the same.
func next(units []unit, now time.Time, first int) (claim int, left bool) {
	ranges := slices.IndexFunc(units, func(u unit) bool { return !u.maps() })
	for _, kind := range []struct{ from, to int }{{0, ranges}, {ranges, len(units)}} {
		for i := range kind.to - kind.from {
			n := kind.from + (first+i)%(kind.to-kind.from)
			if units[n].Done {
				continue
			}
			left = true
			if !now.Before(units[n].Until) {
				return n, true
			}
		}
		if left {
			return -1, true
		}
	}
	return -1, false
}

// scanKey is where the scan's record is. It is never deleted.
var scanKey = kv.Key{Part: []byte("scan")}

// unitsOf begins the parts of units. The scan's number follows.
const unitsOf = "units-"

func unitPart(scan uint64) []byte { return fmt.Appendf(nil, "%s%d", unitsOf, scan) }

func unitKey(scan uint64, number int) kv.Key {
	return kv.Key{Part: unitPart(scan), Row: binary.BigEndian.AppendUint32(nil, uint32(number))}
}

// units reads the units of a scan: ranges and then partitions. It is ErrCancelled if they are removed.
func (c *Curator) units(ctx context.Context, s scan) ([]unit, error) {
	var out []unit
	for r, err := range c.state.Scan(ctx, kv.Range{Part: unitPart(s.ID)}) {
		if err != nil {
			return nil, fmt.Errorf("curator: read the units of scan %d: %w", s.ID, err)
		}
		u := unit{number: len(out), version: r.Version}
		if err := json.Unmarshal(r.Value, &u); err != nil {
			return nil, fmt.Errorf("curator: unit %d of scan %d: %w", u.number, s.ID, err)
		}
		if !u.sound(s.Parts) {
			return nil, fmt.Errorf("curator: unit %d of scan %d is damaged", u.number, s.ID)
		}
		out = append(out, u)
	}
	if len(out) != s.Units {
		return nil, ErrCancelled
	}
	if !slices.ContainsFunc(out, func(u unit) bool { return !u.maps() }) {
		return nil, fmt.Errorf("curator: the units of scan %d are damaged: none is a partition", s.ID)
	}
	return out, nil
}

// set writes a unit if it is as it was read.
func (c *Curator) set(ctx context.Context, scan uint64, u *unit) error {
	value, err := json.Marshal(u)
	if err != nil {
		return err
	}
	version, err := c.writer.Set(ctx, c.state, unitKey(scan, u.number), u.version, value)
	if err != nil {
		return fmt.Errorf("curator: write %s of scan %d: %w", u, scan, err)
	}
	u.version = version
	return nil
}

// A claim is a unit that a worker of this process holds. A goroutine keeps it.
type claim struct {
	curator *Curator
	scan    uint64
	name    string        // begins the names of its runs: no two claims have the same
	live    atomic.Int64  // records or pairs read and not recorded yet
	waits   atomic.Bool   // the curator is paused
	since   time.Time     // it works
	tired   time.Duration // how long it is to rest

	mu   sync.Mutex
	unit unit
}

// claim claims a unit for a worker. It is kv.ErrConflict if another was faster.
func (c *Curator) claim(ctx context.Context, scan uint64, u unit, worker string) (*claim, error) {
	u.free()
	u.Holder, u.Until, u.Claims = worker, time.Now().Add(c.o.TTL), u.Claims+1
	if err := c.set(ctx, scan, &u); err != nil {
		return nil, err
	}
	return &claim{curator: c, scan: scan, name: fmt.Sprintf("%d-%d-%d-", scan, u.number, u.Claims), unit: u, since: time.Now()}, nil
}

// change records what is new about the unit, and keeps the claim.
func (cl *claim) change(ctx context.Context, change func(*unit)) error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	u := cl.unit
	u.Until, u.Live = time.Now().Add(cl.curator.o.TTL), cl.live.Load()
	change(&u)
	if err := cl.curator.set(ctx, cl.scan, &u); err != nil {
		return err
	}
	cl.unit = u
	return nil
}

// keep keeps the claim until ctx ends, and watches for a pause. If another has it, or it could not be renewed
// for as long as it lasts, it ends ctx by lost.
func (cl *claim) keep(ctx context.Context, lost context.CancelCauseFunc) {
	ttl, renewed := cl.curator.o.TTL, time.Now()
	for sleep(ctx, cl.curator.o.Poll) == nil {
		p, err := cl.curator.Paused(ctx)
		if err == nil {
			cl.waits.Store(p.Why != "")
		}
		if time.Since(renewed) < ttl/3 {
			continue
		}
		err = cl.change(ctx, func(*unit) {})
		switch {
		case err == nil:
			renewed = time.Now()
		case errors.Is(err, kv.ErrConflict) || time.Since(renewed) > ttl:
			lost(err)
			return
		}
	}
}

// yield counts n records or pairs as read. It waits while the curator is paused, for a
// rest, and as long as the pace wants.
func (cl *claim) yield(ctx context.Context, n int) error {
	cl.live.Add(int64(n))
	worked := time.Since(cl.since)
	defer func() { cl.since = time.Now() }()
	for cl.waits.Load() {
		if err := sleep(ctx, cl.curator.o.Poll); err != nil {
			return err
		}
	}
	if cl.tired += time.Duration(cl.curator.o.Rest) * worked; cl.tired >= shortestRest {
		if err := sleep(ctx, cl.tired); err != nil {
			return err
		}
		cl.tired = 0
	}
	if cl.curator.o.Pace != nil {
		return cl.curator.o.Pace(ctx, n)
	}
	return ctx.Err()
}

// shortestRest is what a sleep takes at least in a process that is idle.
const shortestRest = time.Millisecond

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
