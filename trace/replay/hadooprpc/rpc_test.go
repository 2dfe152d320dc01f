package hadooprpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"gleaner/trace"
	"gleaner/trace/replay"
)

// toy is a descriptor set with one protocol, whose method echo takes a field of
// every kind that matters and gives it back.
func toy(t testing.TB) *Schema {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, label descriptorpb.FieldDescriptorProto_Label, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: &label}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	const optional, required, repeated = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REQUIRED,
		descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("toy.proto"), Package: proto.String("hadoop.hdfs.datanode"),
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("State"), Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: proto.String("NORMAL"), Number: proto.Int32(0)}, {Name: proto.String("FAILED"), Number: proto.Int32(1)}}}},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Empty")},
			{Name: proto.String("Inner"), Field: []*descriptorpb.FieldDescriptorProto{
				field("id", 1, descriptorpb.FieldDescriptorProto_TYPE_UINT32, optional, ""),
				field("words", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING, repeated, "")}},
			{Name: proto.String("Echo"), Field: []*descriptorpb.FieldDescriptorProto{
				field("flag", 1, descriptorpb.FieldDescriptorProto_TYPE_BOOL, optional, ""),
				field("small", 2, descriptorpb.FieldDescriptorProto_TYPE_SINT32, optional, ""),
				field("large", 3, descriptorpb.FieldDescriptorProto_TYPE_UINT64, optional, ""),
				field("raw", 4, descriptorpb.FieldDescriptorProto_TYPE_BYTES, optional, ""),
				field("load", 5, descriptorpb.FieldDescriptorProto_TYPE_FLOAT, optional, ""),
				field("state", 6, descriptorpb.FieldDescriptorProto_TYPE_ENUM, optional, ".hadoop.hdfs.datanode.State"),
				field("inner", 7, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, repeated, ".hadoop.hdfs.datanode.Inner"),
				field("must", 8, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, required, ".hadoop.hdfs.datanode.Empty")}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("DatanodeProtocolService"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("echo"), InputType: proto.String(".hadoop.hdfs.datanode.Echo"), OutputType: proto.String(".hadoop.hdfs.datanode.Echo")}}}},
	}
	s, err := NewSchema(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var everyKind = []trace.Leaf{
	{Path: "flag", Kind: trace.Bool, Value: "true"},
	{Path: "small", Kind: trace.Int, Value: "-57"},
	{Path: "large", Kind: trace.Int, Value: "18446744073709551615"},
	{Path: "raw", Kind: trace.String, Value: "base64:AAH/"},
	{Path: "load", Kind: trace.Float, Value: "1.9986697"},
	{Path: "state", Kind: trace.String, Value: "FAILED"},
	{Path: "inner[0].id", Kind: trace.Int, Value: "7"},
	{Path: "inner[1].words[0]", Kind: trace.String, Value: "a b"},
	{Path: "inner[1].words[1]", Kind: trace.String, Value: ""},
}

// serve runs a server and gives an executor that speaks to it.
func serve(t *testing.T, answer func(*trace.Call) replay.Reply) *Executor {
	t.Helper()
	schema := toy(t)
	s := &Server{Schema: schema, Answer: answer}
	l := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &Executor{Schema: schema, Address: l.Addr().String()}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, e *Executor, address string) replay.Conn {
	t.Helper()
	c, err := e.Dial(t.Context(), replay.Identity{Sender: "node-0", Address: address, Target: "namenode"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func echo(leaves ...trace.Leaf) *trace.Call {
	return &trace.Call{Method: "DatanodeProtocol.echo", Request: leaves}
}

func TestACallAndItsReply(t *testing.T) {
	var from string
	e := serve(t, func(c *trace.Call) replay.Reply {
		from = c.Address
		return replay.Reply{Leaves: c.Request}
	})
	got, err := dial(t, e, "127.0.1.5").Call(t.Context(), echo(everyKind...))
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != "200" || fmt.Sprint(got.Leaves) != fmt.Sprint(everyKind) {
		t.Errorf("%s %v\ninstead of\n%v", got.Status, got.Leaves, everyKind)
	}
	if !strings.HasPrefix(from, "127.0.1.5:") {
		t.Errorf("called from %s, not from the node's address", from)
	}
}

// TestAnIdleLinkEnds: a link that is used now and then stays open, an unused one is
// closed.
func TestAnIdleLinkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schema := toy(t)
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			(&Server{Schema: schema, Answer: func(*trace.Call) replay.Reply { return replay.Reply{} }}).session(there)
		}()
		m := schema.methods["DatanodeProtocol.echo"]
		l, err := open(t.Context(), here, "hadoop", m.protocol.java, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := l.call(t.Context(), m.header, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(9 * time.Second)
		}
		time.Sleep(2 * time.Second)
		if _, err := l.call(t.Context(), m.header, nil); !errors.Is(err, errIdle) {
			t.Errorf("after 11 s without a call: %v", err)
		}
	})
}

func TestARefusalIsAReply(t *testing.T) {
	e := serve(t, func(*trace.Call) replay.Reply { return replay.Reply{Status: "500", Message: "no room\nat Some.java"} })
	got, err := dial(t, e, "").Call(t.Context(), echo())
	if err != nil || got.Status != "500" || got.Message != "java.io.IOException: no room" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Many calls overlap on one connection; each gets its own reply.
func TestCallsOverlap(t *testing.T) {
	e := serve(t, func(c *trace.Call) replay.Reply { return replay.Reply{Leaves: c.Request} })
	c := dial(t, e, "")
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			want := fmt.Sprint(i)
			got, err := c.Call(t.Context(), echo(trace.Leaf{Path: "large", Kind: trace.Int, Value: want}))
			if v, _ := trace.Get(got.Leaves, "large"); err != nil || v != want {
				t.Errorf("call %d got %q, %v", i, v, err)
			}
		})
	}
	all.Wait()
}

