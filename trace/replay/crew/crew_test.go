package crew_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/carrier"
	"gleaner/trace/replay/crew"
	"gleaner/trace/replay/lean"
)

const beats = `version: 1
scales: [3, 6]
types:
  - type: worker
    nodes: n
    sender: worker-{node}
    calls:
      - {call: register#1, target: master, method: register, args: {lease: '={node*7}'}}
      - {call: work#1, target: master, method: work, wait: 20, args: {lease: '={reply "register#1" "lease"}'}}
    steps:
      - call: register#1
      - {call: work#1, repeat: "3"}
`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// says is that an error says something.
func says(t *testing.T, err error, what string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), what) {
		t.Errorf("%v: it does not say %q", err, what)
	}
}

func host(t *testing.T, token crew.Token, most int) (*crew.Host, string) {
	h, err := crew.Listen("127.0.0.1:0", token, most)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h, h.Address().String()
}

// join has a machine join until the test ends. What Join returns comes from the channel.
func join(t *testing.T, ctx context.Context, at string, token crew.Token, work crew.Work) chan error {
	out := make(chan error, 1)
	if work.Joined == nil {
		work.Joined = func() {}
	}
	go func() { out <- crew.Join(ctx, at, token, time.Minute, work) }()
	return out
}

// playing plays parts to the lean target that they name.
func playing(ctx context.Context, part *replay.Order) (*replay.Result, error) {
	o := part.Options
	e, err := lean.Open(ctx, at(part.Targets[""]))
	if err != nil {
		return nil, err
	}
	o.Targets = map[string]replay.Executor{"": e}
	return replay.Play(ctx, o)
}

func at(address string) *url.URL {
	out, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return out
}

func gather(t *testing.T, h *crew.Host, n int) (all []*crew.Machine) {
	for range n {
		m, err := h.Join(t.Context())
		must(t, err)
		all = append(all, m)
	}
	return all
}

// orders play beats at n = 10 to an echo, in n parts.
func orders(t *testing.T, repeat string, n int) []replay.Order {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- lean.Serve(ctx, l, lean.Echo) }()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	p, err := program.Read("beats", []byte(strings.ReplaceAll(beats, `repeat: "3"`, `repeat: "`+repeat+`"`)))
	must(t, err)
	o := replay.Options{Program: p, Setting: grow.Setting{Scale: 10, Nodes: map[string]int{}}}
	o.Setting, err = grow.Resolve(p, o.Setting)
	must(t, err)
	out, err := replay.Orders(o, map[string]string{"": "lean://" + l.Addr().String()}, n)
	must(t, err)
	return out
}

// TestParts: two machines play a part each, in one run after the other.
func TestParts(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 2)
	ends := []chan error{join(t, t.Context(), at, token, crew.Work{Play: playing}), join(t, t.Context(), at, token, crew.Work{Play: playing})}
	machines := gather(t, h, 2)
	for range 2 {
		var parts []*replay.Result
		for i, order := range orders(t, "3", 2) {
			r, err := machines[i].Play(t.Context(), order)
			must(t, err)
			parts = append(parts, r)
		}
		if r := replay.Merge(parts); r.Made != 40 || r.Answered != 40 || r.Latency.P99 <= 0 {
			t.Errorf("made %d, answered %d, p99 %g ms", r.Made, r.Answered, r.Latency.P99)
		}
	}
	for _, m := range machines {
		m.Over("")
	}
	for _, ended := range ends {
		must(t, <-ended)
	}
}

// TestPartsOfParts: what a machine plays in several processes is no more and no less than its part.
func TestPartsOfParts(t *testing.T) {
	seen := map[int]bool{}
	for _, order := range orders(t, "3", 3) {
		must(t, order.Read())
		parts, err := replay.Orders(order.Options, order.Targets, 2)
		must(t, err)
		for _, p := range parts {
			if o := p.Options; o.Parts != 6 || o.Part%3 != order.Options.Part || seen[o.Part] {
				t.Errorf("part %d of %d is a part of %d of 3", o.Part, o.Parts, order.Options.Part)
			}
			seen[p.Options.Part] = true
		}
	}
}

