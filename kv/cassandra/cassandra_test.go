package cassandra

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/kvtest"
	lab "gleaner/lab/cassandra"
)

func TestOneNode(t *testing.T) {
	t.Parallel() // with the others that wait
	c := newCluster(t, 1, "")
	for name, test := range map[string]func(*testing.T, *lab.Cluster){
		"Conformance": conformance, "Tokens": tokens, "LargeScan": largeScan, "Refusals": refuses, "LateTable": lateTable, "Flaws": flaws,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait most of the time
			test(t, c)
		})
	}
}

func TestThreeNodes(t *testing.T) {
	c := newCluster(t, 3, "")
	t.Run("Conformance", func(t *testing.T) { conformance(t, c) })
	t.Run("Together", func(t *testing.T) { together(t, c) })
	t.Run("Faults", func(t *testing.T) { faults(t, c) })
	t.Run("TwoDown", func(t *testing.T) { twoDown(t, c) })
}

// conformance runs the whole suite. Tests of what names a store has get one of their own.
func conformance(t *testing.T, c *lab.Cluster) {
	var stores atomic.Int64
	shared := openNew(t, c)
	kvtest.Run(t, func(t testing.TB) kv.Store {
		if strings.HasSuffix(t.Name(), "/Names") || strings.HasSuffix(t.Name(), "/Drop") {
			return openNew(t, c)
		}
		return room{shared, fmt.Sprint("room", stores.Add(1))}
	})
}

// A room is a store in tables of another: to make a keyspace takes nodes seconds.
type room struct {
	*Store
	name string
}

func (r room) Table(ctx context.Context, name string) (kv.Table, error) {
	return r.Store.Table(ctx, r.name+name)
}

func (r room) LooseTable(ctx context.Context, name string) (kv.LooseTable, error) {
	return r.Store.LooseTable(ctx, r.name+name)
}

// tokens: a part has the token here that Cassandra gives it.
func tokens(t *testing.T, c *lab.Cluster) {
	s := openNew(t, c)
	l, err := s.LooseTable(t.Context(), "l")
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	var records []kv.Record
	for size := 1; size <= 50; size++ {
		for range 4 {
			part := make([]byte, size)
			for i := range part {
				part[i] = byte(rng.Uint32())
			}
			records = append(records, kv.Record{Key: kv.Key{Part: part}})
		}
	}
	must(t, l.Put(t.Context(), records...))
	e, err := s.find(t.Context(), "l")
	must(t, err)
	rows := s.safe(`SELECT part, token(part) FROM ` + s.cql(e.cqlName())).Iter()
	n := 0
	for part, theirs := []byte(nil), int64(0); rows.Scan(&part, &theirs); part = nil {
		if ours := tokenOf(part).cql(); ours != theirs {
			t.Errorf("part %x: token %d, Cassandra says %d", part, ours, theirs)
		}
		n++
	}
	must(t, rows.Close())
	if n < 190 {
		t.Errorf("compared %d tokens", n)
	}
}

// lateTable: a write waits for a table that its node does not know yet.
func lateTable(t *testing.T, c *lab.Cluster) {
	s := openNew(t, c)
	late := strict{newTable(s, "late", s.cql("late"), false)}
	made := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() {
		made <- s.createTable(t.Context(), "late", gocql.TimeUUID(), columns(false))
	})
	key := kv.Key{Part: []byte("p")}
	v, err := kv.NewWriter(1).Create(t.Context(), late, key, []byte("x")) // it may come while the node learns of the table, and fail in between
	must(t, err)
	must(t, <-made)
	r, err := late.Get(t.Context(), key)
	if must(t, err); r.Version != v {
		t.Errorf("it reads %+v", r)
	}
}

