package crew

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"gleaner/trace/replay"
)

// Work is what a machine does for its host.
type Work struct {
	// Play plays a part of the nodes until ctx ends.
	Play func(ctx context.Context, part *replay.Order) (*replay.Result, error)
	// Carry holds connections to targets. It dials the host when it is ready, and ends when that connection does.
	Carry func(ctx context.Context, targets []string, dial func() (io.ReadWriteCloser, error)) (Share, error)
	// Joined is called once the host has let the machine in.
	Joined func()
}

// again is how long a machine waits before it tries again to reach its host.
const again = 500 * time.Millisecond

// Join joins the host at an address, which may begin to listen up to a wait later, and does what it says until it is over.
func Join(ctx context.Context, address string, token Token, wait time.Duration, work Work) error {
	config, err := token.config()
	if err != nil {
		return err
	}
	s := &seat{address: address, config: config}
	if s.name, err = os.Hostname(); err != nil {
		s.name = "unnamed"
	}
	c, err := s.dialUntil(ctx, time.Now().Add(wait))
	if err != nil {
		return err
	}
	defer c.Close()
	work.Joined()
	return s.obey(ctx, c, work)
}

// A seat is a machine's place at its host.
type seat struct {
	address, name string
	config        *tls.Config
}

// dialUntil tries to reach the host until a time.
func (s *seat) dialUntil(ctx context.Context, until time.Time) (net.Conn, error) {
	for {
		c, err := s.dial(ctx, hello{Version: version, Name: s.name})
		var refused *net.OpError
		var unknown *net.DNSError
		if err == nil || !errors.As(err, &refused) || errors.As(err, &unknown) || time.Now().After(until) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(again):
		}
	}
}

// dial connects to the host and says hello.
func (s *seat) dial(ctx context.Context, h hello) (net.Conn, error) {
	raw, err := (&net.Dialer{Timeout: greetTime, KeepAliveConfig: alive}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, s.config)
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	if err = c.HandshakeContext(ctx); err == nil {
		err = write(c, h)
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("%s: no replay that knows this token: %v", s.address, err)
	}
	return c, nil
}

// obey does what the host says, one order at a time, and hears of a stop meanwhile.
func (s *seat) obey(ctx context.Context, c net.Conn, work Work) error {
	orders, ended := make(chan order), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			var o order
			if err := read(c, &o); err != nil {
				ended <- err
				return
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	var now *task
	defer func() { now.end() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return s.lost(err)
		case a := <-now.answered():
			now.stop()
			now = nil
			if err := write(c, a); err != nil {
				return s.lost(err)
			}
		case o := <-orders:
			switch {
			case o.Over && o.Why != "":
				return fmt.Errorf("the replay at %s does not need this machine: %s", s.address, o.Why)
			case o.Over:
				return nil
			case o.Stop && now != nil:
				now.stop()
			case o.Stop: // it has ended
			case o.Clock:
				if err := write(c, answer{Now: time.Now().UnixNano()}); err != nil {
					return s.lost(err)
				}
			case now != nil:
				return fmt.Errorf("the replay at %s asks for two things at once", s.address)
			default:
				now = begin(ctx, func(ctx context.Context) answer { return s.do(ctx, o, work) })
			}
		}
	}
}

// A task carries out one order.
type task struct {
	stop   context.CancelFunc
	answer chan answer
}

func begin(ctx context.Context, do func(context.Context) answer) *task {
	ctx, stop := context.WithCancel(ctx)
	t := &task{stop, make(chan answer, 1)}
	go func() { t.answer <- do(ctx) }()
	return t
}

// answered is where the answer comes from, if there is a task.
func (t *task) answered() <-chan answer {
	if t == nil {
		return nil
	}
	return t.answer
}

// end stops a task, and waits until it has ended.
func (t *task) end() {
	if t != nil {
		t.stop()
		<-t.answer
	}
}

func (s *seat) lost(err error) error {
	return fmt.Errorf("the replay at %s has gone: %v", s.address, err)
}

// do carries out an order.
func (s *seat) do(ctx context.Context, o order, work Work) answer {
	switch {
	case o.Play != nil:
		if err := o.Play.Read(); err != nil {
			return failed(err)
		}
		result, err := work.Play(ctx, o.Play)
		if err != nil {
			return failed(err)
		}
		text, err := result.Export()
		if err != nil {
			return failed(err)
		}
		return answer{Result: text}
	case o.Carry != nil:
		share, err := work.Carry(ctx, o.Carry.Targets, func() (io.ReadWriteCloser, error) {
			return s.dial(ctx, hello{Version: version, Name: s.name, Carries: o.Carry.Number})
		})
		if err != nil {
			return failed(err)
		}
		return answer{Share: &share}
	}
	return failed(errors.New("an order that this version of gleaner does not know"))
}
