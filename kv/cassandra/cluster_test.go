package cassandra

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"gleaner/kv"
	lab "gleaner/lab/cassandra"
	"gleaner/lab/maven"
)

// newCluster starts a real cluster on addresses of its own; it ends with the
// test. Without Java, or without the jars and without Maven, the test is skipped.
func newCluster(t testing.TB, nodes int, more string) *lab.Cluster {
	t.Helper()
	return newClusterAt(t, loopback(), nodes, more)
}

func newClusterAt(t testing.TB, first netip.AddrPort, nodes int, more string) *lab.Cluster {
	t.Helper()
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to fetch Cassandra's jars and start it; it takes minutes")
	}
	cache, err := maven.Cache()
	must(t, err)
	lib, err := lab.Fetch(t.Context(), cache, nil)
	if errors.Is(err, maven.ErrMissing) {
		t.Skip(err)
	}
	must(t, err)
	data, err := os.MkdirTemp("", "cassandra-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(data) })
	c, err := lab.Start(t.Context(), lib, lab.Setting{Data: data, Nodes: nodes, First: first, Heap: "512m", Phi: 6, More: more})
	must(t, err)
	t.Cleanup(c.Kill)
	return c
}

// loopback is an address that nobody else uses, with free ones after it. Its port is not Cassandra's usual one: others may listen there, on all addresses.
func loopback() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(256)), 1}), uint16(20_000+rand.IntN(10_000)))
}

// address is that of a store in a keyspace of the cluster.
func address(t testing.TB, c *lab.Cluster, keyspace string) Address {
	t.Helper()
	a, err := Parse(c.Store(keyspace))
	must(t, err)
	return a
}

var keyspaces atomic.Int64

// openNew opens a new store, which is closed when the test ends.
func openNew(t testing.TB, c *lab.Cluster) *Store {
	t.Helper()
	return openAt(t, address(t, c, fmt.Sprint("test", keyspaces.Add(1))))
}

func openAt(t testing.TB, a Address) *Store {
	t.Helper()
	s, err := Open(t.Context(), a, Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tableOf gives a table of a store.
func tableOf(t testing.TB, s kv.Store, name string) kv.Table {
	t.Helper()
	tab, err := s.Table(context.WithoutCancel(t.Context()), name)
	must(t, err)
	return tab
}

func says(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one that says %q", err, want)
	}
}
