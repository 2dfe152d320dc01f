package crew

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"gleaner/trace/replay"
	"gleaner/trace/replay/carrier"
)

const (
	greetTime    = 10 * time.Second // for TLS and the hello
	maxGreetings = 64               // at once: of more any one is cut, so that strangers keep nobody out for long
	stopTime     = 30 * time.Second // for a machine to end a run that is stopped
	silence      = 20 * time.Second // after which who says nothing counts as gone, machine or host
)

// A Host is what machines join.
type Host struct {
	listener net.Listener
	config   *tls.Config
	most     int
	silence  time.Duration // of a machine, after which it counts as gone
	joined   chan *Machine

	mu       sync.Mutex
	greeting []net.Conn
	machines int
	begun    bool                     // who goes is not replaced
	carrying map[uint64]chan net.Conn // connections that are to come
	last     uint64
}

// Listen has machines join at an address, so many at most. Close ends it.
func Listen(address string, token Token, most int) (*Host, error) {
	config, err := token.config()
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{KeepAliveConfig: alive}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	h := &Host{listener: l, config: config, most: most, silence: silence, joined: make(chan *Machine, most), carrying: map[uint64]chan net.Conn{}}
	go h.accept()
	return h, nil
}

// Address is where it listens.
func (h *Host) Address() *net.TCPAddr { return h.listener.Addr().(*net.TCPAddr) }

// Close lets no more connections in.
func (h *Host) Close() error { return h.listener.Close() }

// Join gives the next machine that joins.
func (h *Host) Join(ctx context.Context) (*Machine, error) {
	select {
	case m := <-h.joined:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *Host) accept() {
	for {
		c, err := h.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // no file is left, say
			continue
		}
		h.begins(c)
		go func() {
			err := h.greet(tls.Server(c, h.config))
			if h.ends(c); err != nil {
				c.Close() // a stranger
			}
		}()
	}
}

// begins notes that a connection is being greeted.
func (h *Host) begins(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.greeting) == maxGreetings {
		at := rand.IntN(maxGreetings)
		h.greeting[at].Close()
		h.greeting = slices.Delete(h.greeting, at, at+1)
	}
	h.greeting = append(h.greeting, c)
}

func (h *Host) ends(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.greeting = slices.DeleteFunc(h.greeting, func(other net.Conn) bool { return other == c })
}

// greet finds out who has connected, and why.
func (h *Host) greet(c *tls.Conn) error {
	_ = c.SetDeadline(time.Now().Add(greetTime)) // what follows tells if that failed
	var said hello
	if err := read(c, &said); err != nil {
		return err
	}
	_ = c.SetDeadline(time.Time{})
	if err := said.check(); err != nil {
		return errors.Join(write(c, order{Over: true, Why: err.Error()}), c.Close())
	}
	if said.Carries > 0 {
		return h.expected(said.Carries, c)
	}
	if !h.wanted() {
		return errors.Join(write(c, order{Over: true, Why: "it has all the machines that it wants"}), c.Close())
	}
	m := &Machine{Name: said.Name, Address: c.RemoteAddr(), host: h, conn: c, answers: make(chan answer, 1), clock: make(chan answer, 1), gone: make(chan struct{})}
	go m.read()
	go m.listen()
	return nil
}

// wanted takes a place, if there is one.
func (h *Host) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.machines == h.most || h.begun {
		return false
	}
	h.machines++
	return true
}

// left gives the place of a machine to another.
func (h *Host) left() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.machines--
}

// Begin ends the time in which machines join.
func (h *Host) Begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun = true
}

// expected passes a connection on to who waits for it.
func (h *Host) expected(number uint64, c net.Conn) error {
	h.mu.Lock()
	to := h.carrying[number]
	delete(h.carrying, number)
	h.mu.Unlock()
	if to == nil {
		return errors.New("crew: a connection that nobody waits for")
	}
	to <- c
	return nil
}

// expect says which connection is to come, and where it arrives.
func (h *Host) expect() (uint64, chan net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.carrying[h.last] = make(chan net.Conn, 1)
	return h.last, h.carrying[h.last]
}

// A Machine has joined. It takes one order at a time.
type Machine struct {
	Name    string
	Address net.Addr

	host    *Host
	conn    net.Conn
	answers chan answer
	clock   chan answer
	gone    chan struct{}

	mu    sync.Mutex
	looks []look // at its clock, the last ones
}

// A look at a machine's clock.
type look struct{ took, ahead time.Duration }