// TestStop: a run that is stopped has a result, and the machine is there for another.
func TestStop(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 1)
	join(t, t.Context(), at, token, crew.Work{Play: playing})
	m := gather(t, h, 1)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r, err := m.Play(ctx, orders(t, "100000", 1)[0])
	must(t, err)
	if r.Ended != "interrupted" || r.Answered == 0 {
		t.Errorf("it ended as %s, after %d calls", r.Ended, r.Answered)
	}
	_, _ = m.Play(ctx, orders(t, "100000", 1)[0]) // stopped before it began: it may have had no connection yet
	r, err = m.Play(t.Context(), orders(t, "3", 1)[0])
	must(t, err)
	if r.Ended != "done" || r.Answered != 40 {
		t.Errorf("it ended as %s, after %d calls", r.Ended, r.Answered)
	}
}

// TestCarry: calls go over a machine, and it says what it used.
func TestCarry(t *testing.T) {
	token := crew.NewToken()
	h, address := host(t, token, 1)
	target := orders(t, "3", 1)[0].Targets[""]
	ended := join(t, t.Context(), address, token, crew.Work{Carry: func(ctx context.Context, targets []string, dial func() (io.ReadWriteCloser, error)) (crew.Share, error) {
		if targets[0] == "nowhere" {
			return crew.Share{}, input.Errorf("--target", "nowhere is no target")
		}
		e, err := lean.Open(ctx, at(targets[0]))
		if err != nil {
			return crew.Share{}, err
		}
		c, err := dial()
		if err != nil {
			return crew.Share{}, err
		}
		defer c.Close()
		_ = carrier.Serve(ctx, c, c, []replay.Executor{e})
		return crew.Share{Memory: 7}, nil
	}})
	m := gather(t, h, 1)[0]
	if _, err := m.Carry(t.Context(), []string{"nowhere"}); !input.Is(err) || !strings.Contains(err.Error(), "nowhere is no target") {
		t.Errorf("got %v", err)
	}
	for range 2 {
		c, err := m.Carry(t.Context(), []string{target})
		must(t, err)
		conn, err := carrier.Executor([]*carrier.Carrier{c.Carrier}, 0, nil).Dial(t.Context(), replay.Identity{Sender: "a"})
		must(t, err)
		call := &trace.Call{Sender: "a", Method: "m", Request: []trace.Leaf{{Path: "x", Kind: trace.String, Value: "y"}}}
		reply, err := conn.Call(t.Context(), call)
		must(t, err)
		if len(reply.Leaves) != 1 || reply.Leaves[0].Value != "y" {
			t.Errorf("the echo says %v", reply.Leaves)
		}
		share, err := c.Stop()
		must(t, err)
		if share.Memory != 7 {
			t.Errorf("it used %+v", share)
		}
	}
	m.Over("")
	must(t, <-ended)
}

// TestMachineGoes: a run of which a part is lost is an error, at once.
func TestMachineGoes(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 1)
	ctx, kill := context.WithCancel(t.Context())
	playingNow := make(chan struct{})
	ended := join(t, ctx, at, token, crew.Work{Play: func(ctx context.Context, part *replay.Order) (*replay.Result, error) {
		close(playingNow)
		return playing(ctx, part)
	}})
	m := gather(t, h, 1)[0]
	go func() {
		<-playingNow
		kill()
	}()
	_, err := m.Play(t.Context(), orders(t, "100000", 1)[0])
	says(t, err, "has gone, and with it what it measured")
	<-m.Gone()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestReplaced: a machine that goes before the run gives its place to another.
func TestReplaced(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 1)
	ctx, kill := context.WithCancel(t.Context())
	ended := join(t, ctx, at, token, crew.Work{Play: playing})
	first := gather(t, h, 1)[0]
	kill()
	<-ended
	<-first.Gone()
	join(t, t.Context(), at, token, crew.Work{Play: playing})
	second := gather(t, h, 1)[0]
	if !first.HasGone() || second.HasGone() {
		t.Errorf("the first has gone: %t, the second: %t", first.HasGone(), second.HasGone())
	}
	r, err := second.Play(t.Context(), orders(t, "3", 1)[0])
	if err != nil || r.Answered != 40 {
		t.Errorf("%v", err)
	}
}

// TestSilent: a machine that says nothing any more, because its process was stopped, has gone.
func TestSilent(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 1)
	h.SetSilence(200 * time.Millisecond)
	c, err := crew.Silent(t.Context(), at, token)
	must(t, err)
	defer c.Close()
	time.Sleep(time.Second)
	join(t, t.Context(), at, token, crew.Work{Play: playing})
	if m := gather(t, h, 1)[0]; m.Name == "silent" {
		t.Error("the silent one has joined")
	}
}

