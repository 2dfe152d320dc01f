package search

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A Service is a search service in a process of its own.
type Service struct {
	URL string
	Pid int

	cmd   *exec.Cmd
	alive io.Closer // its stdin: the service ends when that does
}

// Start starts this program again as a service to the index in dir: with the
// arguments "lab", "search" and the directory it must call Serve.
func Start(ctx context.Context, dir string) (*Service, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "lab", "search", dir)
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	s := &Service{Pid: cmd.Process.Pid, cmd: cmd, alive: alive}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("search: the service did not start: %w", errors.Join(err, s.Stop()))
	}
	s.URL = strings.TrimSpace(line)
	return s, nil
}

// Stop ends the service.
func (s *Service) Stop() error { return errors.Join(s.alive.Close(), s.cmd.Wait()) }
