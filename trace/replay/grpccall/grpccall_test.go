package grpccall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/record"
	"gleaner/trace/replay"
)

// serve starts a real gRPC server with reflection and gives its address.
func serve(t *testing.T) string {
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

func open(t *testing.T, address string) (replay.Executor, error) {
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), at)
}

func leaf(path string, kind trace.Kind, value string) trace.Leaf {
	return trace.Leaf{Path: path, Kind: kind, Value: value}
}

// TestConversation: unary calls, refusals and streams, over an own and over
// shared connections, answer as the recorder would have written it.
func TestConversation(t *testing.T) {
	const service = "grpc.testing.TestService/"
	for _, shared := range []bool{false, true} {
		e, err := open(t, "grpc://"+serve(t)+"?sender=who")
		if err != nil {
			t.Fatal(err)
		}
		if shared {
			e = e.(replay.Sharer).Share(1)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, err := e.Dial(ctx, replay.Identity{Sender: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, step := range []struct {
			method string
			ask    []trace.Leaf
			want   string
		}{
			{"EmptyCall", nil, "OK [] "},
			{"UnaryCall", []trace.Leaf{leaf("response_size", trace.Int, "3"), leaf("payload.body", trace.String, "base64:AAE=")}, "OK [{payload.body string base64:AAAA}] "},
			{"UnaryCall", []trace.Leaf{leaf("response_status.code", trace.Int, "5"), leaf("response_status.message", trace.String, "no such file")}, "NotFound [] no such file"},
			{"FullDuplexCall", []trace.Leaf{leaf("response_parameters[0].size", trace.Int, "1"), leaf("response_parameters[1].size", trace.Int, "2")}, " [{payload.body string base64:AA==}] "},
			{"FullDuplexCall#push", nil, " [{payload.body string base64:AAA=}] "},
			{"FullDuplexCall", []trace.Leaf{leaf("response_parameters[0].size", trace.Int, "4")}, " [{payload.body string base64:AAAAAA==}] "},
			{"StreamingOutputCall", []trace.Leaf{leaf("response_parameters[0].size", trace.Int, "1")}, " [{payload.body string base64:AA==}] "},
			{"StreamingOutputCall", []trace.Leaf{leaf("response_parameters[0].size", trace.Int, "2")}, " [{payload.body string base64:AAA=}] "},
		} {
			got, err := c.Call(ctx, &trace.Call{Method: service + step.method, Request: step.ask})
			if err != nil {
				t.Fatalf("%s: %v", step.method, err)
			}
			got.Read()
			if text := fmt.Sprint(got.Status, " ", got.Leaves, " ", got.Message); text != step.want {
				t.Errorf("shared %v: %s(%v) answers %q, not %q", shared, step.method, step.ask, text, step.want)
			}
		}
		_, err = c.Call(ctx, &trace.Call{Method: service + "UnaryCall", Request: []trace.Leaf{leaf("nonsense", trace.Int, "5")}})
		if !errors.Is(err, replay.ErrUnsendable) || !strings.Contains(err.Error(), `the message grpc.testing.SimpleRequest has no field "nonsense"`) {
			t.Errorf("shared %v: arguments that do not fit: %v", shared, err)
		}
	}
}

// TestMessagesThereAndBack: a message that is made of leaves has the same leaves.
func TestMessagesThereAndBack(t *testing.T) {
	m := (&descriptorpb.FileDescriptorProto{}).ProtoReflect().Descriptor()
	want := []trace.Leaf{leaf("name", trace.String, "a.proto"), leaf("dependency[0]", trace.String, "b"), leaf("dependency[1]", trace.String, "c"),
		leaf("message_type[0].name", trace.String, "M"), leaf("message_type[0].field[0].number", trace.Int, "7"), leaf("message_type[0].field[0].type", trace.String, "TYPE_INT32"),
		leaf("message_type[1]{}", trace.Bool, "true"), leaf("options.deprecated", trace.Bool, "true"), leaf("public_dependency[0]", trace.Int, "1")}
	got, err := record.Message(m, want)
	if err != nil {
		t.Fatal(err)
	}
	again := record.Leaves(got)
	for _, l := range want {
		if v, ok := trace.Get(again, l.Path); !ok || v != l.Value {
			t.Errorf("%s is %q, not %q", l.Path, v, l.Value)
		}
	}
	if len(again) != len(want) {
		t.Errorf("%v", again)
	}
}

// TestBadTargets: each error is one line that names the fault.
func TestBadTargets(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "220 mail.example.org ready\r\n")
			c.Close()
		}
	}()
	empty := filepath.Join(t.TempDir(), "empty.protoset")
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(descriptorpb.File_google_protobuf_descriptor_proto)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(empty, set, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		address, want string
	}{
		{"grpc://127.0.0.1:1", "127.0.0.1:1 cannot be reached by gRPC: "},
		{"grpc://" + silent.Addr().String(), "cannot be reached by gRPC: "},
	} {
		_, err := open(t, tc.address)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", tc.address, err)
		}
	}
	e, err := open(t, "grpc://"+serve(t)+"?descriptors="+empty)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.(replay.Checker).Check("etcd.KV/Put"); err == nil || !input.Is(err) || !strings.Contains(err.Error(), "the program calls etcd.KV/Put, which these descriptors lack") {
		t.Error(err)
	}
}
