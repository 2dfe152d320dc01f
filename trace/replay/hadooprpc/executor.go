package hadooprpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/replay"
)

// An Executor speaks Hadoop RPC to one master.
type Executor struct {
	Schema *Schema
	// Address is where the master listens, as host:port. A Resource Manager has
	// three ports in a row, as by default 8030 to 8032: for application masters,
	// nodes and clients.
	Address string
	User    string  // the user of all calls; "hadoop" if empty
	Tokens  *Wallet // of application masters; nil if they log in without
}

// Open makes an executor for "hadoop://host:port?descriptors=FILE&user=NAME". It fails if
// the target does not speak Hadoop RPC. With "nodes=PORT" it also answers for the nodes
// of a Resource Manager, until the context ends.
func Open(ctx context.Context, at *url.URL) (replay.Executor, error) {
	if at.Port() == "" {
		return nil, input.Fieldf("target", "%s: which port?", at.Redacted())
	}
	file := at.Query().Get("descriptors")
	set, err := os.ReadFile(file)
	if err != nil {
		return nil, input.Fieldf("target", "the descriptors of %s: %v", at.Host, err)
	}
	schema, err := ReadSchema(set)
	if err != nil {
		return nil, input.Errorf(file, "%v", err)
	}
	e := &Executor{Schema: schema, Address: at.Host, User: at.Query().Get("user")}
	if err := e.probe(ctx); err != nil {
		return nil, err
	}
	if port := at.Query().Get("nodes"); port != "" {
		return e, e.answerNodes(ctx, port)
	}
	return e, nil
}

// probe asks how to log in, which every master answers.
func (e *Executor) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", e.Address)
	if err != nil {
		return fmt.Errorf("hadoop: %w", err)
	}
	defer c.Close()
	until, _ := ctx.Deadline()
	c.SetDeadline(until)
	if _, err = c.Write(preamble(authSASL)); err == nil {
		_, err = saslTrip(c, bufio.NewReader(c), saslMessage{state: saslNegotiate})
	}
	if err != nil {
		return fmt.Errorf("hadoop: %s: %w: %w", e.Address, errForeign, err)
	}
	return nil
}

// Dial returns the connections of a node: one for each protocol it uses, made with the
// first call and again after it broke. Calls may overlap.
func (e *Executor) Dial(_ context.Context, who replay.Identity) (replay.Conn, error) {
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		return nil, fmt.Errorf("hadoop: %w", err)
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("hadoop: %q is not a port", port)
	}
	return &conn{executor: e, who: who, host: host, port: first}, nil
}

// A conn is all connections of one node to one master.
type conn struct {
	executor *Executor
	who      replay.Identity
	host     string
	port     int

	mu     sync.Mutex
	links  map[string]*link // by protocol
	closed bool
}

// Status codes as the recordings have them.
const (
	statusOK     = "200"
	statusFailed = "500"
)

// Check is an error for a method that the descriptors do not have.
func (e *Executor) Check(method string) error { return e.Schema.Knows(method) }

// Multiplexed marks that calls may overlap.
func (c *conn) Multiplexed() {}

// Call makes one call.
func (c *conn) Call(ctx context.Context, call *trace.Call) (replay.Reply, error) {
	m, err := c.executor.Schema.method(call.Method)
	if err != nil {
		return replay.Reply{}, err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	request, err := m.in.encode((*buf)[:0], call.Request)
	if err != nil {
		return replay.Reply{}, fmt.Errorf("%w: %w", replay.ErrUnsendable, err)
	}
	*buf = request
	a, err := c.send(ctx, m, request)
	if errors.Is(err, errIdle) { // the connection was closed as idle; the next one is new
		a, err = c.send(ctx, m, request)
	}
	if err != nil {
		return replay.Reply{}, fmt.Errorf("hadoop: %s: %w", call.Method, err)
	}
	return reply(m, a)
}

func (c *conn) send(ctx context.Context, m method, request []byte) (answer, error) {
	l, err := c.link(ctx, m.protocol)
	if err != nil {
		return answer{}, err
	}
	return l.call(ctx, m.header, request)
}

// buffers hold what is sent, for as long as a call is under way.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

func reply(m method, a answer) (replay.Reply, error) {
	if a.header.status != succeeded {
		first, _, _ := strings.Cut(a.header.message, "\n")
		return replay.Reply{Status: statusFailed, Message: a.header.class + ": " + first}, nil
	}
	body, _, err := next(a.body)
	if err != nil {
		return replay.Reply{}, err
	}
	leaves, err := m.out.decode(body)
	if err != nil {
		return replay.Reply{}, fmt.Errorf("hadoop: reply to %s: %w", m.name, err)
	}
	return replay.Reply{Leaves: leaves, Status: statusOK}, nil
}

// link is the node's connection for a protocol. It is made if there is none.
func (c *conn) link(ctx context.Context, p protocol) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if l := c.links[p.java]; l != nil && l.alive() {
		return l, nil
	}
	l, err := c.dial(ctx, p)
	if err != nil {
		return nil, err
	}
	if c.links == nil {
		c.links = map[string]*link{}
	}
	c.links[p.java] = l
	return l, nil
}

func (c *conn) dial(ctx context.Context, p protocol) (*link, error) {
	var token *Token
	if p.java == masterProtocol && c.executor.Tokens != nil {
		t, err := c.executor.Tokens.take(ctx, c.who.Sender)
		if err != nil {
			return nil, err
		}
		token = &t
	}
	d := net.Dialer{KeepAlive: -1}
	if ip := net.ParseIP(c.who.Address); ip != nil && ip.IsLoopback() {
		d.LocalAddr = &net.TCPAddr{IP: ip} // the master knows its nodes by where they call from
	}
	nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort(c.host, strconv.Itoa(c.port+p.port)))
	if err != nil {
		return nil, err
	}
	user := c.executor.User
	if user == "" {
		user = "hadoop"
	}
	l, err := open(ctx, nc, user, p.java, token)
	if err != nil {
		nc.Close()
	}
	return l, err
}

// Close ends the node's connections.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, l := range c.links {
		l.fail(net.ErrClosed)
	}
	return nil
}

// masterProtocol is the protocol that needs a token.
const masterProtocol = "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB"

// A Wallet holds the tokens of application masters that have not started yet. One that
// starts takes the oldest.
type Wallet struct {
	mu    sync.Mutex
	free  []Token
	taken map[string]Token
	came  chan struct{} // closed when a token comes
}

// Put adds a token.
func (w *Wallet) Put(t Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, t)
	if w.came != nil {
		close(w.came)
		w.came = nil
	}
}

var errNoToken = errors.New("no token came for this application master")

// take gives a token to an application master, the same if it asks again. It waits if
// there is none.
func (w *Wallet) take(ctx context.Context, who string) (Token, error) {
	for {
		t, came := w.try(who)
		if came == nil {
			return t, nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return Token{}, errors.Join(errNoToken, ctx.Err())
		}
	}
}

func (w *Wallet) try(who string) (t Token, came <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, ok := w.taken[who]; ok {
		return t, nil
	}
	if len(w.free) > 0 {
		if w.taken == nil {
			w.taken = map[string]Token{}
		}
		t, w.free = w.free[0], w.free[1:]
		w.taken[who] = t
		return t, nil
	}
	if w.came == nil {
		w.came = make(chan struct{})
	}
	return Token{}, w.came
}
