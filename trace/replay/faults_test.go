package replay_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/carrier"
	"gleaner/trace/replay/judge"
	"gleaner/trace/replay/lean"
)

const registered = `version: 1
scales: [3, 4, 6]
types:
  - type: worker
    nodes: "n"
    sender: worker-{node}
    calls:
      - {call: register#1, method: register, args: {lease: '={node*7}'}}
      - {call: work#1, method: work, wait: 20, args: {lease: '={reply "register#1" "lease"}'}}
      - {call: beat#1, method: beat, args: {lease: '={reply "register#1" "lease"}', count: '={i}'}}
    steps:
      - call: register#1
      - {call: work#1, repeat: "40"}
    beats:
      - {call: beat#1, every: 50}
`

func options(t *testing.T, text string, scale int, e replay.Executor) replay.Options {
	t.Helper()
	p, err := program.Read("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := grow.Resolve(p, grow.Setting{Scale: scale})
	if err != nil {
		t.Fatal(err)
	}
	return replay.Options{Program: p, Setting: s, Targets: map[string]replay.Executor{"": e}, Timeout: 2 * time.Second, Patience: 20 * time.Second, Seed: 1}
}

func open(t *testing.T, address string) replay.Executor {
	t.Helper()
	e, err := lean.Open(t.Context(), &url.URL{Scheme: "lean", Host: address})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// serve starts an echo at an address, and gives where it is and how to kill it.
func serve(t *testing.T, address string, answer func(*trace.Call) replay.Reply) (string, func()) {
	t.Helper()
	var l net.Listener
	var err error
	for range 100 { // the address of one that was killed may take a moment to be free
		if l, err = net.Listen("tcp", address); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = lean.Serve(ctx, l, answer) })
	kill := func() { cancel(); done.Wait() }
	t.Cleanup(kill)
	return l.Addr().String(), kill
}

func made(r *replay.Result, method string) replay.CallResult {
	for _, c := range r.Calls {
		if c.Method == method {
			return c
		}
	}
	return replay.CallResult{}
}

// TestTargetKilledAndRestarted: all steps are made in the end, once each, and the report
// counts what was lost.
func TestTargetKilledAndRestarted(t *testing.T) {
	at, kill := serve(t, "127.0.0.1:0", lean.Echo)
	o := options(t, registered, 10, open(t, at))
	var calls atomic.Int64
	o.Record = func(*trace.Call) {
		if calls.Add(1) == 100 {
			go func() {
				kill()
				time.Sleep(150 * time.Millisecond)
				serve(t, at, lean.Echo)
			}()
		}
	}
	r, err := replay.Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	work := made(r, "work")
	if r.Ended != "done" || work.Answered != 400 || work.Failed == 0 || work.Failed != work.Retries || r.Silenced != 0 {
		t.Errorf("%s, %+v, %d silent", r.Ended, work, r.Silenced)
	}
}

// TestConnectionsCut: connections are made again, and only calls that were under way are
// lost.
func TestConnectionsCut(t *testing.T) {
	at, _ := serve(t, "127.0.0.1:0", lean.Echo)
	proxy := newToxiproxy(t, at)
	o := options(t, registered, 10, open(t, proxy.Address))
	cut := func() {
		end := proxy.suffer("reset_peer", map[string]any{"timeout": 0})
		time.Sleep(100 * time.Millisecond)
		end()
	}
	var cuts sync.WaitGroup
	var calls atomic.Int64
	o.Record = func(*trace.Call) {
		if n := calls.Add(1); n == 60 || n == 300 {
			cuts.Go(cut)
		}
	}
	r, err := replay.Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	cuts.Wait()
	if work := made(r, "work"); r.Ended != "done" || work.Answered != 400 || r.Failed == 0 || !strings.Contains(said(r), "connection reset by peer") {
		t.Errorf("%s, %d failed, %+v", r.Ended, r.Failed, work)
	}
}

// said is all errors of calls.
func said(r *replay.Result) string {
	var out []string
	for _, call := range r.Calls {
		for _, e := range call.Errors {
			out = append(out, e.What)
		}
	}
	return strings.Join(out, "\n")
}

// TestRepliesThatNeverCome: the calls time out, and the run goes on.
func TestRepliesThatNeverCome(t *testing.T) {
	at, _ := serve(t, "127.0.0.1:0", lean.Echo)
	proxy := newToxiproxy(t, at)
	o := options(t, registered, 5, open(t, proxy.Address))
	o.Timeout, o.OnError = 200*time.Millisecond, replay.Skip
	var silence sync.WaitGroup
	var calls atomic.Int64
	o.Record = func(*trace.Call) {
		if calls.Add(1) == 50 {
			silence.Go(func() {
				end := proxy.suffer("timeout", map[string]any{"timeout": 0}) // never
				time.Sleep(500 * time.Millisecond)
				end()
			})
		}
	}
	r, err := replay.Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	silence.Wait()
	if work := made(r, "work"); r.Ended != "done" || work.Answered+work.Failed != 200 || work.Failed == 0 || !strings.Contains(said(r), "no reply in time") {
		t.Errorf("%s, %+v, %q", r.Ended, work, said(r))
	}
}

// TestSlowReplies: the report blames the target and not the players, and nothing is lost.
func TestSlowReplies(t *testing.T) {
	at, _ := serve(t, "127.0.0.1:0", lean.Echo)
	proxy := newToxiproxy(t, at)
	proxy.suffer("latency", map[string]any{"latency": 25})
	r, err := replay.Play(t.Context(), options(t, registered, 5, open(t, proxy.Address)))
	if err != nil {
		t.Fatal(err)
	}
	if work := made(r, "work"); work.Answered != 200 || r.Failed > 0 || work.Service.P50 < 25 {
		t.Errorf("%+v", work)
	}
	limits := judge.Limits{Latency: 20 * time.Millisecond, Lag: time.Minute}
	report, err := replay.Sweep(t.Context(), []int{5}, limits, func(context.Context, int) (*replay.Result, error) { return r, nil })
	if err != nil || report.Runs[0].Verdict != judge.GaveIn {
		t.Errorf("%v, %s: %s", err, report.Runs[0].Verdict, report.Runs[0].Why)
	}
}

// TestRepliesOutOfOrder: a reply that belongs to another call is not taken.
func TestRepliesOutOfOrder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.CopyN(c, c, 6) // the greeting
				frame := make([]byte, 4096)
				if _, err := c.Read(frame); err == nil { // reply to call 9, which was not made
					_, _ = c.Write([]byte{0, 0, 0, 4, 9, 0, 0, 0})
				}
				_, _ = c.Read(frame)
			}()
		}
	}()
	o := options(t, registered, 1, open(t, l.Addr().String()))
	o.OnError = replay.End
	r, err := replay.Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if reg := made(r, "register"); r.Answered != 0 || len(reg.Errors) != 1 || !strings.Contains(reg.Errors[0].What, "the reply to call # came for call #") {
		t.Errorf("%+v", reg)
	}
}