// read passes answers on to who waits for them.
func (m *Machine) read() {
	defer close(m.gone)
	defer m.host.left() // before: who sees that it has gone finds its place free
	for {
		var a answer
		if read(m.conn, &a) != nil {
			m.conn.Close()
			return
		}
		to := m.answers
		if a.Now != 0 {
			to = m.clock
		}
		select {
		case to <- a:
		default: // to no order
			m.conn.Close()
			return
		}
	}
}

// Gone is closed when the machine has gone.
func (m *Machine) Gone() <-chan struct{} { return m.gone }

// HasGone reports whether the machine has gone.
func (m *Machine) HasGone() bool {
	select {
	case <-m.gone:
		return true
	default:
		return false
	}
}

func (m *Machine) errGone() error {
	return fmt.Errorf("machine %s (%s) has gone, and with it what it measured", m.Name, m.Address)
}

// Over tells the machine that it was the last run, and why if that is not because all was done.
func (m *Machine) Over(why string) {
	_ = write(m.conn, order{Over: true, Why: why}) // it may have gone
	m.conn.Close()
}

const (
	quickLooks = 8  // at once, so that one of them is quick
	mostLooks  = 60 // a minute's
)

// listen asks the machine for its time again and again, and hangs up when it does not answer.
func (m *Machine) listen() {
	for n := 0; ; n++ {
		if n == quickLooks {
			m.host.joined <- m
		}
		if n >= quickLooks {
			select {
			case <-m.gone:
				return
			case <-time.After(time.Second):
			}
		}
		asked := time.Now()
		if write(m.conn, order{Clock: true}) != nil {
			m.conn.Close()
			return
		}
		select {
		case <-m.gone:
			return
		case <-time.After(m.host.silence):
			m.conn.Close()
			return
		case a := <-m.clock:
			took := time.Since(asked)
			m.looked(look{took, time.Duration(a.Now-asked.UnixNano()) - took/2})
		}
	}
}

func (m *Machine) looked(now look) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looks = append(m.looks, now); len(m.looks) > mostLooks {
		m.looks = m.looks[1:]
	}
}

// ahead is how far the machine's clock is ahead of this one's, by the quickest look at it.
func (m *Machine) ahead() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	best := look{took: time.Hour}
	for _, l := range m.looks {
		if l.took < best.took {
			best = l
		}
	}
	return best.ahead
}

// answer waits for the answer to an order.
func (m *Machine) answer() (answer, error) {
	select {
	case a := <-m.answers:
		return a, a.err(m.Name)
	case <-m.gone:
		return answer{}, m.errGone()
	}
}

// Play has the machine play a part. If ctx ends, it is told to stop, and what it measured until then
// is the result.
func (m *Machine) Play(ctx context.Context, part replay.Order) (*replay.Result, error) {
	if err := write(m.conn, order{Play: &part}); err != nil {
		return nil, m.errGone()
	}
	done := make(chan struct{})
	defer close(done)
	go func() { // a stop before the order would stop nothing
		select {
		case <-done:
			return
		case <-ctx.Done():
			_ = write(m.conn, order{Stop: true}) // it may have gone
		}
		select {
		case <-done:
		case <-time.After(stopTime):
			m.conn.Close()
		}
	}()
	a, err := m.answer()
	if err != nil {
		return nil, err
	}
	return replay.Import(a.Result)
}

// A Carried is a carrier on another machine.
type Carried struct {
	*carrier.Carrier
	machine *Machine
	conn    net.Conn
}

// Carry has the machine hold connections to targets.
func (m *Machine) Carry(ctx context.Context, targets []string) (*Carried, error) {
	number, arrives := m.host.expect()
	if err := write(m.conn, order{Carry: &carry{number, targets}}); err != nil {
		return nil, m.errGone()
	}
	select {
	case c := <-arrives:
		return &Carried{carrier.New(c, c, m.ahead()), m, c}, nil
	case a := <-m.answers:
		if err := a.err(m.Name); err != nil {
			return nil, err
		}
		return nil, m.errGone() // the connection was lost on its way
	case <-m.gone:
		return nil, m.errGone()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Stop ends the carrier, and tells what the machine used.
func (c *Carried) Stop() (Share, error) {
	c.conn.Close()
	a, err := c.machine.answer()
	if err == nil && a.Share == nil {
		err = c.machine.errGone()
	}
	if err != nil {
		return Share{}, err
	}
	return *a.Share, nil
}
