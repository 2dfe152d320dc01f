package record

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"

	"gleaner/trace"
)

// Push is the end of the method of a push.
const Push = trace.Push

// A Listener turns the bytes of connections into calls.
type Listener struct {
	// Decode gives the leaves of a message of a method ("package.Service/Name"). Required.
	Decode func(method string, answer bool, message []byte) []trace.Leaf
	// Emit takes each call. It is called from many goroutines. Required.
	Emit func(*trace.Call)
	// Sender is the metadata key with the name of the sender. If it is empty, or a call
	// does not have it, the sender is the connection.
	Sender string
	Run    string
	Scale  int

	conversations atomic.Int64
	Undecoded     atomic.Int64 // connections that were not gRPC over plain HTTP/2
}

// Hear listens to one connection until its end; see Proxy.Hear.
func (l *Listener) Hear(c Conversation) {
	h := &hearing{Listener: l, Conversation: c, id: l.conversations.Add(1), streams: map[uint32]*stream{}}
	asked, answered := newHalf(true), newHalf(false)
	for {
		p, err := c.Next()
		if err != nil {
			break
		}
		half := asked
		if p.Answer {
			half = answered
		}
		if err := half.feed(p.Bytes, func(e event) { h.on(p, e) }); err != nil {
			l.Undecoded.Add(1)
			break
		}
	}
	for _, s := range h.streams {
		h.finish(s, "")
	}
}

// A hearing is one connection that is listened to.
type hearing struct {
	*Listener
	Conversation
	id      int64
	streams map[uint32]*stream
}

// A stream is one gRPC call, unary or not.
type stream struct {
	id              string
	method, sender  string
	opened          time.Time
	asked, answered messages
	askedAs, answer string // compression
	said            int    // request messages and pushes so far
	last            string // ID of the last request
	call            *trace.Call
	replied         bool // call has its response
}

func (h *hearing) on(p Piece, e event) {
	s := h.streams[e.stream]
	if s == nil {
		if p.Answer || e.headers == nil {
			return // it began before the recording, or has ended
		}
		s = h.open(e.stream, p.At, e.headers)
	}
	switch {
	case e.reset:
		h.end(e.stream, codes.Canceled.String())
	case p.Answer:
		h.answers(s, p.At, e)
	case e.data != nil:
		err := s.asked.feed(e.data, func(packed bool, m []byte) { h.request(s, p.At, unpack(packed, s.askedAs, m)) })
		h.check(e.stream, err)
	}
}

func (h *hearing) open(id uint32, at time.Time, headers []hpack.HeaderField) *stream {
	s := &stream{id: fmt.Sprintf("c%ds%d", h.id, id), opened: at, sender: h.Client}
	for _, f := range headers {
		switch {
		case f.Name == ":path":
			s.method = strings.TrimPrefix(f.Value, "/")
		case f.Name == "grpc-encoding":
			s.askedAs = f.Value
		case h.Sender != "" && f.Name == strings.ToLower(h.Sender):
			s.sender = f.Value
		}
	}
	h.streams[id] = s
	return s
}

// answers handles a message of the server on a stream.
func (h *hearing) answers(s *stream, at time.Time, e event) {
	status, done := "", e.end
	for _, f := range e.headers {
		switch f.Name {
		case "grpc-encoding":
			s.answer = f.Value
		case "grpc-status":
			status, done = statusName(f.Value), true
		}
	}
	if e.data != nil {
		err := s.answered.feed(e.data, func(packed bool, m []byte) { h.reply(s, at, unpack(packed, s.answer, m)) })
		h.check(e.stream, err)
	}
	if done {
		if s.call != nil && s.call.End == 0 {
			s.call.End = at.UnixNano()
		}
		h.end(e.stream, status)
	}
}

// check drops a stream whose data are not gRPC messages.
func (h *hearing) check(id uint32, err error) {
	if err != nil {
		h.end(id, codes.Unknown.String())
	}
}

func (h *hearing) request(s *stream, at time.Time, message []byte) {
	h.finish(s, "")
	s.call = h.newCall(s, at, s.method, h.Decode(s.method, false, message))
	s.last, s.replied = s.call.ID, false
}

func (h *hearing) reply(s *stream, at time.Time, message []byte) {
	leaves := h.Decode(s.method, true, message)
	if s.call != nil && !s.replied {
		s.call.Response, s.call.End, s.replied = leaves, at.UnixNano(), true
		return
	}
	h.finish(s, "")
	push := h.newCall(s, at, s.method+Push, nil)
	push.Parent, push.Response, push.End = s.last, leaves, push.Start
	s.call, s.replied = push, true
}

func (h *hearing) newCall(s *stream, at time.Time, method string, request []trace.Leaf) *trace.Call {
	s.said++
	return &trace.Call{Run: h.Run, Scale: h.Scale, ID: s.id + "." + strconv.Itoa(s.said), Start: at.UnixNano(), Sender: s.sender,
		Address: host(h.Client), Target: h.Target, Method: method, Request: request}
}

// host is an address without its port, which differs for each connection.
func host(address string) string {
	if name, _, err := net.SplitHostPort(address); err == nil {
		return name
	}
	return address
}

// finish emits the call a stream has under way.
func (h *hearing) finish(s *stream, status string) {
	if s.call != nil {
		s.call.Status = status
		h.Emit(s.call)
		s.call = nil
	}
}

func (h *hearing) end(id uint32, status string) {
	s := h.streams[id]
	if s == nil {
		return
	}
	if s.said == 0 { // a stream that ended without a request
		s.call = h.newCall(s, s.opened, s.method, nil)
	}
	h.finish(s, status)
	delete(h.streams, id)
}

func statusName(value string) string {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return value
	}
	return codes.Code(n).String()
}

// unpack decompresses a message; if that fails, it stays as it is.
func unpack(packed bool, as string, message []byte) []byte {
	if !packed || as != "gzip" {
		return message
	}
	z, err := gzip.NewReader(bytes.NewReader(message))
	if err != nil {
		return message
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxBehind))
	if err != nil {
		return message
	}
	return plain
}
