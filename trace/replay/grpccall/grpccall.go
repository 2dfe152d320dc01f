// Package grpccall makes calls by gRPC. Messages are made of leaves with the target's
// descriptors: no code is generated for any service.
package grpccall

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/record"
	"gleaner/trace/replay"
)

// Open makes an executor for grpc://host:port. The descriptors come from reflection, or
// with ?descriptors=FILE from a file; with ?sender=KEY every call has its node's name
// under that metadata key.
func Open(ctx context.Context, at *url.URL) (replay.Executor, error) {
	e := &executor{target: at.Host, sender: at.Query().Get("sender")}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cc, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	if e.file = at.Query().Get("descriptors"); e.file == "" {
		if e.known, err = record.AskDescriptors(ctx, cc); err != nil {
			return nil, fmt.Errorf("%s does not tell its messages (%w); give grpc://%s?descriptors=FILE", at.Host, err, at.Host)
		}
		return e, nil
	}
	set, err := os.ReadFile(e.file)
	if err != nil {
		return nil, input.Fieldf("target", "descriptors: %v", err)
	}
	if e.known, err = record.ReadDescriptors(set); err != nil {
		return nil, input.Errorf(e.file, "%v", err)
	}
	return e, nil
}

type executor struct {
	target, sender, file string
	known                *record.Descriptors
	pool                 *pool // nil if every node has a connection of its own
}

// Check is an error for a method that the target's descriptors do not have.
func (e *executor) Check(method string) error {
	if e.known.Method(strings.TrimSuffix(method, record.Push)) != nil {
		return nil
	}
	if e.file != "" {
		return input.Errorf(e.file, "the program calls %s, which these descriptors lack", method)
	}
	return fmt.Errorf("%s: the program calls %s, which this server does not have", e.target, method)
}

func (e *executor) connect(ctx context.Context) (*grpc.ClientConn, error) {
	cc, err := grpc.NewClient("passthrough:///"+e.target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 5 * time.Second,
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 5 * time.Second}}),
		grpc.WithReadBufferSize(2<<10), grpc.WithWriteBufferSize(2<<10), grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.ForceCodecV2(newCodec())))
	if err != nil {
		return nil, fmt.Errorf("grpc: %w", err)
	}
	cc.Connect()
	for {
		switch s := cc.GetState(); {
		case s == connectivity.Ready:
			return cc, nil
		case s == connectivity.TransientFailure, !cc.WaitForStateChange(ctx, s):
			defer cc.Close()
			return nil, fmt.Errorf("%s cannot be reached by gRPC: %w", e.target, whyNot(ctx, cc))
		}
	}
}

// whyNot gives the error of a connection that failed, which only a call returns.
func whyNot(ctx context.Context, cc *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := cc.Invoke(ctx, "/gleaner.Probe/Probe", &dynamicpb.Message{}, &dynamicpb.Message{})
	if s := status.Convert(err); s.Code() == codes.Unavailable {
		return fmt.Errorf("%s", strings.TrimPrefix(s.Message(), "connection error: desc = "))
	}
	return fmt.Errorf("no answer in time")
}

// Dial connects a node.
func (e *executor) Dial(ctx context.Context, who replay.Identity) (replay.Conn, error) {
	c := &conn{e: e, streams: map[string]*stream{}}
	c.life, c.end = context.WithCancel(context.Background())
	if e.sender != "" {
		c.life = metadata.AppendToOutgoingContext(c.life, e.sender, who.Sender)
	}
	var err error
	if e.pool != nil {
		c.cc, err = e.pool.get(ctx, e)
	} else {
		c.cc, err = e.connect(ctx)
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// Share returns an executor whose nodes share n connections.
func (e *executor) Share(n int) replay.Executor {
	shared := *e
	shared.pool = &pool{conns: make([]*grpc.ClientConn, n)}
	return &shared
}

// A pool is a few connections that many nodes use.
type pool struct {
	mu    sync.Mutex
	conns []*grpc.ClientConn
	next  atomic.Int64
}

func (p *pool) get(ctx context.Context, e *executor) (*grpc.ClientConn, error) {
	at := int(p.next.Add(1)-1) % len(p.conns)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[at] == nil {
		cc, err := e.connect(ctx)
		if err != nil {
			return nil, err
		}
		p.conns[at] = cc
	}
	return p.conns[at], nil
}

// A conn is a node's streams, over a connection of its own or a shared one.
type conn struct {
	e       *executor
	cc      *grpc.ClientConn
	life    context.Context
	end     context.CancelFunc
	mu      sync.Mutex
	streams map[string]*stream
}

// Multiplexed marks that calls may be made at once, and that the connection is restored
// by itself.
func (c *conn) Multiplexed() {}

// Close ends the node's streams, and its connection.
func (c *conn) Close() error {
	c.end()
	if c.e.pool != nil {
		return nil
	}
	return c.cc.Close()
}

// Pushed calls take with the next push on a stream.
func (c *conn) Pushed(method string, take func(replay.Reply)) (cancel func()) {
	return c.stream(strings.TrimSuffix(method, record.Push)).await(take)
}

// Call makes a unary call, sends a message on a stream, or waits for a push if the method
// ends in record.Push.
func (c *conn) Call(ctx context.Context, call *trace.Call) (replay.Reply, error) {
	name, push := strings.CutSuffix(call.Method, record.Push)
	method := c.e.known.Method(name)
	if method == nil {
		return replay.Reply{}, c.e.Check(call.Method)
	}
	if push {
		return c.stream(name).pushed(ctx)
	}
	request, err := record.Message(method.Input(), call.Request)
	if err != nil {
		return replay.Reply{}, fmt.Errorf("%w: %w", replay.ErrUnsendable, err)
	}
	if method.IsStreamingClient() || method.IsStreamingServer() {
		return c.stream(name).ask(ctx, c, method, request)
	}
	var reply raw
	if md, ok := metadata.FromOutgoingContext(c.life); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	err = c.cc.Invoke(untimed{ctx}, "/"+name, request, &reply)
	return answer(method.Output(), reply, err)
}

// answer is a message, or what its error means.
func answer(kind protoreflect.MessageDescriptor, reply raw, err error) (replay.Reply, error) {
	if err == nil {
		return replay.Reply{Decode: func() []trace.Leaf { return reply.leaves(kind) }, Status: codes.OK.String()}, nil
	}
	return unanswered(err)
}

// unanswered tells a refusal, which is a reply, from a call without a reply.
func unanswered(err error) (replay.Reply, error) {
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unavailable:
		return replay.Reply{}, fmt.Errorf("unavailable: %s", s.Message())
	case codes.DeadlineExceeded:
		return replay.Reply{}, context.DeadlineExceeded
	case codes.Canceled:
		return replay.Reply{}, context.Canceled
	}
	return replay.Reply{Status: s.Code().String(), Message: s.Message()}, nil
}

func (c *conn) stream(method string) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[method]
	if s == nil {
		s = &stream{heard: make(chan struct{}, 1)}
		c.streams[method] = s
	}
	return s
}

func (c *conn) open(method protoreflect.MethodDescriptor) (grpc.ClientStream, error) {
	desc := &grpc.StreamDesc{ClientStreams: method.IsStreamingClient(), ServerStreams: method.IsStreamingServer()}
	return c.cc.NewStream(c.life, desc, "/"+string(method.Parent().FullName())+"/"+string(method.Name()))
}
