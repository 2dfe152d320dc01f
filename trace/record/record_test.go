package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"gleaner/trace"
)

// serve starts a real gRPC server with reflection and gives its address.
func serve(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	reflection.Register(s)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func dial(t testing.TB, address string) *grpc.ClientConn {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A recording is a proxy in front of a server, and what it heard.
type recording struct {
	address string
	proxy   *Proxy
	stop    func() []*trace.Call
}

func startRecording(t testing.TB, target string, hear func(*Listener) func(Conversation)) recording {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	known, err := AskDescriptors(t.Context(), dial(t, target))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var calls []*trace.Call
	listener := &Listener{Decode: known.Decode, Sender: "who", Run: "test", Scale: 3, Emit: func(c *trace.Call) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, c)
	}}
	p := &Proxy{Hear: hear(listener), Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", target)
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, l) }()
	stop := func() []*trace.Call {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("proxy: %v", err)
		}
		slices.SortStableFunc(calls, func(a, b *trace.Call) int { return cmp.Compare(a.Start, b.Start) })
		return calls
	}
	t.Cleanup(cancel)
	return recording{l.Addr().String(), p, stop}
}

func whole(l *Listener) func(Conversation) { return l.Hear }

func show(calls []*trace.Call) string {
	var out strings.Builder
	leaf := func(ls []trace.Leaf) string {
		var all []string
		for _, l := range ls {
			all = append(all, fmt.Sprintf("%s=%.20s", l.Path, l.Value))
		}
		return "{" + strings.Join(all, " ") + "}"
	}
	for _, c := range calls {
		fmt.Fprintf(&out, "%s %s%s -> %s %s\n", c.Sender, strings.TrimPrefix(c.Method, "grpc.testing.TestService/"), leaf(c.Request), leaf(c.Response), c.Status)
	}
	return out.String()
}

func TestUnaryCallsAreRecordedWithBothMessagesAndTheStatus(t *testing.T) {
	r := startRecording(t, serve(t), whole)
	client := testgrpc.NewTestServiceClient(dial(t, r.address))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "who", "worker-1")
	if _, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: 2, Payload: &testgrpc.Payload{Body: []byte("hi")}}); err != nil {
		t.Fatal(err)
	}
	_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: 5, Message: "no"}})
	if status.Code(err).String() != "NotFound" {
		t.Fatalf("the refusal did not pass through: %v", err)
	}
	if _, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: 1}, grpc.UseCompressor(gzip.Name)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.EmptyCall(ctx, &testgrpc.Empty{}); err != nil {
		t.Fatal(err)
	}
	calls := r.stop()
	want := `worker-1 UnaryCall{response_size=2 payload.body=hi} -> {payload.body=base64:AAA=} OK
worker-1 UnaryCall{response_status.code=5 response_status.message=no} -> {} NotFound
worker-1 UnaryCall{response_size=1} -> {payload.body=base64:AA==} OK
worker-1 EmptyCall{} -> {} OK
`
	if got := show(calls); got != want {
		t.Errorf("recorded\n%swant\n%s", got, want)
	}
	for _, c := range calls {
		if c.Scale != 3 || c.Run != "test" || c.End < c.Start || c.ID == "" || c.Address == "" {
			t.Errorf("incomplete: %+v", c)
		}
	}
}

