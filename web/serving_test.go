package web_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"gleaner/web"
)

// A gleaner that is stopped while it starts leaves no socket behind, and removes
// none later, when it may be that of the next gleaner.
func TestStoppedEarlyLeavesNoSocket(t *testing.T) {
	for name, early := range map[string]func(chan struct{}){
		"before it is ready":    func(chan struct{}) {},
		"when it becomes ready": func(ready chan struct{}) { close(ready) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "socket")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			ready := make(chan struct{})
			s := &web.Serving{Ready: ready, Log: slog.New(slog.DiscardHandler)}
			s.Add(&http.Server{}, l, path)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			early(ready)
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket is still there: %v", err)
			}
		})
	}
}