// TestInterrupted: what was measured until then is kept.
func TestInterrupted(t *testing.T) {
	at, _ := serve(t, "127.0.0.1:0", lean.Echo)
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, registered, 10, open(t, at))
	var calls atomic.Int64
	o.Record = func(*trace.Call) {
		if calls.Add(1) == 100 {
			cancel()
		}
	}
	r, err := replay.Play(ctx, o)
	if err != nil || r.Ended != "interrupted" || r.Answered < 100 || r.Failed > 0 {
		t.Errorf("%v %+v", err, r)
	}
}

// TestBadTargets: a target that is not there, and one of another protocol.
func TestBadTargets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 mail ready\r\n")
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	for address, want := range map[string]string{"127.0.0.1:1": "connection refused", l.Addr().String(): `does not speak the lean protocol: it greets with "220 ma"`} {
		_, err := replay.Play(t.Context(), options(t, registered, 3, open(t, address)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Nodes that have no beats are done one after another.
var brief = registered[:strings.Index(registered, "    beats:")]

// TestShared: two connections carry all, one call at a time, and stay when a node
// is done. Beats that are due while they are closed make no other.
func TestShared(t *testing.T) {
	for name, text := range map[string]string{"beating": registered, "beats due at the end": strings.Replace(registered, "every: 50", "every: 2", 1), "brief": strings.Replace(brief, `"40"`, `"40-node"`, 1)} {
		t.Run(name, func(t *testing.T) { testShared(t, text) })
	}
}

func testShared(t *testing.T, text string) {
	var dials atomic.Int64
	at, _ := serve(t, "127.0.0.1:0", lean.Echo)
	o := options(t, text, 20, counting{open(t, at), &dials})
	o.Share = 2
	r, err := replay.Play(t.Context(), o)
	if err != nil || r.Failed > 0 || made(r, "work").Answered < 600 || dials.Load() != 2 {
		t.Errorf("%v, %d dials, %+v", err, dials.Load(), made(r, "work"))
	}
}

type counting struct {
	replay.Executor
	dials *atomic.Int64
}

func (c counting) Dial(ctx context.Context, who replay.Identity) (replay.Conn, error) {
	c.dials.Add(1)
	conn, err := c.Executor.Dial(ctx, who)
	return slowToClose{conn}, err
}

type slowToClose struct{ replay.Conn }

func (c slowToClose) Close() error {
	time.Sleep(20 * time.Millisecond)
	return c.Conn.Close()
}

// TestCarried: with the connections in another process a program plays the same, and the
// end of that process is an error like any other.
func TestCarried(t *testing.T) {
	at, _ := serve(t, "127.0.0.1:0", lean.Echo)
	real := open(t, at)
	var carriers []*carrier.Carrier
	var ends []io.Closer
	var done sync.WaitGroup
	for range 2 {
		in, to := io.Pipe()
		from, out := io.Pipe()
		done.Go(func() {
			_ = carrier.Serve(t.Context(), in, out, []replay.Executor{real})
			out.Close()
		})
		carriers, ends = append(carriers, carrier.New(to, from, 0)), append(ends, to)
	}
	o := options(t, registered, 10, carrier.Executor(carriers, 0, real))
	r, err := replay.Play(t.Context(), o)
	if err != nil || made(r, "work").Answered != 400 || r.Failed > 0 || made(r, "work").Service.P50 <= 0 {
		t.Errorf("%v, %+v", err, made(r, "work"))
	}
	for _, c := range ends {
		c.Close()
	}
	done.Wait()
	if _, err := replay.Play(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("%v", err)
	}
}

// TestPlayedEqualsGrown: a replay has the counts of grown traffic.
func TestPlayedEqualsGrown(t *testing.T) {
	at, _ := serve(t, "127.0.0.1:0", lean.Echo)
	o := options(t, registered, 7, open(t, at))
	var mu sync.Mutex
	var buf bytes.Buffer
	w := trace.NewWriter(&buf)
	counter := replay.NewCounter(o.Program)
	o.Record = func(c *trace.Call) {
		mu.Lock()
		defer mu.Unlock()
		counter.Add(c)
		if err := w.Write(c); err != nil {
			t.Error(err)
		}
	}
	r, err := replay.Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if c := counter.Compare(r); !c.Equal || len(c.Rows) != 3 {
		t.Errorf("%+v", c)
	}
	counter.Add(&trace.Call{Sender: "worker-3", Method: "work"})
	if c := counter.Compare(r); c.Equal {
		t.Errorf("one call more is not noticed: %+v", c)
	}
}
