package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"gleaner/trace/replay"
)

// Watched counts what the nodes of an executor watch.
type Watched struct {
	Open     int64 // watches that are open now
	Opened   int64 // that nodes have opened
	Reopened int64 // that were opened again after the server had ended them
	Events   int64 // that came
}

type watches struct{ open, opened, reopened, events atomic.Int64 }

// Watched says what the nodes watch.
func (e *executor) Watched() Watched {
	w := e.watches
	return Watched{w.open.Load(), w.opened.Load(), w.reopened.Load(), w.events.Load()}
}

// watch opens a watch, and reads and drops its events until the node is done. Its reply is
// that it is open.
func (c *conn) watch(ctx context.Context, path string, query url.Values) (replay.Reply, error) {
	life, end := context.WithCancel(c.life)
	stop := context.AfterFunc(ctx, end) // until it is open
	resp, err := c.open(life, withQuery(path, query))
	if err == nil && !stop() {
		resp.Body.Close()
		err = ctx.Err()
	}
	if err != nil {
		end()
		return replay.Reply{}, cmp.Or(ctx.Err(), err)
	}
	if resp.StatusCode != http.StatusOK {
		defer end()
		defer resp.Body.Close()
		return answer(resp)
	}
	c.e.watches.opened.Add(1)
	c.watched.Go(func() {
		defer end()
		c.follow(life, resp.Body, path, fromNow(query))
	})
	return replay.Reply{Status: strconv.Itoa(resp.StatusCode)}, nil
}

func (c *conn) open(ctx context.Context, address string) (*http.Response, error) {
	req, err := c.e.request(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", replay.ErrUnsendable, err)
	}
	c.sign(req)
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, plainly(err)
	}
	return resp, nil
}

// fromNow is the query of a watch that is opened again: what happened before is not asked
// for, because nobody keeps it.
func fromNow(query url.Values) url.Values {
	out := url.Values{}
	for key, values := range query {
		switch key {
		case "resourceVersion", "resourceVersionMatch", "sendInitialEvents":
		default:
			out[key] = values
		}
	}
	return out
}

// follow reads a watch, and opens it again when the server ends it.
func (c *conn) follow(life context.Context, body io.ReadCloser, path string, query url.Values) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		if body != nil {
			c.read(body)
			wait = firstWait
		}
		select {
		case <-life.Done():
			return
		case <-time.After(wait):
		}
		resp, err := c.open(life, withQuery(path, query))
		body = nil
		switch {
		case err != nil:
		case resp.StatusCode != http.StatusOK:
			resp.Body.Close()
		default:
			c.e.watches.reopened.Add(1)
			body = resp.Body
		}
	}
}

// How long a watch that has ended waits before it is opened again, as client-go waits.
const (
	firstWait = 800 * time.Millisecond
	lastWait  = 30 * time.Second
)

// read counts the events of a watch, one a line, until it ends. Thousands are read at once,
// so each has a small buffer.
func (c *conn) read(body io.ReadCloser) {
	defer body.Close()
	w := c.e.watches
	w.open.Add(1)
	defer w.open.Add(-1)
	var buffer [512]byte
	for {
		n, err := body.Read(buffer[:])
		w.events.Add(int64(bytes.Count(buffer[:n], []byte{'\n'})))
		if err != nil {
			return
		}
	}
}
