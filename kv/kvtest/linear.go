package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"gleaner/kv"
)

// An op is one call on a register, which is one key of a table.
type op struct {
	kind      string // get, set, delete
	register  int
	old, next kv.Version
	// byWriter: the call went through a Writer. There, a delete whose answer was
	// lost succeeds if the record is gone, whoever deleted it.
	byWriter bool
}

// A result is how an op ended.
type result struct {
	version kv.Version // what a get found
	err     error      // nil, kv.ErrConflict or kv.ErrUnknown
}

// register models one key: the ops on it must look as if they were done one at a
// time. An op whose outcome is unknown has no end, so it may take effect at any
// time after its call; one that never did takes effect after all others.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := make([][]porcupine.Operation, registers)
		for _, o := range history {
			n := o.Input.(op).register
			byKey[n] = append(byKey[n], o)
		}
		return byKey
	},
	Init: func() any { return kv.Version{} },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(kv.Version), input.(op), output.(result)
		matches := now == in.old
		switch {
		case in.kind == "get":
			return out.version == now, now
		case errors.Is(out.err, kv.ErrConflict):
			return !matches, now
		case matches:
			return true, in.next // zero for a delete
		case errors.Is(out.err, kv.ErrUnknown):
			return true, now
		}
		gone := in.kind == "delete" && in.byWriter && now == kv.Version{}
		return gone, now
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

const registers = 3

// A recorder makes calls and records when each began and ended.
type recorder struct {
	clock   atomic.Int64
	mu      sync.Mutex
	history []porcupine.Operation
	failed  int
}

func (r *recorder) record(client int, in op, call func() result) result {
	o := porcupine.Operation{ClientId: client, Input: in, Call: r.clock.Add(1)}
	out := call()
	o.Output, o.Return = out, r.clock.Add(1)
	if errors.Is(out.err, kv.ErrUnknown) {
		o.Return = math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed(out.err) { // it did nothing, or so it says: then nobody may see it
		r.failed++
		return out
	}
	r.history = append(r.history, o)
	return out
}

// A client calls on the registers at random, comparing with what it last saw.
type client struct {
	id     int
	rng    *rand.Rand
	table  kv.Table
	part   string
	faults bool       // calls may fail: see UnderFaults
	writer *kv.Writer // nil: the client calls the table itself
	seq    uint64
	last   [registers]kv.Version
	rec    *recorder
}

func (c *client) step(ctx context.Context) error {
	n := c.rng.IntN(registers)
	k := c.key(n)
	in := op{register: n, old: c.last[n], byWriter: c.writer != nil}
	var call func() result
	switch dice := c.rng.IntN(10); {
	case dice < 4:
		in.kind, in.old = "get", kv.Version{}
		call = func() result { return c.get(ctx, k) }
	case dice < 8 || in.old == kv.Version{}:
		in.kind, in.next = "set", c.next()
		call = func() result { return c.set(ctx, k, in) }
	default:
		in.kind = "delete"
		call = func() result { return result{err: c.delete(ctx, k, in.old)} }
	}
	out := c.rec.record(c.id, in, call)
	switch {
	case failed(out.err) && c.faults:
	case failed(out.err):
		return fmt.Errorf("%+v: %w", in, out.err)
	case in.kind == "get":
		c.last[n] = out.version
	case out.err == nil:
		c.last[n] = in.next
	}
	return nil
}

func (c *client) key(n int) kv.Key { return kv.Key{Part: []byte(c.part), Row: []byte{byte(n)}} }

// failed tells whether a call did nothing: err is neither an answer nor in doubt.
func failed(err error) bool {
	return err != nil && !errors.Is(err, kv.ErrConflict) && !errors.Is(err, kv.ErrUnknown)
}

// next is the version that the client's next write has, by itself or by its writer.
func (c *client) next() kv.Version {
	c.seq++
	return kv.Version{Writer: uint64(c.id + 1), Seq: c.seq}
}

func (c *client) get(ctx context.Context, k kv.Key) result {
	r, err := c.table.Get(ctx, k)
	if errors.Is(err, kv.ErrNotFound) {
		return result{}
	}
	if err == nil && string(r.Value) != fmt.Sprint(r.Version) {
		err = fmt.Errorf("version %v holds %q", r.Version, r.Value)
	}
	return result{version: r.Version, err: err}
}

func (c *client) set(ctx context.Context, k kv.Key, in op) result {
	value := []byte(fmt.Sprint(in.next))
	if c.writer == nil {
		return result{err: c.table.CompareAndSet(ctx, k, in.old, in.next, value)}
	}
	wrote, err := c.writer.Set(ctx, c.table, k, in.old, value)
	if err == nil && wrote != in.next {
		err = fmt.Errorf("wrote %v, want %v", wrote, in.next)
	}
	return result{err: err}
}

func (c *client) delete(ctx context.Context, k kv.Key, old kv.Version) error {
	if c.writer == nil {
		return c.table.CompareAndDelete(ctx, k, old)
	}
	return c.writer.Delete(ctx, c.table, k, old)
}

// check has clients use a table at once, and returns an error unless what they
// saw is linearizable.
func check(ctx context.Context, tab kv.Table, name string, seed uint64, byWriter bool) error {
	s := schedule{table: tab, part: fmt.Sprint(name, seed), seed: seed, byWriter: byWriter, steps: 40}
	if err := s.run(ctx); err != nil {
		return err
	}
	return s.judge()
}

// A schedule is what some clients do at once.
type schedule struct {
	table    kv.Table
	part     string
	seed     uint64
	byWriter bool
	faults   bool
	steps    int
	rec      recorder
}

func (s *schedule) client(id int) *client {
	c := &client{id: id, rng: rand.New(rand.NewPCG(s.seed, uint64(id))), table: s.table, part: s.part, faults: s.faults, rec: &s.rec}
	if s.byWriter {
		c.writer = kv.NewWriter(uint64(id + 1))
	}
	return c
}

const clients = 4

func (s *schedule) run(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, clients)
	for id := range clients {
		c := s.client(id)
		all.Go(func() {
			for range s.steps {
				if errs[id] = c.step(ctx); errs[id] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// judge returns an error unless the history is linearizable.
func (s *schedule) judge() error {
	if !porcupine.CheckOperations(register, s.rec.history) {
		return errNotLinearizable
	}
	return nil
}

var errNotLinearizable = errors.New("the history is not linearizable")

// rounds is how many histories are checked of each kind, each in a part of its own: some stores take a second to make a table.
const rounds = 15

// inRounds runs a test for each seed, as many at once as tests may.
func inRounds(t *testing.T, run func(t *testing.T, seed uint64)) {
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint("Seed", seed), func(t *testing.T) {
			t.Parallel()
			run(t, seed)
		})
	}
}

func linearizable(t *testing.T, s kv.Store) {
	tab := table(t, s, "t")
	inRounds(t, func(t *testing.T, seed uint64) { must(t, check(t.Context(), tab, "register", seed, false)) })
}

// linearizableUnsure loses answers: with even seeds the clients get ErrUnknown,
// with odd ones a Writer settles it.
func linearizableUnsure(t *testing.T, s kv.Store) {
	tab := table(t, s, "t")
	inRounds(t, func(t *testing.T, seed uint64) {
		byWriter := seed%2 == 1
		must(t, check(t.Context(), unsureOf(tab, seed), "unsure", seed, byWriter))
	})
}
