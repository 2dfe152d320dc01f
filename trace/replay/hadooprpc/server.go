package hadooprpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"gleaner/trace"
	"gleaner/trace/replay"
)

// A Server answers calls, as a node does for a Resource Manager. It needs no login.
type Server struct {
	Schema *Schema
	// Answer gives the reply to a call; Target is the address that was called,
	// Address the caller's.
	Answer func(*trace.Call) replay.Reply
}

// Serve answers on l until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var open sync.WaitGroup
	defer open.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("hadoop: serve: %w", err)
		}
		open.Go(func() {
			defer context.AfterFunc(ctx, func() { c.Close() })()
			defer c.Close()
			s.session(c)
		})
	}
}

// session answers one connection until either side closes it.
func (s *Server) session(c net.Conn) {
	c.SetReadDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(c)
	var hello [7]byte
	if _, err := io.ReadFull(r, hello[:]); err != nil || string(hello[:5]) != "hrpc\x09" {
		return
	}
	for {
		buf, err := readFrame(r)
		if err != nil {
			return
		}
		c.SetReadDeadline(time.Time{})
		out, err := s.frame(c, buf)
		if err != nil {
			return
		}
		if len(out) == 0 {
			continue
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// frame gives the answer to a frame; nil for none.
func (s *Server) frame(c net.Conn, buf []byte) ([]byte, error) {
	var h requestHeader
	head, body, err := next(buf)
	if err == nil {
		err = h.parse(head)
	}
	if err != nil {
		return nil, err
	}
	switch h.call {
	case callSASL:
		return greet(h, body)
	case callContext, callPing:
		return nil, nil
	}
	return s.call(c, h, body)
}

// greet answers a login: none is needed.
func greet(h requestHeader, body []byte) ([]byte, error) {
	var m saslMessage
	inner, _, err := next(body)
	if err == nil {
		err = m.parse(inner)
	}
	if err != nil {
		return nil, err
	}
	if m.state != saslNegotiate {
		return nil, nil // the caller agrees
	}
	offer := saslMessage{state: saslNegotiate, auths: []saslAuth{{method: "SIMPLE"}}}
	return frame(responseHeader{call: callSASL, client: h.client}.append(nil), offer.append(nil)), nil
}

func (s *Server) call(c net.Conn, h requestHeader, body []byte) ([]byte, error) {
	var mh methodHeader
	head, rest, err := next(body)
	if err == nil {
		err = mh.parse(head)
	}
	request, _, err2 := next(rest)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	answer := responseHeader{call: h.call, client: h.client}
	name, m, err := s.Schema.served(mh)
	var message []byte
	if err == nil {
		message, err = s.answer(c, name, m, request)
	}
	if err != nil {
		answer.status = failed
		var said refusal
		if errors.As(err, &said) {
			answer.class, answer.message = said.class, said.message
		} else {
			answer.class, answer.message = "java.io.IOException", err.Error()
		}
		return frame(answer.append(nil)), nil
	}
	return frame(answer.append(nil), message), nil
}

// A refusal is an error as an answer.
type refusal struct{ class, message string }

func (r refusal) Error() string { return r.class + ": " + r.message }

func (s *Server) answer(c net.Conn, name string, m method, request []byte) ([]byte, error) {
	leaves, err := m.in.decode(request)
	if err != nil {
		return nil, err
	}
	reply := s.Answer(&trace.Call{Method: name, Address: c.RemoteAddr().String(), Target: c.LocalAddr().String(), Request: leaves})
	if reply.Status == statusFailed {
		return nil, refusal{"java.io.IOException", reply.Message}
	}
	return m.out.encode(nil, reply.Leaves)
}

// served finds a method by the caller's name for it.
func (s *Schema) served(h methodHeader) (string, method, error) {
	for name, p := range protocols {
		if m, ok := s.methods[name+"."+h.method]; ok && p.java == h.protocol {
			return name + "." + h.method, m, nil
		}
	}
	return "", method{}, refusal{"org.apache.hadoop.ipc.RpcNoSuchMethodException", fmt.Sprintf("%s has no method %s", h.protocol, h.method)}
}
