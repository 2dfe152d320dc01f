package lean

import (
	"bufio"
	"context"
	"net"
	"sync"

	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/frame"
)

// Echo answers a call with its request.
func Echo(call *trace.Call) replay.Reply { return replay.Reply{Leaves: call.Request, Status: "OK"} }

// Serve answers calls until ctx ends.
func Serve(ctx context.Context, l net.Listener, answer func(*trace.Call) replay.Reply) error {
	s := &server{answer: answer, open: map[net.Conn]struct{}{}}
	stop := context.AfterFunc(ctx, func() {
		l.Close()
		s.hangUp()
	})
	defer stop()
	defer s.done.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		s.add(c)
		s.done.Go(func() { s.serve(c) })
	}
}

type server struct {
	answer func(*trace.Call) replay.Reply
	done   sync.WaitGroup
	mu     sync.Mutex
	open   map[net.Conn]struct{} // nil after all were closed
}

func (s *server) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		c.Close()
		return
	}
	s.open[c] = struct{}{}
}

func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
	s.open = nil
}

func (s *server) serve(c net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
		c.Close()
	}()
	if err := greet(context.Background(), c); err != nil {
		return
	}
	r := bufio.NewReaderSize(c, readBuffer)
	for s.one(c, r) == nil {
	}
}

// one answers the next call of a connection. While it waits, it holds only the reader's
// buffer.
func (s *server) one(c net.Conn, r *bufio.Reader) error {
	if _, err := r.Peek(1); err != nil {
		return err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	if err := frame.Read(r, buf); err != nil {
		return err
	}
	number, call, err := parseRequest(*buf)
	if err != nil {
		return err
	}
	reply := s.answer(call)
	*buf = appendReply((*buf)[:0], number, &reply)
	_, err = c.Write(*buf)
	return err
}
