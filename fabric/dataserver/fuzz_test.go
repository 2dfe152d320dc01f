package dataserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"gleaner/fabric/conn"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

// A recorded connection says what is written down and keeps what is answered.
type recorded struct {
	net.Conn // nil: whatever else is called is a mistake
	says     io.Reader
	mu       sync.Mutex
	answers  bytes.Buffer
}

func (c *recorded) Read(p []byte) (int, error) { return c.says.Read(p) }

func (c *recorded) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers.Write(p)
}

func (c *recorded) Close() error                     { return nil }
func (c *recorded) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (c *recorded) SetDeadline(time.Time) error      { return nil }
func (c *recorded) SetReadDeadline(time.Time) error  { return nil }
func (c *recorded) SetWriteDeadline(time.Time) error { return nil }

// FuzzServer: whatever a client of the cluster asks for, it gets well-formed answers to requests
// of its own, one each.
func FuzzServer(f *testing.F) {
	const dir = "disk"
	fs := disktest.New(64<<20, dir)
	if err := disk.Format(fs, dir, disk.Identity{Cluster: "c", Disk: "d", Tier: disk.SSD, Quota: 32 << 20, Log: 2 << 20, Salt: 7}); err != nil {
		f.Fatal(err)
	}
	d, err := disk.Open(fs, dir, disk.Options{Cluster: "c"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { d.Close() })
	s := &server{options: Options{Busy: func() bool { return false }}}
	served := &served{LocalDisk: Local(d), room: semaphore.NewWeighted(mostInHand)}
	served.look()

	request := func(h head, payload string) []byte {
		h.payload = len(payload)
		return append(h.encode(nil), payload...)
	}
	group := head{op: opCreate, number: 1, group: 1, vdisk: 1, generation: 1}
	f.Add(request(group, ""))
	f.Add(append(request(group, ""), request(head{op: opWrite, number: 2, group: 1, generation: 1, token: 1, sync: true}, "some data")...))
	f.Add(append(request(head{op: opRead, number: 3, group: 1, generation: 1, count: 20}, ""), request(head{op: opList, number: 4}, "")...))
	for o := opSync; o < ops; o++ {
		f.Add(request(head{op: o, number: 5, group: 1, generation: 1, token: 1, vdisk: 1}, ""))
	}
	f.Add(request(head{op: opPut, number: 6, group: 2, generation: 1}, string(make([]byte, putData))))
	f.Add(request(head{op: opCopy, number: 6, group: 2, generation: 1}, `{"address":"none"}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		c := &recorded{says: bytes.NewReader(input)}
		x := newSession(&conn.Client{Conn: c, Working: context.Background()}, s, served, "d")
		x.lead.Run()
		x.Flush()
		x.cancel()
		if !served.room.TryAcquire(mostInHand) || !x.room.TryAcquire(2*window) {
			t.Fatal("room was not given back")
		}
		served.room.Release(mostInHand)

		asked := map[uint64]int{}
		for left := input; len(left) >= headBytes; {
			h, err := decodeHead(left[:headBytes])
			if err != nil {
				break
			}
			asked[h.number]++
			left = left[min(headBytes+h.payload, len(left)):]
		}
		for left := c.answers.Bytes(); len(left) > 0; {
			if len(left) < answerBytes {
				t.Fatalf("an answer ends after % x", left)
			}
			a, err := decodeAnswer(left[:answerBytes])
			if err != nil || len(left) < answerBytes+a.payload || asked[a.number] == 0 {
				t.Fatalf("%+v: %v", a, err)
			}
			if a.status == statusError {
				if _, ok := decodeError("a", left[answerBytes:][:a.payload]); !ok {
					t.Fatalf("an error is % x", left[:answerBytes+a.payload])
				}
			}
			if a.status != statusMore {
				asked[a.number]--
			}
			left = left[answerBytes+a.payload:]
		}
	})
}

// FuzzClient: whatever a server answers, each call ends, with an answer or an error.
func FuzzClient(f *testing.F) {
	reply := func(status byte, number uint64, payload string) string {
		return string(answer{status, number, len(payload)}.encode(nil)) + payload
	}
	f.Add([]byte(reply(statusDone, 1, "0123456789") + reply(statusDone, 2, string(make([]byte, infoBytes))) + reply(statusMore, 3, "12345678") + reply(statusDone, 3, "")))
	f.Add([]byte(reply(statusError, 2, string(encodeError(ErrBusy))) + reply(statusDone, 1, "short")))
	f.Add([]byte(reply(statusDone, 9, "")))
	f.Fuzz(func(t *testing.T, input []byte) {
		begun := make(chan struct{})
		says := io.MultiReader(waiting(begun), bytes.NewReader(input))
		l := linkOver(&recorded{says: says}, "a")
		l.wanted <- struct{}{}
		go l.attend()
		var all sync.WaitGroup
		for i, h := range []head{{op: opRead, count: 10}, {op: opStat}, {op: opList}} {
			c := &call{cost: requestCost, done: make(chan struct{})}
			if i == 0 {
				c.into = make([]byte, 10)
			}
			if !l.window.TryAcquire(c.cost) {
				t.Fatal("there is no room")
			}
			if _, err := l.send(context.Background(), h, nil, c); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				<-c.done
				var remote *remoteError
				if c.err != nil && !errors.Is(c.err, ErrLost) && !errors.As(c.err, &remote) {
					t.Errorf("got %v", c.err)
				}
				if h.op == opStat && c.err == nil {
					decodeInfo(c.answer)
				}
			})
		}
		close(begun)
		all.Wait()
		if !l.window.TryAcquire(window) {
			t.Error("room was not given back")
		}
	})
}

// waiting reads nothing, once a channel is closed.
type waiting chan struct{}

func (w waiting) Read([]byte) (int, error) {
	<-w
	return 0, io.EOF
}

// FuzzHandshake: nobody gets through a handshake by chance, on either side.
func FuzzHandshake(f *testing.F) {
	cluster := Cluster{ID: "c"}
	rand.Read(cluster.Key[:])
	f.Add(encodeHello(newGreeting(), "d"))
	f.Add(append(encodeHello(newGreeting(), ""), make([]byte, proofBytes)...))
	f.Add(append(newGreeting(), notProven, 0, 0, 0, 0))
	f.Add(append(append(newGreeting(), welcomed, 2, 0, 0, 0, '{', '}'), make([]byte, proofBytes)...))
	f.Fuzz(func(t *testing.T, input []byte) {
		p := &pact{cluster: cluster, binding: make([]byte, 32)}
		if name, err := p.hear(&recorded{says: bytes.NewReader(input)}); err == nil {
			t.Errorf("a stranger opened %q", name)
		}
		p = &pact{cluster: cluster, binding: make([]byte, 32)}
		if said, err := p.introduce(&recorded{says: bytes.NewReader(input)}, "d"); err == nil {
			t.Errorf("a stranger welcomed us with %q", said)
		}
	})
}
