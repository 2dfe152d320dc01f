package volume

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
	"gleaner/fabric/maps"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// A flaky disk goes away and comes back, and now and then does a request and says that it failed.
type flaky struct {
	plug
	away  *atomic.Bool
	storm *atomic.Bool // of all disks: every write comes late
	rng   *lockedRand
	late  *sync.WaitGroup // writes that are to come
}

type lockedRand struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (r *lockedRand) n(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n)
}

var errFlaky = errors.New("connection lost")

func (d flaky) Read(ctx context.Context, id disk.GroupID, generation uint64, offset int64, buf []byte) error {
	if d.away.Load() {
		return errFlaky
	}
	return d.plug.Read(ctx, id, generation, offset, buf)
}

func (d flaky) Write(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	if d.away.Load() {
		return errFlaky
	}
	if d.rng.n(10) == 0 {
		time.Sleep(time.Duration(d.rng.n(300)) * time.Microsecond)
	}
	switch n := d.rng.n(40); {
	case n == 0: // it was done, and the answer is lost
		_ = d.plug.Write(ctx, id, generation, token, offset, data, sync)
		return errFlaky
	case n == 1 || d.storm.Load(): // it comes late
		late := append([]byte(nil), data...)
		d.late.Go(func() {
			time.Sleep(time.Duration(d.rng.n(30)) * time.Millisecond)
			_ = d.plug.Write(ctx, id, generation, token, offset, late, sync)
		})
		return errFlaky
	}
	return d.plug.Write(ctx, id, generation, token, offset, data, sync)
}

type flakyPool struct {
	mu    sync.Mutex
	order []cluster.DiskID
	disks map[cluster.DiskID]flaky
}

func (p *flakyPool) Disk(id cluster.DiskID) (Disk, error) {
	if d := p.disks[id]; !d.away.Load() {
		return d, nil
	}
	return nil, errFlaky
}

func (p *flakyPool) Place(have []cluster.DiskID, n int) (chosen []cluster.DiskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = append(p.order[1:], p.order[0])
	for _, id := range p.order {
		if len(chosen) < n && !p.disks[id].away.Load() && !contains(have, id) {
			chosen = append(chosen, id)
		}
	}
	return chosen
}

// another chooses a disk beside others, which may be the one that the replica is on.
func (p *flakyPool) another(others []cluster.DiskID) (cluster.DiskID, bool) {
	chosen := p.Place(others, 1)
	if len(chosen) == 0 {
		return "", false
	}
	return chosen[0], true
}

func contains(all []cluster.DiskID, id cluster.DiskID) bool {
	for _, have := range all {
		if have == id {
			return true
		}
	}
	return false
}

// An access is a read or a write of one slice.
type access struct {
	slice int
	write bool
	tag   uint64
}

// slices models each slice as a register. A write whose outcome is not known has no end.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		bySlice := map[int][]porcupine.Operation{}
		for _, o := range history {
			n := o.Input.(access).slice
			bySlice[n] = append(bySlice[n], o)
		}
		var all [][]porcupine.Operation
		for _, h := range bySlice {
			all = append(all, h)
		}
		return all
	},
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		in := input.(access)
		if in.write {
			return true, in.tag
		}
		return output.(uint64) == state.(uint64), state
	},
}

// TestLinear has clients read and write the same few slices at once, while disks go away and come back, answers are lost,
// requests come late and replicas are rebuilt and moved: each slice behaves as if the requests to it were done one at a time.
func TestLinear(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		if err := linear(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func linear(seed uint64) error {
	ctx := context.Background()
	rng := &lockedRand{rng: rand.New(rand.NewPCG(seed, 3))}
	pool, storm, late := &flakyPool{disks: map[cluster.DiskID]flaky{}}, new(atomic.Bool), new(sync.WaitGroup)
	for i := range 4 {
		id := cluster.DiskID(fmt.Sprint("d", i))
		fs := disktest.New(1<<30, "d")
		if err := disk.Format(fs, "d", disk.Identity{Cluster: "c", Disk: string(id), Tier: disk.SSD, Quota: 256 << 20, Log: disk.DefaultLog(8 << 20), Salt: seed + 1}); err != nil {
			return err
		}
		d, err := disk.Open(fs, "d", disk.Options{Cluster: "c"})
		if err != nil {
			return err
		}
		defer d.Close()
		pool.order = append(pool.order, id)
		pool.disks[id] = flaky{plug{d, &fuse{}}, new(atomic.Bool), storm, rng, late}
	}
	defer late.Wait() // before the disks are closed
	m, err := maps.Open(ctx, mem.New(), kv.NewWriter(1))
	if err != nil {
		return err
	}
	s := NewSpace(m, pool, Options{Answer: time.Second, Patience: 50 * time.Millisecond, Lease: time.Hour})
	vdisk, err := s.Create(ctx, "v", 8<<20, 3, time.Unix(0, 0))
	if err != nil {
		return err
	}
	v, err := s.Open(ctx, vdisk.ID)
	if err != nil {
		return err
	}
	var clock, tags atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	do := func(client int) {
		in := access{slice: rng.n(6), write: rng.n(2) == 0}
		at := int64(in.slice) * (disk.BlockSize + 3*disk.SliceSize) // of several blocks
		buf := make([]byte, disk.SliceSize)
		o := porcupine.Operation{ClientId: client, Call: clock.Add(1)}
		var err error
		if in.write {
			in.tag = uint64(tags.Add(1))
			binary.LittleEndian.PutUint64(buf, in.tag)
			err = v.WriteAt(ctx, buf, at, rng.n(10) == 0)
		} else {
			err = v.ReadAt(ctx, buf, at)
		}
		o.Input, o.Output, o.Return = in, binary.LittleEndian.Uint64(buf), clock.Add(1)
		if err != nil && !in.write {
			return
		}
		if err != nil {
			o.Return = math.MaxInt64
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, o)
	}
	harm, stop := context.WithCancel(ctx)
	var around sync.WaitGroup
	around.Go(func() {
		for harm.Err() == nil {
			d := pool.disks[cluster.DiskID(fmt.Sprint("d", rng.n(4)))]
			d.away.Store(true)
			time.Sleep(time.Duration(rng.n(3000)) * time.Microsecond)
			d.away.Store(false)
			if rng.n(4) == 0 {
				storm.Store(true)
				time.Sleep(time.Duration(rng.n(90)) * time.Millisecond)
				storm.Store(false)
			}
			for g, err := range m.Groups(ctx) {
				if err == nil {
					_ = s.Rebuild(ctx, g.ID, "") // it may fail, and is tried again
					_ = s.Move(ctx, g.ID, g.Good[0], pool.another)
				}
			}
		}
	})
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for range 150 {
				do(client)
			}
		})
	}
	clients.Wait()
	stop()
	around.Wait()
	if result := porcupine.CheckOperationsTimeout(registers, history, 20*time.Second); result != porcupine.Ok {
		return fmt.Errorf("%d requests: %s", len(history), result)
	}
	return v.Close()
}
