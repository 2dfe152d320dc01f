// Package cassandra keeps kv tables in a keyspace of Apache Cassandra, by
// lightweight transactions. kv/doc.go says how each promise is kept, and
// docs/decisions/0011-a-kv-table-is-a-cql-table.md why the tables are as they are.
package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/kv"
)

// A Store is a store in a keyspace. Any number of processes may open it at once.
type Store struct {
	at      Address
	session *gocql.Session
	id      gocql.UUID
	clock   func() time.Time
	last    atomic.Int64 // the time of the last unconditional write
}

// now is the time of an unconditional write, in microseconds. It never stands
// still or goes back, so of two writes of this process the later wins.
func (s *Store) now() int64 {
	for {
		last := s.last.Load()
		if now := max(s.clock().UnixMicro(), last+1); s.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// Options say how a store is opened.
type Options struct {
	// Existing: it is an error if there is no store, and none is made.
	Existing bool
}

// Open opens the store at an address, or makes one if the keyspace is empty or
// does not exist. What cannot be a store of ours, or cannot be reached, is an
// input.Error, and is not changed.
func Open(ctx context.Context, a Address, o Options) (*Store, error) {
	c, err := config(a)
	if err != nil {
		return nil, err
	}
	return open(ctx, a, o, c)
}

func open(ctx context.Context, a Address, o Options, c *gocql.ClusterConfig) (*Store, error) {
	s := &Store{at: a, clock: time.Now}
	if err := s.connect(ctx, c); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, o); err != nil {
		s.session.Close()
		return nil, err
	}
	return s, nil
}

// prepare checks what the keyspace holds, and makes what is missing. Several
// processes may do that at once: each makes the very same.
func (s *Store) prepare(ctx context.Context, o Options) error {
	replicas, err := s.replicas(ctx)
	if err != nil {
		return err
	}
	tables, err := s.cqlTables(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(tables) > 0 && !slices.Contains(tables, catalogue):
		return s.refused(fmt.Errorf("keyspace %s is not a gleaner store (it holds the table %s, and no table %s); choose another", s.at.Keyspace, tables[0], catalogue))
	case len(tables) == 0 && o.Existing:
		return s.refused(fmt.Errorf("there is no store in keyspace %s", s.at.Keyspace))
	case replicas != 0 && s.at.Replicas != 0 && replicas != s.at.Replicas:
		return s.refused(fmt.Errorf("keyspace %s has %d replicas in datacenter %s, not %d", s.at.Keyspace, replicas, s.at.DC, s.at.Replicas))
	}
	quorum := replicas/2 + 1
	if nodes := s.nodes(ctx, quorum); nodes < quorum {
		return s.refused(fmt.Errorf("keyspace %s has %d replicas, and datacenter %s has %d nodes: too few for a quorum", s.at.Keyspace, replicas, s.at.DC, nodes))
	}
	if replicas == 0 {
		if err := s.makeKeyspace(ctx); err != nil {
			return err
		}
	}
	if err := s.makeCatalogue(ctx); err != nil {
		return err
	}
	return s.checkFormat(ctx)
}

// replicas is how many replicas the keyspace has in our datacenter, 0 if there is no keyspace.
func (s *Store) replicas(ctx context.Context) (int, error) {
	var replication map[string]string
	err := s.safe(`SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?`, s.at.Keyspace).Consistency(gocql.One).ScanContext(ctx, &replication)
	if errors.Is(err, gocql.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, s.failed("look at", err)
	}
	text := replication[s.at.DC]
	if strings.HasSuffix(replication["class"], "SimpleStrategy") {
		text = replication["replication_factor"]
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, s.refused(fmt.Errorf("keyspace %s has no replicas in datacenter %s", s.at.Keyspace, s.at.DC))
	}
	return n, nil
}

// cqlTables are the names of the CQL tables in the keyspace.
func (s *Store) cqlTables(ctx context.Context) (names []string, err error) {
	rows := s.safe(`SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?`, s.at.Keyspace).Consistency(gocql.One).IterContext(ctx)
	for name := ""; rows.Scan(&name); {
		names = append(names, name)
	}
	if err := rows.Close(); err != nil {
		return nil, s.failed("look at", err)
	}
	return names, nil
}

// usual is how many replicas a new keyspace gets if the address does not say.
const usual = 3

func (s *Store) makeKeyspace(ctx context.Context) error {
	replicas := s.at.Replicas
	if replicas == 0 {
		replicas = usual
	}
	if nodes := s.nodes(ctx, replicas); nodes < replicas {
		return s.refused(fmt.Errorf("datacenter %s has %d nodes, too few for %d replicas; add nodes, or say replicas=%d", s.at.DC, nodes, replicas, nodes))
	}
	return s.change(ctx, fmt.Sprintf(`CREATE KEYSPACE IF NOT EXISTS %q WITH replication = {'class': 'NetworkTopologyStrategy', '%s': %d}`, s.at.Keyspace, s.at.DC, replicas))
}

// nodes is how many nodes our datacenter has, up or not. If there are fewer than
// wanted it looks again for some seconds: a cluster that just started may not know
// all of its nodes yet.
func (s *Store) nodes(ctx context.Context, wanted int) (n int) {
	for range 50 {
		for _, h := range s.session.GetHosts() {
			n = max(n, s.nodesBy(ctx, h))
		}
		if n >= wanted || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return n
}

// nodesBy is how many nodes of our datacenter one of them knows, with itself. The
// driver keeps a list of its own, which it does not always renew after a node has come.
func (s *Store) nodesBy(ctx context.Context, h *gocql.HostInfo) (n int) {
	if h.DataCenter() == s.at.DC {
		n++
	}
	rows := s.safe(`SELECT data_center FROM system.peers`).Consistency(gocql.One).SetHostID(h.HostID()).IterContext(ctx)
	for dc := ""; rows.Scan(&dc); {
		if dc == s.at.DC {
			n++
		}
	}
	_ = rows.Close() // a node that is down; another tells
	return n
}

// checkFormat reads the row of the store, or writes it if it is new.
func (s *Store) checkFormat(ctx context.Context) error {
	row, err := s.claim(ctx, storeRow, fmt.Sprintf(formatText, kv.Format))
	if few := (*gocql.RequestErrUnavailable)(nil); errors.As(err, &few) {
		return s.refused(plain(few))
	}
	if err != nil {
		return err
	}
	var found int
	if _, err := fmt.Sscanf(row.kind, formatText, &found); err != nil || found < 1 || row.kind != fmt.Sprintf(formatText, found) {
		return s.refused(fmt.Errorf("keyspace %s is not a gleaner store: its format is %q", s.at.Keyspace, row.kind))
	}
	if found != kv.Format {
		return s.refused(fmt.Errorf("the store in keyspace %s has format %d; this gleaner has %d", s.at.Keyspace, found, kv.Format))
	}
	s.id = row.id
	return nil
}

// ID is the store's own: no two stores have the same.
func (s *Store) ID() string { return s.id.String() }

// Close closes the connections.
func (s *Store) Close() error {
	s.session.Close()
	return nil
}
