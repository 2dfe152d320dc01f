package dataserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// answers are what comes in on a link. One goroutine at a time receives them: a caller who has nothing but its own call in flight, so that nobody has to be
// woken to hand it over, or else the link itself.
type answers struct {
	in        *bufio.Reader
	receiving chan struct{} // has one in it while somebody receives
	wanted    chan struct{} // has one in it if the link is to receive
	late      time.Time     // when a frame that is half way is given up; zero while who receives has time
}

func newAnswers(c net.Conn) answers {
	return answers{in: bufio.NewReaderSize(c, readAhead), receiving: make(chan struct{}, 1), wanted: make(chan struct{}, 1)}
}

// attendEvery is how long it may take until a link that nobody uses is seen to break.
const attendEvery = 10 * time.Millisecond

// attend receives where no caller does, until the link breaks, and then tells all who still wait.
func (l *link) attend() {
	tick := time.NewTicker(attendEvery)
	defer tick.Stop()
	for l.whole() {
		select {
		case <-l.wanted:
		case <-tick.C:
		}
		select {
		case l.receiving <- struct{}{}:
		default:
			continue // who receives says when it is wanted
		}
		for more := true; more; {
			more = l.receiveOne(context.Background())
		}
		l.passOn()
	}
	l.receiving <- struct{}{}
	l.lose(nil)
	<-l.receiving
}

// passOn ends receiving. The link goes on with it if anything is in flight.
func (l *link) passOn() {
	<-l.receiving
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) > 0 || l.broken != nil {
		l.want()
	}
}

// want has the link receive, unless another does.
func (l *link) want() {
	select {
	case l.wanted <- struct{}{}:
	default:
	}
}

// receiveFor receives answers until that of a call is there, the link breaks, which ends all calls, or ctx ends; not at all if another receives.
func (l *link) receiveFor(ctx context.Context, c *call) {
	select {
	case l.receiving <- struct{}{}:
	default:
		return
	}
	defer l.passOn()
	defer context.AfterFunc(ctx, l.interrupt)()
	for ctx.Err() == nil {
		select {
		case <-c.done:
			return
		default:
			l.receiveOne(ctx)
		}
	}
}

// interrupt has who receives look at its ctx. If that is another by now, it goes on.
func (l *link) interrupt() { l.conn.SetReadDeadline(time.Unix(1, 0)) }

// receiveOne receives an answer for whomever it is; none if ctx ends before one begins. It says whether more is in flight. If the link breaks, all calls end.
func (l *link) receiveOne(ctx context.Context) (more bool) {
	if err := l.receiveFrame(ctx); err != nil {
		l.lose(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0
}

func (l *link) receiveFrame(ctx context.Context) error {
	data, err := l.in.Peek(answerBytes)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return l.conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return err
	}
	a, err := decodeAnswer(data)
	if err != nil {
		return err
	}
	l.in.Discard(answerBytes)
	l.mu.Lock()
	c := l.calls[a.number]
	if c == nil {
		l.mu.Unlock()
		return fmt.Errorf("an answer to request %d, which is not in flight", a.number)
	}
	c.delivering = !c.abandoned
	l.mu.Unlock()
	if err := l.deliver(ctx, a, c); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.delivering = false
	if a.status != statusMore {
		delete(l.calls, a.number)
		l.end(c)
	}
	return nil
}

// deliver gives a call its answer.
func (l *link) deliver(ctx context.Context, a answer, c *call) error {
	if c.delivering && a.status == statusDone && c.into != nil {
		if a.payload != len(c.into) {
			return errMalformed
		}
		return l.fill(ctx, c.into)
	}
	data := make([]byte, a.payload)
	if err := l.fill(ctx, data); err != nil || !c.delivering {
		return err
	}
	if a.status == statusError {
		failure, ok := decodeError(l.address, data)
		if !ok {
			return errMalformed
		}
		c.err = failure
		return nil
	}
	c.answer = append(c.answer, data...)
	return nil
}

// fill reads the bytes of a frame. When ctx has ended, the frame has a grace to arrive.
func (l *link) fill(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		n, err := l.in.Read(p)
		p = p[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = l.goOn(ctx)
		}
		if err != nil {
			return err
		}
	}
	if l.late.IsZero() {
		return nil
	}
	l.late = time.Time{}
	return l.conn.SetReadDeadline(time.Time{})
}

// goOn sets how long a frame may take that is half way.
func (l *link) goOn(ctx context.Context) error {
	if ctx.Err() != nil && l.late.IsZero() {
		l.late = time.Now().Add(grace)
	}
	if !l.late.IsZero() && time.Now().After(l.late) {
		return errStalled
	}
	return l.conn.SetReadDeadline(l.late)
}

// lose breaks the link and ends all calls, for who receives.
func (l *link) lose(why error) {
	l.breaks(why)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		c.err = fmt.Errorf("data server %s: %w: %w", l.address, ErrLost, l.broken)
		l.end(c)
	}
	l.calls = nil
}

// end tells who waits for a call.
func (l *link) end(c *call) {
	l.window.Release(c.cost)
	close(c.done)
}
