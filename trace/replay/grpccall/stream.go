package grpccall

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"gleaner/trace"
	"gleaner/trace/replay"
)

// A stream is a node's stream of one method. As in recordings, the first message after a
// request is its reply, and all others are pushes.
type stream struct {
	asking sync.Mutex // one request at a time

	mu     sync.Mutex
	open   grpc.ClientStream  // nil if there is none
	asked  chan heard         // set while a request waits for its reply
	pushes [][]trace.Leaf     // that were not taken yet
	heard  chan struct{}      // not empty while there may be pushes
	taker  func(replay.Reply) // gets the next push
}

// heard is the answer to a request.
type heard struct {
	reply replay.Reply
	err   error
}

// maxPushes is how many pushes are kept for a node that does not take them.
const maxPushes = 256

// ask sends a request and waits for the next message.
func (s *stream) ask(ctx context.Context, c *conn, method protoreflect.MethodDescriptor, request proto.Message) (replay.Reply, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	answered := make(chan heard, 1)
	open, err := s.opened(c, method, answered)
	if err != nil {
		return unanswered(err)
	}
	if err := open.SendMsg(request); err != nil && !errors.Is(err, io.EOF) { // at EOF, the reader gets the error
		s.forget(open)
		return unanswered(err)
	}
	if !method.IsStreamingClient() {
		_ = open.CloseSend() // never fails
	}
	select {
	case h := <-answered:
		return h.reply, h.err
	case <-ctx.Done():
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		return replay.Reply{}, ctx.Err()
	}
}

// opened gives the stream, opens it if there is none, and sets who gets its next message.
// A method that takes one request has a stream for each.
func (s *stream) opened(c *conn, method protoreflect.MethodDescriptor, next chan heard) (grpc.ClientStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil || !method.IsStreamingClient() {
		open, err := c.open(method)
		if err != nil {
			return nil, err
		}
		s.open = open
		go s.listen(open, method.Output())
	}
	s.asked = next
	return s.open, nil
}

func (s *stream) forget(open grpc.ClientStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == open {
		s.open = nil
	}
}

// listen takes the messages of a stream until it ends.
func (s *stream) listen(open grpc.ClientStream, kind protoreflect.MessageDescriptor) {
	for {
		var m raw
		err := open.RecvMsg(&m)
		s.mu.Lock()
		asked, taker := s.asked, s.taker
		if s.open != open { // a newer stream has replaced it
			asked = nil
		} else {
			s.asked = nil
		}
		switch {
		case err != nil && s.open == open:
			s.open = nil
		case err == nil && asked == nil && taker == nil:
			s.push(m.leaves(kind))
		case err == nil && asked == nil:
			s.taker = nil
		}
		s.mu.Unlock()
		if err == nil && asked == nil && taker != nil {
			taker(replay.Reply{Leaves: m.leaves(kind)})
		}
		if asked != nil {
			reply, failed := answer(kind, m, ended(err))
			if reply.Status == "OK" && err == nil {
				reply.Status = "" // a stream that goes on has no status yet
			}
			asked <- heard{reply, failed}
		}
		if err != nil {
			return
		}
	}
}

// ended is the error of a stream that ended without one.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *stream) push(leaves []trace.Leaf) {
	if len(s.pushes) == maxPushes {
		s.pushes = s.pushes[1:]
	}
	s.pushes = append(s.pushes, leaves)
	select {
	case s.heard <- struct{}{}:
	default:
	}
}

// await calls take with the next push.
func (s *stream) await(take func(replay.Reply)) (cancel func()) {
	s.mu.Lock()
	if len(s.pushes) > 0 {
		next := s.pushes[0]
		s.pushes = s.pushes[1:]
		s.mu.Unlock()
		take(replay.Reply{Leaves: next})
		return func() {}
	}
	s.taker = take
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taker = nil
	}
}

// pushed waits for the next push.
func (s *stream) pushed(ctx context.Context) (replay.Reply, error) {
	for {
		s.mu.Lock()
		if len(s.pushes) > 0 {
			next := s.pushes[0]
			s.pushes = s.pushes[1:]
			s.mu.Unlock()
			return replay.Reply{Leaves: next}, nil
		}
		s.mu.Unlock()
		select {
		case <-s.heard:
		case <-ctx.Done():
			return replay.Reply{}, ctx.Err()
		}
	}
}