// largeScan: a scan of many pages, in many parts and in one, gives each record
// once and in order, whole, in pieces and resumed in the middle.
func largeScan(t *testing.T, c *lab.Cluster) {
	const parts, small, large = 5000, 4, 30_000
	s := openNew(t, c)
	l, err := s.LooseTable(t.Context(), "l")
	must(t, err)
	var records []kv.Record
	for i := range parts * small {
		records = append(records, kv.Record{Key: kv.Key{Part: fmt.Appendf(nil, "part%d", i/small), Row: []byte{byte(i % small)}}, Value: make([]byte, 20)})
	}
	for i := range large {
		records = append(records, kv.Record{Key: kv.Key{Part: []byte("large"), Row: binary.BigEndian.AppendUint32(nil, uint32(i))}})
	}
	must(t, l.Put(t.Context(), records...))
	seen := func(r kv.Range, stopAfter int) (keys []string, last kv.Key) {
		for r, err := range l.Scan(t.Context(), r) {
			must(t, err)
			keys = append(keys, fmt.Sprintf("%s/%x", r.Key.Part, r.Key.Row))
			if last = r.Key; len(keys) == stopAfter {
				break
			}
		}
		return keys, last
	}
	whole, _ := seen(kv.Range{}, 0)
	if len(whole) != len(records) {
		t.Fatalf("the scan gives %d of %d records", len(whole), len(records))
	}
	for _, stop := range []int{1, 31, 32, 33, 5000, len(whole) / 2, len(whole) - 1, len(whole)} {
		first, last := seen(kv.Range{}, stop)
		rest, _ := seen(l.Rest(kv.Range{}, last), 0)
		if !slices.Equal(append(first, rest...), whole) {
			t.Errorf("stopped after %d, the rest has %d", stop, len(rest))
		}
	}
	var pieces []string
	ranges, err := l.Split(t.Context(), 7)
	must(t, err)
	for _, r := range ranges {
		keys, _ := seen(r, 0)
		pieces = append(pieces, keys...)
	}
	if !slices.Equal(pieces, whole) {
		t.Errorf("in pieces, the table has %d records", len(pieces))
	}
}

// refuses: what cannot be a store of ours is refused in one line, and stays as it is.
func refuses(t *testing.T, c *lab.Cluster) {
	ctx := t.Context()
	s := openNew(t, c)
	exec := func(stmt string, values ...any) {
		t.Helper()
		must(t, s.session.Query(stmt, values...).Exec())
	}
	refused := func(a Address, o Options, want string) {
		t.Helper()
		got, err := Open(ctx, a, o)
		if err == nil {
			got.Close()
		}
		if !input.Is(err) {
			t.Errorf("%s: %v is not an input error", a, err)
		}
		says(t, err, want)
	}
	at := func(keyspace string) Address { return address(t, c, keyspace) }

	refused(Address{Hosts: []string{"127.9.9.9:9"}, Keyspace: "x"}, Options{}, "no host answers")
	refused(at("never"), Options{Existing: true}, "there is no store in keyspace never")
	if n, err := s.replicas(ctx); err != nil || n != 1 {
		t.Errorf("%d replicas, %v", n, err)
	}
	three := at("three")
	three.Replicas = 3
	refused(three, Options{}, "datacenter datacenter1 has 1 nodes, too few for 3 replicas")
	elsewhere := at("x")
	elsewhere.DC = "mars"
	refused(elsewhere, Options{}, "it has no datacenter mars, but datacenter1")

	exec(`CREATE KEYSPACE foreign WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`)
	exec(`CREATE TABLE foreign.people (name text PRIMARY KEY)`)
	refused(at("foreign"), Options{}, "is not a gleaner store (it holds the table people")

	exec(`CREATE KEYSPACE lonely WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}`)
	lonely := at("lonely")
	refused(lonely, Options{}, "has 3 replicas in datacenter datacenter1, not 1")
	lonely.Replicas = 0
	refused(lonely, Options{}, "keyspace lonely has 3 replicas, and datacenter datacenter1 has 1 nodes: too few for a quorum")

	newer := openAt(t, at("newer"))
	exec(fmt.Sprintf(`UPDATE %s SET kind = 'format 99' WHERE name = ?`, newer.cql(catalogue)), storeRow)
	refused(at("newer"), Options{}, "has format 99; this gleaner has 2")

	s.clock = func() time.Time { return time.Now().Add(5 * time.Minute) }
	err := s.clocks(ctx)
	if says(t, err, "and of this machine are 5m0s apart; at most 10s will do"); !input.Is(err) {
		t.Errorf("%v is not an input error", err)
	}
	s.clock = time.Now

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Open(cancelled, at("x"), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("opened under a cancelled context: %v", err)
	}
	tables, err := s.cqlTables(ctx)
	must(t, err)
	if !slices.Equal(tables, []string{catalogue}) {
		t.Errorf("the store has %v", tables)
	}
}

