package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/input"
	"gleaner/web"
)

// socketPath is where a gleaner that is up answers.
func socketPath(dir string) string { return filepath.Join(dir, "local", "gleaner.sock") }

// longestSocket is how long the name of a socket may be on every system.
const longestSocket = 100

// socketAddress returns an address for a socket that is short enough, however
// long the path of the data directory is. It is valid until release is called.
func socketAddress(path string) (address string, release func(), err error) {
	if len(path) <= longestSocket {
		return path, func() {}, nil
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), filepath.Base(path)), func() { d.Close() }, nil
}

// A client sends requests to the gleaner that is up with a data directory.
type client struct {
	dir  string
	http http.Client
}

func newClient(cmd *cobra.Command) (*client, error) {
	dir, err := dataDir(cmd)
	if err != nil {
		return nil, err
	}
	path := socketPath(dir)
	if given, _ := cmd.Flags().GetString("data"); given == "" && !exists(path) {
		if users := usersSocket(cmp.Or(os.Getenv("GLEANER_USERS"), usersDir)); exists(users) {
			path = users // a gleaner of root, who lets everyone in
		}
	}
	return &client{dir, http.Client{Transport: throughSocket(path)}}, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// usersDir is where root's gleaner has a socket for all users, unless it is told otherwise.
const usersDir = "/var/spool/gleaner"

// usersSocket is that socket.
func usersSocket(dir string) string { return filepath.Join(dir, "gleaner.sock") }

// throughSocket sends requests to who listens on a socket, if that is a trusted user.
func throughSocket(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		address, release, err := socketAddress(path)
		if err != nil {
			return nil, err
		}
		defer release()
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
		if err != nil {
			return nil, err
		}
		if err := trustPeer(conn); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}}
}

// ask sends a request and reads the answer into v.
func (c *client) ask(ctx context.Context, method, path string, body []byte, v any) error {
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(v); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// send sends a request; an answer with a problem is an error.
func (c *client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://gleaner/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/yaml")
	response, err := c.http.Do(request)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var untrusted *input.Error
	if errors.As(err, &untrusted) {
		return nil, untrusted
	}
	var dial *net.OpError
	if errors.As(err, &dial) || errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no gleaner is up with %s; start one with 'gleaner up%s'", c.dir, c.dataHint())
	}
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	var p web.Problem
	if json.Unmarshal(text, &p) != nil || p.Error == "" {
		return nil, fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if response.StatusCode < 500 {
		return nil, input.Errorf("", "%s", p.Error)
	}
	return nil, errors.New(p.Error)
}

func (c *client) dataHint() string {
	if own, err := dataDir(&cobra.Command{}); err == nil && own == c.dir {
		return ""
	}
	return " --data " + c.dir
}

// job finds a job by its number, as 7 or job-7, or the last one of a name.
func (c *client) job(ctx context.Context, text string) (board.Job, error) {
	if id, err := strconv.ParseInt(strings.TrimPrefix(text, "job-"), 10, 64); err == nil {
		var j board.Job
		return j, c.ask(ctx, http.MethodGet, fmt.Sprintf("jobs/%d", id), nil, &j)
	}
	var all []board.Job
	if err := c.ask(ctx, http.MethodGet, "jobs", nil, &all); err != nil {
		return board.Job{}, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Name == text {
			return all[i], nil
		}
	}
	return board.Job{}, input.Errorf("", "no job is called %q; see 'gleaner jobs'", text)
}

// An absence is a time in which gleaner does not answer.
type absence struct{ since time.Time }

// longestAbsence is how long to wait for a gleaner that is being restarted: it
// reads every run of its jobs first.
const longestAbsence = 2 * time.Minute

// retry waits a little after an error and reports whether to ask again: not after
// a mistake or an interrupt of the user.
func (a *absence) retry(ctx context.Context, err error) bool {
	if a.since.IsZero() {
		a.since = time.Now()
	}
	return !input.Is(err) && time.Since(a.since) < longestAbsence && pause(ctx)
}

// pause waits a little; false if it is interrupted.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(200 * time.Millisecond):
		return true
	}
}

// oneArg requires exactly one argument, called what.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return input.Errorf("", "'%s' takes one %s; see --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

func cores(r cluster.Resources) string {
	return fmt.Sprintf("%.2f", float64(r.CPU)/float64(cluster.Core))
}
