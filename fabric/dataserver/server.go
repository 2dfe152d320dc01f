package dataserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"gleaner/fabric/conn"
)

const (
	defaultConnections = 1024
	readAhead          = 64 << 10
	lookEvery          = time.Second

	// mostInHand is how many bytes a disk has in hand at most, and requestCost what a
	// request counts for at least, which makes it 256 requests.
	mostInHand  = 64 << 20
	requestCost = mostInHand / 256

	// window is how much of it a client takes at most: 64 requests. A server allows twice as
	// much, since it counts a request until after the client has its answer.
	window = mostInHand / 4
)

// Options are what a server may be told beside its disks.
type Options struct {
	Busy        func() bool  // whether the primary needs the machine; asked at each request, so it must be fast; nil means never
	Connections int          // the most that are served; 0 means 1,024
	Log         *slog.Logger // says who came and why they left; nil says nothing
}

// A server is one call of Serve.
type server struct {
	cluster     Cluster
	options     Options
	log         *slog.Logger
	disks       map[string]*served
	order       []*served // as Serve was given them
	connections atomic.Int64
}

// served is a disk of a server.
type served struct {
	*LocalDisk
	room   *semaphore.Weighted // of mostInHand
	looked atomic.Pointer[look]
}

// A look is what was seen of a disk.
type look struct {
	at   time.Time
	beat DiskBeat
}

// Serve lets clients of the cluster use disks until ctx ends, and then until the requests under way
// are done. It closes the listener, not the disks. Its error is that of the listener.
func Serve(ctx context.Context, l net.Listener, cluster Cluster, disks []*LocalDisk, options Options) error {
	if _, ok := l.(*tlsListener); !ok && !conn.WithinMachine(l.Addr()) {
		l.Close()
		return fmt.Errorf("dataserver: %s can be reached from other machines, which needs TLS", l.Addr())
	}
	s := &server{cluster: cluster, options: options, log: options.Log, disks: map[string]*served{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.options.Busy == nil {
		s.options.Busy = func() bool { return false }
	}
	if s.options.Connections == 0 {
		s.options.Connections = defaultConnections
	}
	looking, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stop()
	for _, d := range disks {
		at := &served{LocalDisk: d, room: semaphore.NewWeighted(mostInHand)}
		s.disks[d.disk.Identity().Disk] = at
		s.order = append(s.order, at)
		at.look()
		watchers.Go(func() { at.watch(looking) })
	}
	if err := conn.Serve(ctx, l, s.serve); err != nil {
		return fmt.Errorf("dataserver: %w", err)
	}
	return nil
}

// watch looks at the disk now and then, so that a beat need not.
func (d *served) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.look()
		}
	}
}

func (d *served) look() {
	id := d.disk.Identity()
	id.Salt = 0
	usage := d.disk.Usage()
	beat := DiskBeat{Identity: id, Used: usage.Used, Groups: usage.Groups, Rotten: usage.Rotten}
	free, err := d.disk.Free()
	beat.Free = free
	if failure := d.disk.Failure(); failure != nil {
		err = failure
	}
	if err != nil {
		beat.Failed = err.Error()
	}
	d.looked.Store(&look{time.Now(), beat})
}

func (s *server) beat() Beat {
	b := Beat{Busy: s.options.Busy(), Disks: []DiskBeat{}}
	for _, d := range s.order {
		seen := d.looked.Load()
		beat := seen.beat
		beat.Age = time.Since(seen.at)
		b.Disks = append(b.Disks, beat)
	}
	return b
}

// serve speaks with one client from its first byte to its last.
func (s *server) serve(c *conn.Client) {
	log := s.log.With("client", c.RemoteAddr().String())
	session, err := s.shakeHands(c)
	if err != nil {
		log.Info("dataserver: handshake failed", "err", err)
		return
	}
	defer s.connections.Add(-1)
	defer session.cancel()
	log.Info("dataserver: client came", "disk", session.name)
	err = session.lead.Run()
	session.Flush()
	log.Info("dataserver: client left", "disk", session.name, "err", err)
}

// shakeHands finds out what a client of the cluster wants.
func (s *server) shakeHands(c *conn.Client) (*session, error) {
	ctx, cancel := c.Handshaking()
	defer cancel()
	p, err := newPact(ctx, c.Conn, s.cluster)
	if err != nil {
		return nil, err
	}
	name, err := p.hear(c)
	if err != nil {
		return nil, err
	}
	d := s.disks[name]
	if d == nil && name != "" {
		p.welcome(c, noSuchDisk, nil)
		return nil, fmt.Errorf("%w: %q", ErrNoDisk, name)
	}
	if s.connections.Add(1) > int64(s.options.Connections) {
		s.connections.Add(-1)
		p.welcome(c, tooMany, nil)
		return nil, fmt.Errorf("%d connections are the most", s.options.Connections)
	}
	if err := p.welcome(c, welcomed, d.introduction()); err != nil {
		s.connections.Add(-1)
		return nil, err
	}
	c.Welcome()
	return newSession(c, s, d, name), nil
}

// introduction is what a client is told of the disk that it asked for.
func (d *served) introduction() []byte {
	if d == nil {
		return nil
	}
	text, err := json.Marshal(d.looked.Load().beat.Identity)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

func newSession(c *conn.Client, s *server, d *served, name string) *session {
	widen(c.Conn)
	out := conn.NewReplies(c.Conn)
	x := &session{server: s, disk: d, name: name, out: out, room: semaphore.NewWeighted(2 * window), in: bufio.NewReaderSize(out, readAhead)}
	x.ctx, x.cancel = context.WithCancel(c.Working)
	x.lead = conn.NewLead(x, int(ops), mostInHand/requestCost)
	return x
}
