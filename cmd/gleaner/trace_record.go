package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/record"
)

type recordFlags struct {
	listen, target, out, descriptors, sender, run string
	raw                                           bool
	scale                                         int
}

func newTraceRecord() *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record --target ADDRESS",
		Short: "Record the calls of gRPC clients to a server, as a proxy between them",
		Long: `Record listens where the clients connect and passes every byte on to the target,
unchanged. The traffic is decoded and written as the common record, one call a
line. The target needs no change: its messages are learned by server reflection,
or from a descriptor file ('protoc --include_imports --descriptor_set_out FILE').

Recording never delays the traffic. If the recording of a connection falls behind or
fails, the connection goes on, and is counted. Stop with Ctrl-C.`,
		Example: `  # Clients that used to talk to 127.0.0.1:2379 are pointed to 127.0.0.1:7071:
  gleaner trace record --target 127.0.0.1:2379 --out n003.jsonl --scale 3

  # A server without reflection, and clients that name themselves in metadata:
  gleaner trace record --target 127.0.0.1:2379 --descriptors etcd.protoset --sender node-name`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRecord(cmd, f) },
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7071", "where the clients connect")
	cmd.Flags().StringVar(&f.target, "target", "", "the server, as host:port")
	cmd.Flags().StringVar(&f.out, "out", "recording.jsonl", "the trace to write, .gz or .zst to compress")
	cmd.Flags().StringVar(&f.descriptors, "descriptors", "", "a file with the server's descriptors, instead of reflection")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "do without descriptors and keep messages as bytes")
	cmd.Flags().StringVar(&f.sender, "sender", "", "the metadata key that names the sender (default: a sender is a connection)")
	cmd.Flags().StringVar(&f.run, "run", "", "name of this run in the records")
	cmd.Flags().IntVar(&f.scale, "scale", 0, "scale of this run in the records")
	return cmd
}

func runRecord(cmd *cobra.Command, f recordFlags) error {
	if f.target == "" {
		return input.Errorf("--target", "name the server to pass the calls on to, as host:port")
	}
	if _, _, err := net.SplitHostPort(f.target); err != nil {
		return input.Errorf("--target", "%q is not an address and a port", f.target)
	}
	if f.scale < 0 {
		return input.Errorf("--scale", "must be positive, got %d", f.scale)
	}
	// A recording holds little memory, and soon frees it. Collecting garbage less
	// often shortens the slowest of the calls that pass through.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	ctx := cmd.Context()
	known, err := learnMessages(ctx, f)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return input.Errorf("--listen", "%v", err)
	}
	defer l.Close()
	to, err := createTrace(cmd, "--out", f.out)
	if err != nil {
		return err
	}
	tape := newScribe(to)
	listener := &record.Listener{Decode: known.Decode, Emit: tape.take, Sender: f.sender, Run: f.run, Scale: f.scale}
	proxy := &record.Proxy{Hear: listener.Hear, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", f.target)
	}}
	fmt.Fprintf(cmd.ErrOrStderr(), "recording %s on %s into %s (%d methods known); Ctrl-C stops\n", f.target, l.Addr(), f.out, known.Methods())
	err = errors.Join(proxy.Serve(ctx, l), tape.close())
	return errors.Join(err, reportRecording(cmd, proxy, listener, tape))
}

// learnMessages finds out how to decode the target's messages.
func learnMessages(ctx context.Context, f recordFlags) (*record.Descriptors, error) {
	if f.raw {
		return new(record.Descriptors), nil
	}
	if f.descriptors != "" {
		set, err := os.ReadFile(f.descriptors)
		if err != nil {
			return nil, input.Errorf("--descriptors", "%v", err)
		}
		known, err := record.ReadDescriptors(set)
		if err != nil {
			return nil, input.Errorf(f.descriptors, "%v", err)
		}
		if known.Methods() == 0 {
			return nil, input.Errorf(f.descriptors, "describes no method; give --raw to do without")
		}
		return known, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+f.target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, input.Errorf("--target", "%v", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	known, err := record.AskDescriptors(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("%s does not describe its messages (%w); give --descriptors FILE, or --raw to do without", f.target, err)
	}
	return known, nil
}

func reportRecording(cmd *cobra.Command, p *record.Proxy, l *record.Listener, s *scribe) error {
	if wantJSON(cmd) {
		return printJSON(cmd, map[string]int64{"calls": s.calls, "connections": p.Connections.Load(), "lost": p.Lost.Load(),
			"undecoded": l.Undecoded.Load(), "refused": p.Refused.Load()})
	}
	t := newTable("", ">")
	t.row("calls recorded", fmt.Sprint(s.calls))
	t.row("connections", fmt.Sprint(p.Connections.Load()))
	t.row("whose recording fell behind or failed", fmt.Sprint(p.Lost.Load()))
	t.row("that were not gRPC in the clear", fmt.Sprint(l.Undecoded.Load()))
	t.row("that the target did not take", fmt.Sprint(p.Refused.Load()))
	return t.print(cmd.OutOrStdout())
}

// A scribe writes calls to a file and keeps the first error; later calls are lost,
// and the traffic goes on.
type scribe struct {
	mu    sync.Mutex
	to    io.WriteCloser
	w     *trace.Writer
	calls int64
	err   error
}

func newScribe(to io.WriteCloser) *scribe { return &scribe{to: to, w: trace.NewWriter(to)} }

func (s *scribe) take(c *trace.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if s.err = s.w.Write(c); s.err == nil {
		s.calls++
	}
}

func (s *scribe) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.err, s.w.Flush(), s.to.Close())
}
