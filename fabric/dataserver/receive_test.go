package dataserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/fabric/disk"
)

// Whoever receives may stop at any time, because its ctx ends or its answer is there: each other call gets its own answer, or ends when its ctx does. Answers come
// late, in any order and in pieces.
func TestReceiversComeAndGo(t *testing.T) {
	l := strangeLink(t, func(rng *rand.Rand) (time.Duration, time.Duration) {
		return time.Duration(rng.IntN(4)) * time.Millisecond, time.Duration(rng.IntN(3)) * time.Millisecond
	})
	var all sync.WaitGroup
	for who := range 12 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(who)))
			for range 150 {
				ctx, cancel, impatient := t.Context(), func() {}, rng.IntN(3) == 0
				if impatient {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(5000))*time.Microsecond)
				}
				begun, group, buf := time.Now(), rng.Uint64(), make([]byte, 64)
				var err error
				if rng.IntN(3) == 0 { // wait for it later, or too late
					buf = nil
					wait := l.begin(ctx, head{op: opSync}, nil)
					time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
					err = wait()
				} else {
					_, err = l.ask(ctx, head{op: opRead, group: disk.GroupID(group), count: uint32(len(buf))}, nil, buf)
				}
				cancel()
				switch {
				case err == nil && buf != nil && !bytes.Equal(buf, said(group, len(buf))):
					t.Errorf("the answer is %x, for group %x", buf, group)
				case err != nil && !(impatient && errors.Is(err, context.DeadlineExceeded)):
					t.Error(err)
				case time.Since(begun) > 10*time.Second:
					t.Errorf("it took %v", time.Since(begun))
				}
				if rng.IntN(4) == 0 {
					time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond) // others are alone meanwhile
				}
			}
		})
	}
	all.Wait()
	if !l.whole() {
		t.Error("the link broke")
	}
}

// Others get their answers at once while nobody waits for what was begun.
func TestBegunHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := answeringLink(t, func(*rand.Rand) (time.Duration, time.Duration) { return 0, 0 })
		start := time.Now()
		wait := l.begin(t.Context(), head{op: opSync}, nil)
		if _, err := l.ask(t.Context(), head{op: opRead, count: 64}, nil, make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("it took %v", took)
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
	})
}

// What was answered in time is no failure of who waits for it only when ctx has ended: another replica kept him until then.
func TestBegunAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := answeringLink(t, func(*rand.Rand) (time.Duration, time.Duration) { return 0, 0 })
		for range 20 { // a select that may choose either does so sooner or later
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			wait := l.begin(ctx, head{op: opSync}, nil)
			<-ctx.Done()
			cancel()
			if err := wait(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A frame that stops half way breaks the link a grace after the ctx of who receives has ended, and not before.
func TestFrameStopsHalfWay(t *testing.T) {
	l := strangeLink(t, func(*rand.Rand) (time.Duration, time.Duration) { return 0, time.Hour })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := l.ask(ctx, head{op: opRead, count: 64}, nil, make([]byte, 64))
	if took := time.Since(begun); !errors.Is(err, ErrLost) || took < grace || took > 20*grace {
		t.Errorf("%v after %v", err, took)
	}
	if l.whole() {
		t.Error("the link is whole")
	}
}

// A link that nobody uses is seen to break.
func TestIdleLinkBreaks(t *testing.T) {
	l := strangeLink(t, func(*rand.Rand) (time.Duration, time.Duration) { return 0, 0 })
	if _, err := l.ask(t.Context(), head{op: opRead, count: 64}, nil, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	l.conn.(*strangeConn).server.Close()
	for deadline := time.Now().Add(10 * time.Second); l.whole(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is whole")
		}
	}
}

// A strangeConn knows the other end.
type strangeConn struct {
	net.Conn
	server net.Conn
}

// strangeLink is a link to a server that answers reads with what said gives: each after a delay, and half of it after another.
func strangeLink(t *testing.T, delays func(*rand.Rand) (before, within time.Duration)) *link {
	t.Helper()
	at, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	c, err := net.Dial("unix", at.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := at.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return linkTo(t, c, server, delays)
}

// answeringLink is such a link within a bubble of synctest's.
func answeringLink(t *testing.T, delays func(*rand.Rand) (before, within time.Duration)) *link {
	t.Helper()
	t.Cleanup(func() { time.Sleep(2 * attendEvery) }) // once it is broken, until it has seen that
	c, server := net.Pipe()
	return linkTo(t, c, server, delays)
}

func linkTo(t *testing.T, c, server net.Conn, delays func(*rand.Rand) (before, within time.Duration)) *link {
	t.Cleanup(func() { server.Close() })
	l := linkOver(&strangeConn{c, server}, "a")
	go l.attend()
	t.Cleanup(func() { l.breaks(errClosed) })
	go func() {
		sending := make(chan struct{}, 1) // no mutex, for which a bubble's time stands still
		rng, data := rand.New(rand.NewPCG(2, 2)), make([]byte, headBytes)
		for {
			if _, err := io.ReadFull(server, data); err != nil {
				return
			}
			h, err := decodeHead(data)
			if err != nil {
				t.Error(err)
				return
			}
			before, within := delays(rng)
			go func() {
				time.Sleep(before)
				sending <- struct{}{}
				defer func() { <-sending }()
				frame := append(answer{statusDone, h.number, int(h.count)}.encode(nil), said(uint64(h.group), int(h.count))...)
				_, _ = server.Write(frame[:len(frame)/2])
				time.Sleep(within)
				_, _ = server.Write(frame[len(frame)/2:])
			}()
		}
	}()
	return l
}

func said(group uint64, n int) []byte {
	return bytes.Repeat(binary.BigEndian.AppendUint64(nil, group), n/8)
}