// raw runs a server of bytes: it is given each connection once.
func raw(t *testing.T, speak func(net.Conn)) *Executor {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				speak(c)
			}()
		}
	}()
	return &Executor{Schema: toy(t), Address: l.Addr().String()}
}

func TestRepliesOutOfOrder(t *testing.T) {
	e := raw(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		r.Discard(7)
		var replies [][]byte
		for {
			buf, err := readFrame(r)
			if err != nil {
				return
			}
			var h requestHeader
			head, rest, _ := next(buf)
			h.parse(head)
			if h.call < 0 {
				continue
			}
			_, rest, _ = next(rest)
			request, _, _ := next(rest)
			replies = append(replies, frame(responseHeader{call: h.call}.append(nil), request))
			if len(replies) == 2 {
				c.Write(append(replies[1], replies[0]...))
			}
		}
	})
	c := dial(t, e, "")
	var both sync.WaitGroup
	for _, want := range []string{"1", "2"} {
		both.Go(func() {
			got, err := c.Call(t.Context(), echo(trace.Leaf{Path: "large", Kind: trace.Int, Value: want}))
			if v, _ := trace.Get(got.Leaves, "large"); err != nil || v != want {
				t.Errorf("asked %s, got %q, %v", want, v, err)
			}
		})
	}
	both.Wait()
}

// Every failure ends the call with an error that names it, and the next call has a new
// connection.
func TestNoReply(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		speak      func(net.Conn)
	}{
		{"cut", "EOF", func(c net.Conn) { io.ReadFull(c, make([]byte, 20)) }},
		{"another protocol", "does not speak Hadoop RPC", func(c net.Conn) {
			io.ReadFull(c, make([]byte, 7))
			io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			io.Copy(io.Discard, c)
		}},
		{"login refused", "SIMPLE authentication is not enabled", func(c net.Conn) {
			io.ReadFull(c, make([]byte, 7))
			c.Write(frame(responseHeader{call: -1, status: fatal, class: "AccessControlException", message: "SIMPLE authentication is not enabled."}.append(nil)))
			io.Copy(io.Discard, c)
		}},
		{"silence", "deadline exceeded", func(c net.Conn) { io.Copy(io.Discard, c) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := raw(t, tc.speak)
			patience := 10 * time.Second
			if tc.name == "silence" {
				patience = 50 * time.Millisecond
			}
			c := dial(t, e, "")
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := c.Call(ctx, echo())
				said := func(words string) bool { return strings.Contains(err.Error(), words) }
				if err == nil || !said(tc.want) && !said("reset") && !said("broken pipe") { // who is cut off may be writing still
					t.Errorf("%v does not say %q", err, tc.want)
				}
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	l := listen(t)
	l.Close()
	e := &Executor{Schema: toy(t), Address: l.Addr().String()}
	if _, err := dial(t, e, "").Call(t.Context(), echo()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a target that is not there: %v", err)
	}
	if err := e.probe(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a target that is not there: %v", err)
	}
}

func TestMessagesThatDoNotFit(t *testing.T) {
	c := dial(t, serve(t, func(*trace.Call) replay.Reply { return replay.Reply{} }), "")
	for path, want := range map[string]string{"nobody": "no field", "inner.id": "index", "inner[x].id": "index", "flag.deep": "stands where", "inner[0]": "stands where",
		"inner[99999999].id": "not an index"} {
		_, err := c.Call(t.Context(), echo(trace.Leaf{Path: path, Value: "1"}))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v does not say %q", path, err, want)
		}
	}
	for path, value := range map[string]string{"flag": "maybe", "small": "4294967296", "raw": "base64:!", "state": "TIRED", "load": "heavy"} {
		if _, err := c.Call(t.Context(), echo(trace.Leaf{Path: path, Value: value})); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(value, "base64:")) {
			t.Errorf("%s=%s: %v", path, value, err)
		}
	}
	if _, err := c.Call(t.Context(), &trace.Call{Method: "DatanodeProtocol.levitate"}); err == nil || !strings.Contains(err.Error(), `lack the method "DatanodeProtocol.levitate"`) {
		t.Errorf("an unknown method: %v", err)
	}
}

