package kvtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"gleaner/kv"
)

// Outcomes are how the writes and reads of some schedules ended.
type Outcomes struct {
	Calls   int // that a client made
	Failed  int // that did nothing, and said so
	Unknown int // writes whose outcome the store could not tell
	Left    int // calls that returned kv.ErrUnknown to the client, after a Writer, if any, had tried again
}

// Add adds the outcomes of another schedule.
func (o *Outcomes) Add(more Outcomes) {
	o.Calls += more.Calls
	o.Failed += more.Failed
	o.Unknown += more.Unknown
	o.Left += more.Left
}

// UnderFaults has clients use rows of one part at once while the store suffers
// faults, until healed is closed and all have taken their steps. Then it reads the
// rows once more. It returns an error unless all that the clients saw is
// linearizable, where a write that returned neither nil nor kv.ErrConflict nor
// kv.ErrUnknown was not applied. With odd seeds the clients write by a kv.Writer.
func UnderFaults(ctx context.Context, tab kv.Table, part string, seed uint64, healed <-chan struct{}) (Outcomes, error) {
	counted := &doubts{Table: tab}
	s := schedule{table: counted, part: part, seed: seed, byWriter: seed%2 == 1, faults: true, steps: 20}
	if err := s.run(ctx); err != nil {
		return Outcomes{}, err
	}
	select {
	case <-healed:
	case <-ctx.Done():
		return Outcomes{}, ctx.Err()
	}
	if err := s.readAll(ctx); err != nil {
		return Outcomes{}, err
	}
	return s.outcomes(int(counted.unknown.Load())), s.judge()
}

// readAll reads every row, by a client of its own.
func (s *schedule) readAll(ctx context.Context) error {
	c := s.client(clients)
	for n := range registers {
		out := s.rec.record(c.id, op{kind: "get", register: n}, func() (r result) {
			for range 30 { // the store may need a moment to find its nodes again
				if r = c.get(ctx, c.key(n)); r.err == nil {
					return r
				}
				time.Sleep(time.Second)
			}
			return r
		})
		if out.err != nil {
			return fmt.Errorf("after the faults: %w", out.err)
		}
	}
	return nil
}

func (s *schedule) outcomes(unknown int) Outcomes {
	o := Outcomes{Calls: len(s.rec.history) + s.rec.failed, Failed: s.rec.failed, Unknown: unknown}
	for _, call := range s.rec.history {
		if errors.Is(call.Output.(result).err, kv.ErrUnknown) {
			o.Left++
		}
	}
	return o
}

// doubts counts the writes of a table whose outcome is unknown.
type doubts struct {
	kv.Table
	unknown atomic.Int64
}

func (d *doubts) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return d.count(d.Table.CompareAndSet(ctx, key, old, next, value))
}

func (d *doubts) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return d.count(d.Table.CompareAndDelete(ctx, key, old))
}

func (d *doubts) count(err error) error {
	if errors.Is(err, kv.ErrUnknown) {
		d.unknown.Add(1)
	}
	return err
}