// TestCarryWithoutConnection: a machine that ends a carry before its connection has come is an error.
func TestCarryWithoutConnection(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 1)
	join(t, t.Context(), at, token, crew.Work{Carry: func(context.Context, []string, func() (io.ReadWriteCloser, error)) (crew.Share, error) {
		return crew.Share{}, nil
	}})
	_, err := gather(t, h, 1)[0].Carry(t.Context(), []string{"nowhere"})
	says(t, err, "has gone")
}

// TestHostGoes: a machine whose host has gone stops what it does, and says so.
func TestHostGoes(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 1)
	stopped := make(chan struct{})
	ended := join(t, t.Context(), at, token, crew.Work{Play: func(ctx context.Context, _ *replay.Order) (*replay.Result, error) {
		<-ctx.Done()
		close(stopped)
		return nil, ctx.Err()
	}})
	m := gather(t, h, 1)[0]
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _ = m.Play(ctx, orders(t, "3", 1)[0]) }()
	time.Sleep(50 * time.Millisecond)
	crew.HangUp(m)
	<-stopped
	says(t, <-ended, "has gone")
	cancel()
}

// TestHostIsSilent: a machine whose host is stopped, and hangs up on nobody, does not wait for ever. A host asks something each second: one
// that may not be silent for that long is taken for stopped.
func TestHostIsSilent(t *testing.T) {
	token := crew.NewToken()
	_, at := host(t, token, 1)
	says(t, crew.JoinImpatiently(t.Context(), at, token, 300*time.Millisecond), "has said nothing for 300ms")
}

// TestStrangers: who does not know the token gets nowhere, on either side, and keeps nobody out.
func TestStrangers(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 1)
	says(t, <-join(t, t.Context(), at, crew.NewToken(), crew.Work{}), "does not know the token")

	for range 100 { // silent ones: more than are greeted at once
		c, err := net.Dial("tcp", at)
		must(t, err)
		defer c.Close()
	}
	c, err := net.Dial("tcp", at)
	must(t, err)
	defer c.Close()
	_, err = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	must(t, err)

	// TLS without a key, or with another.
	other, err := crew.NewToken().Config()
	must(t, err)
	other.VerifyConnection = nil
	for _, config := range []*tls.Config{{InsecureSkipVerify: true}, other} {
		c, err := tls.Dial("tcp", at, config)
		if err == nil {
			_, err = c.Read(make([]byte, 1)) // the server refuses after the client's handshake
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	}
	join(t, t.Context(), at, token, crew.Work{Play: playing})
	m := gather(t, h, 1)[0]
	r, err := m.Play(t.Context(), orders(t, "3", 1)[0])
	if err != nil || r.Answered != 40 {
		t.Errorf("%v", err)
	}

	// One that listens in the host's place.
	l, err := tls.Listen("tcp", "127.0.0.1:0", other)
	must(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	says(t, <-join(t, t.Context(), l.Addr().String(), token, crew.Work{}), "does not know the token")
}

// TestOneTooMany: a machine that is not needed is told so.
func TestOneTooMany(t *testing.T) {
	token := crew.NewToken()
	h, at := host(t, token, 1)
	join(t, t.Context(), at, token, crew.Work{Play: playing})
	gather(t, h, 1)
	says(t, <-join(t, t.Context(), at, token, crew.Work{}), "it has all the machines that it wants")
}

// TestEarly: a machine may come before its host.
func TestEarly(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	at := l.Addr().String()
	l.Close()
	token := crew.NewToken()
	join(t, t.Context(), at, token, crew.Work{Play: playing})
	time.Sleep(100 * time.Millisecond)
	h, err := crew.Listen(at, token, 1)
	must(t, err)
	defer h.Close()
	gather(t, h, 1)

	if err := crew.Join(t.Context(), at+"0", token, 0, crew.Work{}); err == nil {
		t.Error("port 0 was reached")
	}
}

// TestTokens: what is no token is refused.
func TestTokens(t *testing.T) {
	token := crew.NewToken()
	if same, err := crew.ParseToken(token.String()); err != nil || same != token {
		t.Errorf("%v, %v", same, err)
	}
	for _, text := range []string{"", "secret", token.String()[1:], token.String() + "0", token.String() + "00", "x" + token.String()[1:], strings.Repeat("a", 1<<20)} {
		_, err := crew.ParseToken(text)
		says(t, err, "64 hexadecimal digits")
	}
}
