package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// A gleaner that is stopped while it comes up leaves no socket behind, nor one
// that goes away later, when the next may have put its own there.
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
			s := newServing(ready, slog.New(slog.DiscardHandler), make(chan error, 1))
			s.start(&http.Server{}, l, path)
			early(ready)
			s.close()
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket is still there: %v", err)
			}
		})
	}
}
