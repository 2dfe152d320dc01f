package conn

import (
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A wish is a request of a client that is played in virtual time.
type wish struct {
	at, takes time.Duration
	kind      int
}

// A client asks for what it wishes, and notes how each was carried out.
type client struct {
	lead    *Lead[int]
	wishes  []wish
	begun   time.Time
	next    int
	mu      sync.Mutex
	readers map[int]string // the goroutine that read each
	waiting int            // answers that were not sent
	ended   map[int]time.Duration
	by      map[int]string // the goroutine that executed it; "leader" for the one that had read it
	most    int            // at a time
	now     int
}

func (c *client) Next() (int, error) {
	if c.Flush(); c.next == len(c.wishes) {
		return 0, io.EOF
	}
	time.Sleep(time.Until(c.begun.Add(c.wishes[c.next].at)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers[c.next] = goroutine()
	c.next++
	return c.next - 1, nil
}

func (c *client) More() bool {
	return c.next < len(c.wishes) && time.Since(c.begun) >= c.wishes[c.next].at
}
func (c *client) Kind(i int) int { return c.wishes[i].kind }

func (c *client) Execute(i int) {
	by := goroutine()
	c.mu.Lock()
	if by == c.readers[i] {
		by = "leader"
	}
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	time.Sleep(c.wishes[i].takes)
	c.lead.Took(c.wishes[i].kind, c.wishes[i].takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	c.waiting++
	c.by[i], c.ended[i] = by, time.Since(c.begun)
}

func (c *client) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = 0
	return nil
}

func goroutine() string {
	text := make([]byte, 64)
	name, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), " [")
	return name
}

// play has a lead carry out wishes of two kinds, four at a time at most.
func play(t *testing.T, wishes []wish) (c *client) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c = &client{wishes: wishes, begun: time.Now(), readers: map[int]string{}, ended: map[int]time.Duration{}, by: map[int]string{}}
		c.lead = NewLead(c, 2, 4)
		if err := c.lead.Run(); err != io.EOF {
			t.Errorf("it ended with %v", err)
		}
	})
	if len(c.ended) != len(wishes) || c.waiting != 0 || c.now != 0 {
		t.Errorf("of %d requests %d were carried out, %d of them after the end, and %d not answered", len(wishes), len(c.ended), c.now, c.waiting)
	}
	return c
}

// repeated are n requests, one each so often.
func repeated(n int, every, takes time.Duration) (all []wish) {
	for i := range n {
		all = append(all, wish{at: time.Duration(i) * every, takes: takes})
	}
	return all
}

// What is fast is executed by the leader, also where many have come; so is what is a bit slower and alone.
func TestLeaderExecutes(t *testing.T) {
	for what, wishes := range map[string][]wish{
		"fast, many at once": repeated(100, 0, handOver/2),
		"slower and alone":   repeated(100, time.Second, 3*handOver),
	} {
		for i, by := range play(t, wishes).by {
			if by != "leader" {
				t.Errorf("%s: request %d was executed by another", what, i)
			}
		}
	}
}

// What is slow is executed by others: where several have come, or always if it is very slow. No more are under way than there may be.
func TestOthersExecute(t *testing.T) {
	c := play(t, repeated(100, 0, 3*handOver))
	if c.most != 4 || c.ended[99] > 60*3*handOver {
		t.Errorf("%d at a time, all done after %v", c.most, c.ended[99])
	}
	for i, by := range play(t, repeated(100, time.Second, 3*time.Millisecond)).by {
		if i > 20 && by == "leader" { // by then it is known how slow they are
			t.Errorf("request %d was executed by the leader", i)
		}
	}
}

// A request that never seems to end holds up those behind it no longer than the patience with it, and is finished before the lead ends.
func TestLeadPasses(t *testing.T) {
	c := play(t, append([]wish{{takes: time.Hour, kind: 1}}, repeated(50, 0, handOver/2)...))
	for i := 1; i < len(c.wishes); i++ {
		if c.ended[i] > 2*patience+50*handOver {
			t.Errorf("request %d was done after %v", i, c.ended[i])
		}
	}
	if c.ended[0] != time.Hour || c.by[0] != "leader" {
		t.Errorf("the first ended after %v", c.ended[0])
	}
}
