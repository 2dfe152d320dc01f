package crew

import (
	"cmp"
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
	s, err := newSeat(address, token)
	if err != nil {
		return err
	}
	return s.join(ctx, wait, work)
}

// A seat is a machine's place at its host.
type seat struct {
	address, name string
	config        *tls.Config
	silence       time.Duration // of the host, which asks something each second, after which it counts as gone
}

func newSeat(address string, token Token) (*seat, error) {
	config, err := token.config()
	if err != nil {
		return nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unnamed"
	}
	return &seat{address, name, config, silence}, nil
}

func (s *seat) join(ctx context.Context, wait time.Duration, work Work) error {
	c, err := s.joinUntil(ctx, time.Now().Add(wait))
	if err != nil {
		return err
	}
	defer c.Close()
	work.Joined()
	return s.obey(ctx, c, work)
}

// joinUntil tries to join the host until a time.
func (s *seat) joinUntil(ctx context.Context, until time.Time) (net.Conn, error) {
	for {
		c, err := s.dial(ctx, hello{Version: version, Name: s.name})
		if err == nil {
			if err = s.welcomed(c); err == nil {
				return c, nil
			}
			c.Close()
		}
		var elsewhere *net.DNSError
		var noTLS tls.RecordHeaderError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errStranger), errors.Is(err, errOver), errors.As(err, &elsewhere), errors.As(err, &noTLS), time.Now().After(until):
			return nil, fmt.Errorf("the replay at %s: %w", s.address, err)
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
		return nil, err
	}
	return c, nil
}

// errOver is that the host has no use for this machine, any more or at all.
var errOver = errors.New("it is over")

// over is what an order says that ends the machine.
func (o order) over() error {
	if o.Why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", errOver, o.Why)
}

// welcomed waits until the host lets this machine in: it asks what time it is.
func (s *seat) welcomed(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(greetTime)) // what follows tells if that failed
	var o order
	if err := read(c, &o); err != nil {
		return err
	}
	if o.Over {
		return cmp.Or(o.over(), errOver)
	}
	_ = c.SetDeadline(time.Time{})
	return write(c, now())
}

func now() answer { return answer{Now: time.Now().UnixNano()} }

// obey does what the host says, one order at a time, and hears of a stop meanwhile.
func (s *seat) obey(ctx context.Context, c net.Conn, work Work) error {
	orders, ended := make(chan order), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			var o order
			_ = c.SetReadDeadline(time.Now().Add(s.silence)) // what follows tells if that failed
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
	var doing *task
	defer func() { doing.end() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return s.lost(err)
		case a := <-doing.answered():
			doing.stop()
			doing = nil
			if err := write(c, a); err != nil {
				return s.lost(err)
			}
		case o := <-orders:
			switch {
			case o.Over && o.Why != "":
				return fmt.Errorf("the replay at %s: %w", s.address, o.over())
			case o.Over:
				return nil
			case o.Stop && doing != nil:
				doing.stop()
			case o.Stop: // it has ended
			case o.Clock:
				_ = write(c, now()) // if the host has gone, what it said last may still be read
			case doing != nil:
				return fmt.Errorf("the replay at %s asks for two things at once", s.address)
			default:
				doing = begin(ctx, func(ctx context.Context) answer { return s.do(ctx, o, work) })
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
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the replay at %s has said nothing for %v: it is stopped, or cannot be reached any more", s.address, s.silence)
	}
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
			h := hello{Version: version, Name: s.name, Carries: o.Carry.Number}
			c, err := s.dial(ctx, h)
			for range 5 {
				if err == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(again)
				c, err = s.dial(ctx, h)
			}
			return c, err
		})
		if err != nil {
			return failed(err)
		}
		return answer{Share: &share}
	}
	return failed(errors.New("an order that this version of gleaner does not know"))
}