// The example of RFC 2831, section 4.
func TestDigest(t *testing.T) {
	d := digestMD5{user: "chris", password: "secret", uri: "imap/elwood.innosoft.com", cnonce: "OA6MHXh6VqTrRk"}
	if err := d.challenge(`realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8`); err != nil {
		t.Fatal(err)
	}
	if got := d.proof("AUTHENTICATE"); got != "d388dad90d4bbd760a152321f2143af7" {
		t.Errorf("the client's proof is %s", got)
	}
	if got := d.proof(""); got != "ea40f60335c427b5527b84dbabcdfffd" {
		t.Errorf("the server's proof is %s", got)
	}
	if err := d.challenge("realm=x"); err == nil {
		t.Error("a challenge without a nonce is taken")
	}
}

func TestWallet(t *testing.T) {
	var w Wallet
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := w.take(ctx, "a"); !errors.Is(err, errNoToken) {
		t.Errorf("an empty wallet: %v", err)
	}
	got := make(chan string)
	go func() {
		t, _ := w.take(context.Background(), "a")
		got <- t.Kind
	}()
	w.Put(Token{Kind: "first"})
	w.Put(Token{Kind: "second"})
	if kind := <-got; kind != "first" {
		t.Errorf("a got the %s", kind)
	}
	b, _ := w.take(t.Context(), "b")
	again, _ := w.take(t.Context(), "a")
	if b.Kind != "second" || again.Kind != "first" {
		t.Errorf("b got the %s, a later the %s", b.Kind, again.Kind)
	}
}

// What a Resource Manager sends along with an application master.
func TestCredentials(t *testing.T) {
	raw := "HDTS\x00\x01\x05alias\x02id\x02pw\x10YARN_AM_RM_TOKEN\x00\x00"
	got, err := credentials([]byte(raw))
	want := Token{Identifier: []byte("id"), Password: []byte("pw"), Kind: "YARN_AM_RM_TOKEN"}
	if err != nil || len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
	long := strings.Repeat("x", 300)
	got, err = credentials([]byte("HDTS\x00\x01\x00\x8e\x01\x2c" + long + "\x00\x00\x00\x00"))
	if err != nil || len(got) != 1 || string(got[0].Identifier) != long {
		t.Errorf("a long identifier: %d tokens, %v", len(got), err)
	}
	for _, bad := range []string{"", "HDTX\x00\x00", raw[:20], "HDTS\x00\x7f"} {
		if _, err := credentials([]byte(bad)); !errors.Is(err, errCredentials) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzCredentials(f *testing.F) {
	f.Add([]byte("HDTS\x00\x01\x05alias\x02id\x02pw\x04KIND\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tokens, err := credentials(data)
		if err == nil && len(tokens) > len(data) {
			t.Errorf("%d tokens out of %d bytes", len(tokens), len(data))
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(frame(requestHeader{call: 3, client: []byte("0123456789abcdef")}.append(nil), methodHeader{"echo", "p"}.append(nil), nil))
	f.Add(frame(responseHeader{call: 3, status: failed, class: "c", message: "m"}.append(nil)))
	f.Add(frame(saslMessage{state: saslNegotiate, token: []byte("t"), auths: []saslAuth{{method: "TOKEN"}}}.append(nil)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		buf, err := readFrame(bufio.NewReader(strings.NewReader(string(data))))
		for err == nil && len(buf) > 0 {
			var message []byte
			if message, buf, err = next(buf); err != nil {
				return
			}
			var request requestHeader
			var response responseHeader
			var named methodHeader
			var sasl saslMessage
			request.parse(message)
			response.parse(message)
			named.parse(message)
			sasl.parse(message)
			directive(string(message), "nonce")
		}
	})
}

// Leaves that are encoded and decoded make the same message again.
func FuzzMessage(f *testing.F) {
	for _, l := range everyKind {
		f.Add(l.Path, l.Value)
	}
	schema := toy(f)
	f.Fuzz(func(t *testing.T, path, value string) {
		const method = "DatanodeProtocol.echo"
		first, err := schema.Encode(method, false, []trace.Leaf{{Path: path, Kind: trace.String, Value: value}})
		if err != nil {
			return
		}
		leaves, err := schema.Decode(method, false, first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := schema.Encode(method, false, leaves)
		if err != nil {
			t.Fatalf("%v: %v", leaves, err)
		}
		again, err := schema.Decode(method, false, second)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(leaves) {
			t.Fatalf("%v became %v, %v", leaves, again, err)
		}
	})
}