// flaws: tables that are gone and entries that nobody knows are told of, and stay as they are.
func flaws(t *testing.T, c *lab.Cluster) {
	ctx, s := t.Context(), openNew(t, c)
	for _, name := range []string{"kept", "gone"} {
		tableOf(t, s, name)
	}
	must(t, s.Drop(ctx, "kept"))
	tableOf(t, s, "kept")
	is := func(want ...string) {
		t.Helper()
		if got, err := s.Flaws(ctx); err != nil || !slices.Equal(got, want) {
			t.Errorf("flaws %q, %v; want %q", got, err, want)
		}
	}
	is()
	e, err := s.find(ctx, "gone")
	must(t, err)
	must(t, s.change(ctx, `DROP TABLE `+s.cql(e.cqlName())))
	must(t, s.session.Query(fmt.Sprintf(`INSERT INTO %s (name, kind) VALUES ('odd', 'heap')`, s.cql(catalogue))).Exec())
	for range 2 {
		is("table gone is not there: somebody dropped it, or who made it ended before it was", `table odd is of kind "heap", which this gleaner does not know`)
	}
}

// TestBehind: a node that does not answer is asked again, unless the caller or the store has ended.
func TestBehind(t *testing.T) {
	for err, want := range map[error]bool{
		gocql.ErrNoConnections: true, gocql.ErrConnectionClosed: true, gocql.ErrTimeoutNoResponse: true, net.ErrClosed: true, io.ErrUnexpectedEOF: true,
		context.Canceled: false, context.DeadlineExceeded: false, gocql.ErrSessionClosed: false,
	} {
		if got := behind(fmt.Errorf("kv: %w", err)); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// together: many processes open a store that is not there yet, each through
// another node first, and ask for the same tables: all get the same.
func together(t *testing.T, c *lab.Cluster) {
	const processes, tables = 6, 4
	ctx, a := t.Context(), address(t, c, "together")
	stores := make([]*Store, processes)
	errs := make([]error, processes)
	var all sync.WaitGroup
	for i := range stores {
		all.Go(func() {
			mine := a
			mine.Hosts = slices.Concat(a.Hosts[i%3:], a.Hosts[:i%3])
			if stores[i], errs[i] = Open(ctx, mine, Options{}); errs[i] != nil {
				return
			}
			for n := range tables {
				tab, err := stores[i].Table(ctx, fmt.Sprint("t", n))
				if err == nil {
					err = tab.CompareAndSet(ctx, kv.Key{Part: []byte("p"), Row: []byte{byte(i)}}, kv.Version{}, kv.Version{Writer: uint64(i + 1), Seq: 1}, nil)
				}
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	all.Wait()
	must(t, errors.Join(errs...))
	for i, s := range stores {
		if s.ID() != stores[0].ID() {
			t.Errorf("process %d opened another store", i)
		}
		for n := range tables {
			rows := 0
			for _, err := range tableOf(t, s, fmt.Sprint("t", n)).Scan(ctx, kv.Range{}) {
				must(t, err)
				rows++
			}
			if rows != processes {
				t.Errorf("process %d sees %d of %d records in table %d", i, rows, processes, n)
			}
		}
		must(t, s.Close())
	}
}

// twoDown: with one node down all goes on, new tables too. With too few replicas a
// write fails, and surely was not applied; when they are back all goes on.
func twoDown(t *testing.T, c *lab.Cluster) {
	ctx, s := t.Context(), openNew(t, c)
	tab, key := tableOf(t, s, "t"), kv.Key{Part: []byte("p")}
	v1, v2 := kv.Version{Writer: 1, Seq: 1}, kv.Version{Writer: 1, Seq: 2}
	must(t, tab.CompareAndSet(ctx, key, kv.Version{}, v1, nil))
	c.Nodes[1].Kill()
	_, err := kv.NewWriter(8).Set(ctx, tableOf(t, s, "made"), key, kv.Version{}, nil)
	must(t, err)
	c.Nodes[2].Kill()
	var few *gocql.RequestErrUnavailable
	for range 60 { // until the last node has noticed
		err = tab.CompareAndSet(ctx, key, v1, v2, nil)
		if errors.As(err, &few) {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	if !errors.As(err, &few) || errors.Is(err, kv.ErrUnknown) {
		t.Errorf("got error %v", err)
	}
	says(t, err, "1 of the 2 replicas that SERIAL needs are up")
	_, err = Open(ctx, s.at, Options{})
	says(t, err, "1 of the 2 replicas that SERIAL needs are up")
	var restarts sync.WaitGroup
	var up [2]error
	for i := range up {
		restarts.Go(func() { up[i] = c.Nodes[i+1].Restart(ctx) })
	}
	restarts.Wait()
	must(t, errors.Join(up[:]...))
	for range 60 {
		if _, err = kv.NewWriter(7).Update(ctx, tab, key, func(kv.Record) ([]byte, error) { return []byte("on"), nil }); err == nil {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	must(t, err)
}
