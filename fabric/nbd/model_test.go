package nbd_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/fabric/nbd"
	"gleaner/fabric/nbd/nbdtest"
)

// A moody device takes its time: mostly none, now and then longer than the
// server's patience, and for a while so long that every request gets a goroutine.
type moody struct {
	nbd.Device
	mu  sync.Mutex
	rng *rand.Rand
	bad int // how many of the next requests are slow
}

func (m *moody) pause() {
	m.mu.Lock()
	pause := time.Duration(0)
	switch n := m.rng.IntN(100); {
	case m.bad > 0:
		m.bad--
		pause = time.Duration(m.rng.IntN(2000)) * time.Microsecond
	case n == 0:
		m.bad = 50
	case n < 5:
		pause = time.Duration(m.rng.IntN(50)) * time.Millisecond
	}
	m.mu.Unlock()
	if pause > 0 {
		time.Sleep(pause)
	}
}

func (m *moody) ReadAt(ctx context.Context, p []byte, offset int64) error {
	m.pause()
	return m.Device.ReadAt(ctx, p, offset)
}

func (m *moody) WriteAt(ctx context.Context, p []byte, offset int64, fua bool) error {
	m.pause()
	return m.Device.WriteAt(ctx, p, offset, fua)
}

func (m *moody) Zero(ctx context.Context, offset, length int64, noHole, fua bool) error {
	m.pause()
	return m.Device.Zero(ctx, offset, length, noHole, fua)
}

// TestModel has several clients send batches of random requests that do not overlap,
// and compares every answer with a byte slice. GLEANER_LONG=1 plays 300 seeds of each kind.
func TestModel(t *testing.T) {
	seeds := uint64(10)
	if os.Getenv("GLEANER_LONG") != "" {
		seeds = 300
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("moody/%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipeListener()
				rng := rand.New(rand.NewPCG(seed, 1))
				playModel(t, rng, &moody{rng: rand.New(rand.NewPCG(seed, 2))}, l, l.dial)
			})
		})
		t.Run(fmt.Sprintf("socket/%d", seed), func(t *testing.T) {
			l, err := nbd.Listen(t.TempDir() + "/s")
			if err != nil {
				t.Fatal(err)
			}
			playModel(t, rand.New(rand.NewPCG(seed, 3)), nil, l, func() net.Conn {
				conn, err := net.Dial("unix", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				return conn
			})
		})
	}
}

func playModel(t *testing.T, rng *rand.Rand, mood *moody, l net.Listener, connect func() net.Conn) {
	size := 1<<20 - rng.IntN(5000)
	offer := memory("disk", size)
	if mood != nil {
		mood.Device = offer.Device
		offer.Device = mood
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := nbd.Serve(ctx, l, nbdtest.Exports{offer}, nbd.Options{}); err != nil {
			t.Error(err)
		}
	})
	defer serving.Wait()
	defer cancel()
	m := &model{rng: rng, bytes: make([]byte, size)}
	for i := range 4 {
		c, err := dial(connect(), "disk", i%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		defer c.conn.Close()
		m.clients = append(m.clients, c)
	}
	for range 30 {
		m.batch(t)
	}
	all := m.clients[0].do(t, call{kind: cmdRead, length: uint32(size)})
	if !bytes.Equal(all.data, m.bytes) {
		t.Error("the disk is not what was written")
	}
}

// A model is the byte slice that a disk must be equal to.
type model struct {
	rng     *rand.Rand
	bytes   []byte
	clients []*client
}

// batch cuts the disk into ranges, has each of them read or changed by some client, and
// compares.
func (m *model) batch(t *testing.T) {
	calls := make([][]call, len(m.clients))
	largest := []int{600, 20_000, 300_000}[m.rng.IntN(3)]
	for at := 0; at < len(m.bytes); {
		length := min(1+m.rng.IntN(largest), len(m.bytes)-at)
		if i := m.rng.IntN(2 * len(m.clients)); i < len(m.clients) && len(calls[i]) < 200 {
			calls[i] = append(calls[i], m.draw(m.clients[i], at, length))
		}
		at += length
	}
	var clients sync.WaitGroup
	for i, c := range m.clients {
		clients.Go(func() { m.play(t, c, calls[i]) })
	}
	clients.Wait()
	for _, some := range calls {
		for _, r := range some {
			m.apply(r)
		}
	}
}

func (m *model) draw(c *client, at, length int) call {
	r := call{offset: uint64(at), length: uint32(length), kind: []uint16{cmdRead, cmdRead, cmdWrite, cmdWrite, cmdTrim, cmdZeroes, cmdFlush, cmdStatus}[m.rng.IntN(8)]}
	r.flags = uint16(m.rng.IntN(2)) * flagFUA
	switch r.kind {
	case cmdWrite:
		r.data = bytes.Repeat([]byte{byte(1 + m.rng.IntN(255))}, length)
		r.data[0], r.data[length-1] = byte(m.rng.IntN(256)), byte(m.rng.IntN(256))
	case cmdZeroes:
		r.flags |= uint16(m.rng.IntN(2)) * flagNoHole
	case cmdFlush:
		r.offset, r.length = 0, 0
	case cmdStatus:
		if !c.structured {
			r.kind = cmdRead
		}
	}
	return r
}

// play sends requests one behind the other, while it takes answers in any order.
func (m *model) play(t *testing.T, c *client, calls []call) {
	asked := make(map[uint64]call)
	first := c.last + 1
	for i, r := range calls {
		asked[first+uint64(i)] = r
	}
	go func() {
		for _, r := range calls {
			c.send(r)
		}
	}()
	for range calls {
		a, err := c.receive()
		if err != nil {
			t.Error(err)
			return
		}
		m.compare(t, asked[a.cookie], a)
	}
}

func (m *model) compare(t *testing.T, r call, a answer) {
	switch {
	case a.code != 0:
		t.Errorf("command %d at %d+%d: error %d", r.kind, r.offset, r.length, a.code)
	case r.kind == cmdRead && !bytes.Equal(a.data, m.bytes[r.offset:][:r.length]):
		t.Errorf("a read of %d+%d differs", r.offset, r.length)
	case r.kind == cmdStatus:
		at := int(r.offset)
		for i := 0; i < len(a.runs); i += 2 {
			part := m.bytes[at:][:a.runs[i]]
			if a.runs[i+1]&2 != 0 && len(bytes.Trim(part, "\x00")) > 0 {
				t.Errorf("%d+%d is said to be zero and is not", at, a.runs[i])
			}
			at += int(a.runs[i])
		}
		if at != int(r.offset)+int(r.length) {
			t.Errorf("the status of %d+%d ends at %d", r.offset, r.length, at)
		}
	}
}

func (m *model) apply(r call) {
	part := m.bytes[r.offset:][:r.length]
	switch r.kind {
	case cmdWrite:
		copy(part, r.data)
	case cmdZeroes:
		clear(part)
	case cmdTrim: // as nbdtest.Memory does it: whole pages
		from, to := (r.offset+4095)&^4095, (r.offset+uint64(r.length))&^4095
		if from < to {
			clear(m.bytes[from:to])
		}
	}
}