func TestStreamsAreRecordedMessageByMessage(t *testing.T) {
	r := startRecording(t, serve(t), whole)
	client := testgrpc.NewTestServiceClient(dial(t, r.address))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "who", "watcher")
	duplex, err := client.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, sizes := range [][]int32{{1}, {2, 3}} {
		req := &testgrpc.StreamingOutputCallRequest{}
		for _, n := range sizes {
			req.ResponseParameters = append(req.ResponseParameters, &testgrpc.ResponseParameters{Size: n})
		}
		if err := duplex.Send(req); err != nil {
			t.Fatal(err)
		}
		for range sizes {
			if _, err := duplex.Recv(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := duplex.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := duplex.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	calls := r.stop()
	want := `watcher FullDuplexCall{response_parameters[0].size=1} -> {payload.body=base64:AA==} 
watcher FullDuplexCall{response_parameters[0].size=2 response_parameters[1].size=3} -> {payload.body=base64:AAA=} 
watcher FullDuplexCall#push{} -> {payload.body=base64:AAAA} OK
`
	if got := show(calls); got != want {
		t.Errorf("recorded\n%swant\n%s", got, want)
	}
	if calls[2].Parent != calls[1].ID {
		t.Errorf("the push has parent %q, want %q", calls[2].Parent, calls[1].ID)
	}
}

// A listener that panics or falls behind does not affect the traffic.
func TestTrafficGoesOnWithoutTheListener(t *testing.T) {
	r := startRecording(t, serve(t), func(l *Listener) func(Conversation) {
		return func(c Conversation) {
			if _, err := c.Next(); err == nil {
				panic("the listener is broken")
			}
		}
	})
	client := testgrpc.NewTestServiceClient(dial(t, r.address))
	for range 100 {
		reply, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{ResponseSize: 100_000, Payload: &testgrpc.Payload{Body: make([]byte, 100_000)}})
		if err != nil || len(reply.Payload.Body) != 100_000 {
			t.Fatalf("%d bytes, %v", len(reply.GetPayload().GetBody()), err)
		}
	}
	r.stop()
	if r.proxy.Lost.Load() != 1 {
		t.Errorf("%d recordings counted as lost, want 1", r.proxy.Lost.Load())
	}
}

func TestATapeNeverMakesTheTrafficWait(t *testing.T) {
	tape := newTape()
	for range maxBehind/1_000_000 + 2 {
		tape.write(Piece{Bytes: make([]byte, 1_000_000)})
	}
	if _, err := tape.next(); err != errBehind {
		t.Errorf("a listener left behind hears %v", err)
	}
	if !tape.stop() {
		t.Error("the listener fell behind, and that is not counted")
	}
}

func TestBytesPassUnchangedWhateverTheProtocol(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // an echo that ends when its client does
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	listener := &Listener{Decode: new(Descriptors).Decode, Emit: func(c *trace.Call) { t.Errorf("heard %+v", c) }}
	p := &Proxy{Hear: listener.Hear, Dial: func(ctx context.Context) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, front) }()

	c, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("not http2 at all\x00\xff"), 50_000)
	go func() { c.Write(sent); c.(*net.TCPConn).CloseWrite() }()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(sent), err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if listener.Undecoded.Load() != 1 {
		t.Errorf("%d connections counted as not decoded, want 1", listener.Undecoded.Load())
	}
}

func TestUnknownMessagesStayBytes(t *testing.T) {
	got := new(Descriptors).Decode("a.B/C", false, []byte{1, 2})
	if len(got) != 1 || got[0].Value != "base64:AQI=" {
		t.Errorf("%+v", got)
	}
	if _, err := ReadDescriptors([]byte("\xff\xff")); err == nil {
		t.Error("nonsense passes for a descriptor set")
	}
}

// FuzzHear: the listener ends on any bytes, in any pieces.
func FuzzHear(f *testing.F) {
	preface, _ := hex.DecodeString("505249202a20485454502f322e300d0a0d0a534d0d0a0d0a")
	f.Add(append(preface, 0, 0, 0, 4, 0, 0, 0, 0, 0), []byte{0, 0, 0, 4, 1, 0, 0, 0, 0}, uint8(3))
	f.Add(append(preface, 0, 0, 1, 1, 4, 0, 0, 0, 1, 0x82), []byte{0, 0, 6, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 9}, uint8(1))
	f.Fuzz(func(t *testing.T, asked, answered []byte, cut uint8) {
		said := newTape()
		size := max(1, int(cut))
		for len(asked)+len(answered) > 0 {
			n := min(size, len(asked))
			said.write(Piece{At: time.Unix(1, 0), Bytes: asked[:n]})
			asked = asked[n:]
			n = min(size, len(answered))
			said.write(Piece{At: time.Unix(1, 0), Answer: true, Bytes: answered[:n]})
			answered = answered[n:]
		}
		said.end()
		l := &Listener{Decode: new(Descriptors).Decode, Emit: func(*trace.Call) {}}
		l.Hear(Conversation{"c", "t", said})
	})
}

// BenchmarkUnary shows what recording adds to a call, with the collector set as
// the command sets it: to calls one after the other as fast as they go, where
// client, server, proxy and writer want every core, and to a thousand a second.
func BenchmarkUnary(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	target := serve(b)
	recorded := startRecording(b, target, whole)
	for _, pace := range []struct {
		name  string
		pause time.Duration
	}{{"1000asecond", time.Millisecond}, {"flatout", 0}} {
		for _, way := range []struct{ name, address string }{{"direct", target}, {"recorded", recorded.address}} {
			b.Run(pace.name+"/"+way.name, func(b *testing.B) { benchmarkUnary(b, way.address, pace.pause) })
		}
	}
}

func benchmarkUnary(b *testing.B, address string, pause time.Duration) {
	client := testgrpc.NewTestServiceClient(dial(b, address))
	request := &testgrpc.SimpleRequest{ResponseSize: 200, Payload: &testgrpc.Payload{Body: make([]byte, 200)}}
	if _, err := client.UnaryCall(b.Context(), request); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := client.UnaryCall(b.Context(), request); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		time.Sleep(pause - time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}
