package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Process is an engine that runs.
type Process struct {
	Name string
	Data string // the folder of all its data
	Log  string // the file it writes its log to

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; set before done is closed
}

// ErrInUse is the error of starting an engine on the data of one that runs.
var ErrInUse = errors.New("the folder is in use")

// openLog opens an engine's log, anew. It is locked for as long as a process of the engine has it open, also if who
// started the engine is gone.
func openLog(name string) (*os.File, error) {
	log, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(log.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: a process that runs writes %s", ErrInUse, name)
	}
	if err == nil {
		err = log.Truncate(0)
	}
	if err != nil {
		log.Close()
		return nil, err
	}
	return log, nil
}

// Start starts an engine with its data in a folder, and waits until ready succeeds.
func Start(ctx context.Context, name, data string, cmd *exec.Cmd, ready func(context.Context) error) (*Process, error) {
	p := &Process{Name: name, Data: data, Log: filepath.Join(data, name+".log"), cmd: cmd}
	log, err := openLog(p.Log)
	if err != nil {
		return nil, fmt.Errorf("engine: %s: %w", p.Name, err)
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("engine: start %s: %w", p.Name, err)
	}
	p.done = make(chan struct{})
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := p.await(ctx, ready); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// patience is how long an engine may take to start; on a busy machine Java is slow.
const patience = 3 * time.Minute

// await waits until the engine serves, ends, or takes too long.
func (p *Process) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not in %v", patience))
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("engine: %s ended before it served (%w); its log %s ends with\n%s", p.Name, p.err, p.Log, tail(p.Log, 3))
		case <-ctx.Done():
			return fmt.Errorf("engine: %s does not serve: %w (%w)", p.Name, context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended, by itself or not.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the process: with SIGTERM, and if that does not help with SIGKILL.
func (p *Process) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.Finish(ctx) // it is gone either way
}

// Finish ends the process with SIGTERM and waits until it is gone. If ctx ends before, it ends it with SIGKILL and returns an error.
func (p *Process) Finish(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.Kill()
	return ctx.Err()
}

// Kill ends the process with SIGKILL, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// Failure says how an engine ended that was not stopped.
func (p *Process) Failure() error {
	return fmt.Errorf("engine: %s ended by itself (%v); its log %s ends with\n%s", p.Name, p.err, p.Log, tail(p.Log, 3))
}

// tail is the last lines of a file.
func tail(file string, lines int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// FreeAddress is a free address of this machine to listen on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("engine: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
