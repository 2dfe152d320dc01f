package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/web"
)

// A diskClient asks the process that has the front of a data directory open. If there is none, this one opens it
// for as long as it takes.
type diskClient struct {
	cmd   *cobra.Command
	dir   string
	at    place // of the metadata
	named bool  // by --store: no other will do
	must  bool  // there must be disks
	http  http.Client
}

func newDiskClient(cmd *cobra.Command) (*diskClient, error) {
	dir, err := dataDir(cmd)
	if err != nil {
		return nil, err
	}
	at, err := metadata(cmd)
	if err == nil && at.flag == "--data" {
		at, err = at.remembered(dir)
	}
	if err != nil {
		return nil, err
	}
	return &diskClient{cmd: cmd, dir: dir, at: at, named: at.flag == "--store", http: http.Client{Transport: throughSocket(frontSocket(dir))}}, nil
}

// errNobody says that nobody has the front open, or somebody who did not read the order.
var errNobody = errors.New("nobody has the disks open")

// A leavingError says that who has the front open will not have it for long.
type leavingError struct{ error }

// send sends an order, with a body of that size or none. An answer that tells a problem is an error.
func (c *diskClient) send(what string, o web.DiskOrder, body io.Reader, size int64) (*http.Response, error) {
	var begun atomic.Bool // who was asked has read the order
	ctx := httptrace.WithClientTrace(c.cmd.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		begun.Store(true)
		return nil
	}})
	if c.named {
		o.Store = c.at.id()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gleaner/api/v1/disks/"+what+"?"+o.Query(), body)
	if err != nil {
		return nil, err
	}
	request.ContentLength = size
	response, err := c.http.Do(request)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var untrusted *input.Error
	if errors.As(err, &untrusted) {
		return nil, untrusted
	}
	if err != nil && !begun.Load() { // there is nobody, or one who has just left
		return nil, errNobody
	}
	if err != nil {
		return nil, fmt.Errorf("disk %s was cut off: %w", what, errors.Unwrap(err)) // without the address that Do names
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	var p web.Problem
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<16)).Decode(&p); err != nil {
		return nil, fmt.Errorf("disk %s: %s", what, response.Status)
	}
	return nil, diskProblem(response.StatusCode, p)
}

func diskProblem(code int, p web.Problem) error {
	switch {
	case code == http.StatusServiceUnavailable:
		return leavingError{errors.New(p.Error)}
	case code >= 500:
		return errors.New(p.Error)
	}
	return badArgument(p)
}

// badArgument says which flag or argument is wrong. Names and sizes are arguments, and the problem names them.
func badArgument(p web.Problem) error {
	switch p.Field {
	case "replicas", "level", "shards", "store":
		return input.Errorf("--"+p.Field, "%s", p.Error)
	}
	return input.Errorf("", "%s", p.Error)
}

// ask sends an order and reads the answer into v. There must be disks.
func (c *diskClient) ask(what string, o web.DiskOrder, v any) error {
	if err := c.expectDisks(); err != nil {
		return err
	}
	return c.do(func() error { return c.order(what, o, v) })
}

func (c *diskClient) order(what string, o web.DiskOrder, v any) error {
	response, err := c.send(what, o, nil, 0)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(v); err != nil {
		return fmt.Errorf("read the answer to disk %s: %w", what, err)
	}
	return nil
}

// expectDisks refuses a data directory that has no disks, so that nothing is made there by who only looks.
func (c *diskClient) expectDisks() error {
	c.must = true
	if c.at.remote() {
		return nil // the store knows
	}
	if conn, err := throughSocket(frontSocket(c.dir)).DialContext(c.cmd.Context(), "", ""); err == nil {
		return conn.Close() // who serves them knows
	}
	if _, err := os.Stat(filepath.Join(fabricDir(c.dir), "cluster.json")); errors.Is(err, fs.ErrNotExist) {
		return input.Errorf("--data", "there are no disks in %s yet; see 'gleaner disk create --help'", c.dir)
	}
	return nil
}

// toOpen is how long a data directory that another process holds is waited for: commands come and go.
const toOpen = 10 * time.Second

// do asks the process that has the front open, or opens it here meanwhile.
func (c *diskClient) do(ask func() error) error {
	return c.either(ask, func(store kv.Store) error {
		h, err := c.host(store, false, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		return h.during(ask, func() {
			fmt.Fprintln(c.cmd.ErrOrStderr(), "gleaner: done; waiting for another command that uses the disks through this one")
		})
	})
}

// either asks, or hosts if there is nobody to ask.
func (c *diskClient) either(ask func() error, host func(kv.Store) error) error {
	for since := time.Now(); ; {
		err := ask()
		if errors.Is(err, errNobody) {
			err = c.withStore(host)
		}
		if again := errors.Is(err, kv.ErrHeld) || errors.As(err, new(leavingError)); !again || time.Since(since) > toOpen {
			return err
		}
		if !pause(c.cmd.Context()) {
			return c.cmd.Context().Err()
		}
	}
}

func (c *diskClient) withStore(do func(kv.Store) error) (err error) {
	store, err := c.at.open(c.cmd, c.must)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return do(store)
}

// host opens the front here.
func (c *diskClient) host(store kv.Store, stays bool, log *slog.Logger) (*frontHost, error) {
	dir, err := trustData(c.dir)
	if err != nil {
		return nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return openFront(c.cmd.Context(), hostOptions{dir: dir, server: name, store: store, place: c.at.id(), shared: c.at.remote(), stays: stays, log: log})
}

// disksOffered are the vDisks and snapshots of the gleaner that is up, for a shell.
func disksOffered(cmd *cobra.Command) (words []string) {
	c, err := newDiskClient(cmd)
	if err != nil {
		return nil
	}
	c.http.Timeout = completedWithin
	var all []fabric.Info
	if c.order("list", web.DiskOrder{}, &all) != nil {
		return nil
	}
	for _, info := range all {
		words = append(words, fmt.Sprintf("%s\t%s of %s", info.Name, kindOf(info), cluster.Bytes(info.Size).Text()))
	}
	return words
}
