package main

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// A session of 'gleaner trace record' in front of a real server: started,
// used, stopped as by Ctrl-C, and the trace read back by 'gleaner trace show'.
func TestTraceRecord(t *testing.T) {
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Stop()

	front := freeAddress(t)
	out := filepath.Join(t.TempDir(), "n003.jsonl.gz")
	ctx, stop := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"trace", "record", "--listen", front, "--target", l.Addr().String(), "--out", out, "--sender", "who"}, nil, &stdout, &stderr)
	}()

	conn, err := grpc.NewClient(front, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	patient, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		if _, err := healthpb.NewHealthClient(conn).Check(patient, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if got := <-code; got != exitOK {
		t.Fatalf("exit code %d: %s", got, stderr.String())
	}
	if !strings.Contains(stdout.String(), "calls recorded") || !strings.Contains(stdout.String(), "3") {
		t.Errorf("report:\n%s", stdout.String())
	}
	stdout.Reset()
	got := run(t.Context(), []string{"trace", "convert", out}, nil, &stdout, &stderr)
	if recorded := stdout.String(); got != exitOK || strings.Count(recorded, `"method":"grpc.health.v1.Health/Check"`) != 3 || !strings.Contains(recorded, `"status":"SERVING"`) {
		t.Errorf("recorded (%d):\n%s%s", got, recorded, stderr.String())
	}
	stdout.Reset()
	if got := run(t.Context(), []string{"trace", "show", out}, nil, &stdout, &stderr); got != exitOK || !strings.Contains(stdout.String(), "Health/Check") {
		t.Errorf("trace show: exit code %d\n%s%s", got, stdout.String(), stderr.String())
	}
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
