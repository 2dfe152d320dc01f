package search

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Load is queries, and when each is due.
type Load struct {
	At      []time.Duration // since the beginning, in order
	Queries []string
}

// tick is the step in which a rate changes.
const tick = 10 * time.Millisecond

// Follow draws a load from the corpus's queries whose rate, in queries a second,
// follows a curve. Queries come independently of each other (a Poisson process).
func Follow(rate func(at time.Duration) float64, length time.Duration, c Corpus, r *rand.Rand) Load {
	var l Load
	expected, next := 0.0, r.ExpFloat64()
	for at := time.Duration(0); at < length; at += tick {
		more := rate(at) * tick.Seconds()
		for ; next < expected+more; next += r.ExpFloat64() {
			l.At = append(l.At, at+time.Duration((next-expected)/more*float64(tick)))
		}
		expected += more
	}
	l.Queries = c.Queries(len(l.At), r)
	return l
}

// A Query is one that was sent.
type Query struct {
	At     time.Duration // when it was due
	Took   time.Duration // from then until it was answered
	Failed bool
}

// A Record is the queries of a load, in order.
type Record []Query

// patience is how long an answer is waited for.
const patience = 10 * time.Second

// client is a client that keeps all its connections open.
func client() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 10, DisableCompression: true}}
}

// Play sends the load to the service at address and waits for the answers. Each
// query is sent when it is due, whether earlier ones were answered or not.
func (l Load) Play(ctx context.Context, address string) (Record, error) {
	record := make(Record, len(l.At))
	c := client()
	defer c.CloseIdleConnections()
	var sent sync.WaitGroup
	defer sent.Wait()
	begun := time.Now()
	for i, at := range l.At {
		if err := sleep(ctx, at-time.Since(begun)); err != nil {
			return nil, err
		}
		sent.Go(func() {
			err := ask(ctx, c, address, l.Queries[i])
			record[i] = Query{At: at, Took: time.Since(begun) - at, Failed: err != nil}
		})
	}
	sent.Wait()
	return record, ctx.Err()
}

func sleep(ctx context.Context, while time.Duration) error {
	if while <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// ask asks one query and reads the answer.
func ask(ctx context.Context, c *http.Client, address, query string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/?q="+url.QueryEscape(query), nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("search: %s", response.Status)
	}
	return nil
}

// Capacity is the number of queries a second that the service answers to the given
// number of clients, each of which sends one query after the other for a while.
func Capacity(ctx context.Context, address string, queries []string, clients int, while time.Duration) (float64, error) {
	c := client()
	defer c.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var asked atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			for time.Since(begun) < while && ctx.Err() == nil {
				if err := ask(ctx, c, address, queries[int(asked.Add(1))%len(queries)]); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return float64(asked.Load()) / time.Since(begun).Seconds(), context.Cause(ctx)
}

// Failed counts the queries without an answer.
func (r Record) Failed() int {
	n := 0
	for _, q := range r {
		if q.Failed {
			n++
		}
	}
	return n
}

// Percentile is the latency in milliseconds that a share of the queries did not
// exceed; a failed one counts with the time it was waited for. NaN if there are none.
func (r Record) Percentile(share float64) float64 {
	if len(r) == 0 {
		return math.NaN()
	}
	took := make([]time.Duration, len(r))
	for i, q := range r {
		took[i] = q.Took
	}
	slices.Sort(took)
	rank := int(math.Ceil(share*float64(len(took)))) - 1
	return float64(took[max(rank, 0)]) / float64(time.Millisecond)
}

// Windows divides the queries by when they were due.
func (r Record) Windows(n int, length time.Duration) []Record {
	all := make([]Record, n)
	for _, q := range r {
		i := min(int(int64(q.At)*int64(n)/int64(length)), n-1)
		all[i] = append(all[i], q)
	}
	return all
}
