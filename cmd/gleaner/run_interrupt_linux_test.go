package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Ctrl-C while a job is being submitted neither loses the job's number nor leaves a
// followed job running.
func TestInterruptedWhileSubmitting(t *testing.T) {
	for name, tc := range map[string]struct {
		flag, stdout, stderr string
		code                 int
		cancelled            bool
	}{
		"followed":  {"--follow", "", "job-7 is cancelled\ngleaner: stopped\n", exitStopped, true},
		"awaited":   {"--wait", "", "job-7 (true) is submitted; waiting for it\njob-7 goes on; see 'gleaner jobs job-7'\ngleaner: stopped\n", exitStopped, false},
		"submitted": {"--follow=false", "job-7 (true)\n", "", exitOK, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			dir, asked := slowServer(t, interrupt)
			var stdout, stderr bytes.Buffer
			code := run(ctx, []string{"run", "--data", dir, tc.flag, "--", "true"}, strings.NewReader(""), &stdout, &stderr)
			if code != tc.code || stdout.String() != tc.stdout || stderr.String() != tc.stderr {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
			}
			if cancelled := strings.Contains(asked(), "POST /api/v1/jobs/7/cancel\n"); cancelled != tc.cancelled {
				t.Errorf("it was asked %q", asked())
			}
		})
	}
}

// slowServer answers as a gleaner that is up and takes its time to say that it has
// accepted or cancelled a job. It calls interrupt before the first. asked are the
// requests so far.
func slowServer(t *testing.T, interrupt func()) (dir string, asked func() string) {
	dir = t.TempDir()
	path := socketPath(dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	address, release, err := socketAddress(path)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	l, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log strings.Builder
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		log.WriteString(r.Method + " " + r.URL.Path + "\n")
		cancelled := strings.Contains(log.String(), "/cancel\n")
		mu.Unlock()
		if r.URL.Path == "/api/v1/jobs" {
			interrupt()
		}
		if r.Method == http.MethodPost {
			time.Sleep(200 * time.Millisecond)
		}
		if cancelled {
			_, _ = io.WriteString(w, `{"id": 7, "name": "true", "state": "cancelled", "ended": "2026-01-01T00:00:00Z"}`)
			return
		}
		_, _ = io.WriteString(w, `{"id": 7, "name": "true"}`)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return dir, func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
}

// Ctrl-C ends a run that waits for its input.
func TestInterruptedWhileReading(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"a job from standard input": {"-"},
		"a job from a pipe":         {fifo},
		"items from standard input": {"--each", "-", "--", "true"},
		"items from a pipe":         {"--each", fifo, "--", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			stdin, writer := io.Pipe()
			defer writer.Close()
			time.AfterFunc(100*time.Millisecond, interrupt)
			var stdout, stderr bytes.Buffer
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, append([]string{"run", "--data", t.TempDir()}, args...), stdin, &stdout, &stderr)
			}()
			select {
			case code := <-ended:
				if code != exitStopped || stderr.String() != "gleaner: stopped\n" {
					t.Errorf("exit code %d, stderr %q", code, stderr.String())
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it goes on reading")
			}
		})
	}
}
