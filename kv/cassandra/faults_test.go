package cassandra

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"

	"gleaner/kv/kvtest"
	lab "gleaner/lab/cassandra"
)

// toxics are what networks do to connections.
var toxics = []string{
	`{"type":"reset_peer","stream":"downstream","attributes":{"timeout":20}}`,
	`{"type":"reset_peer","stream":"upstream","attributes":{"timeout":20}}`,
	`{"type":"limit_data","stream":"downstream","attributes":{"bytes":3000}}`,
	`{"type":"limit_data","stream":"upstream","attributes":{"bytes":5000}}`,
	`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`,
	`{"type":"latency","stream":"downstream","attributes":{"latency":300,"jitter":300}}`,
	`{"type":"latency","stream":"upstream","attributes":{"latency":300,"jitter":300}}`,
}

// faults has clients use a store on three nodes while one node at a time is
// killed and started again, or its connections are cut or delayed: what they see is
// linearizable. Each round has one fault and some schedules: a node that was killed takes
// as long to come back as all schedules of a round.
func faults(t *testing.T, c *lab.Cluster) {
	program, err := exec.LookPath("toxiproxy-server")
	if err != nil {
		t.Skip("no toxiproxy-server here; .ci/run builds it from github.com/Shopify/toxiproxy/v2/cmd/server")
	}
	w := newWeather(t, program, c)
	a := address(t, c, "faults")
	set, err := config(a)
	must(t, err)
	set.Timeout = 3 * time.Second // shorter than Cassandra's own, so that more answers are lost
	set.Dialer = dialer{w.dial, 2 * time.Second}
	s, err := open(t.Context(), a, Options{}, set)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	tab := tableOf(t, s, "t")

	const rounds, schedules, killEvery = 10, 20, 3
	var total [2]kvtest.Outcomes // of clients that call the table, and of those that write by a Writer
	for round := range uint64(rounds) {
		began := time.Now()
		rng := rand.New(rand.NewPCG(round, 3))
		healed := make(chan struct{})
		var all sync.WaitGroup
		var lock sync.Mutex
		for i := range uint64(schedules) {
			all.Go(func() {
				seed := round*schedules + i
				o, err := kvtest.UnderFaults(t.Context(), tab, fmt.Sprint("part", seed), seed, healed)
				if err != nil {
					t.Errorf("schedule %d: %v", seed, err)
				}
				lock.Lock()
				defer lock.Unlock()
				total[seed%2].Add(o)
			})
		}
		time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
		what := w.strike(rng, round%killEvery == 0)
		close(healed)
		all.Wait()
		t.Logf("round %d: %s, %.1fs", round, what, time.Since(began).Seconds())
	}
	for i, by := range []string{"by the table", "by a Writer"} {
		o := total[i]
		t.Logf("%d schedules %s: %d calls, %d failed and did nothing, %d writes of unknown outcome, %d calls stayed unknown",
			rounds*schedules/2, by, o.Calls, o.Failed, o.Unknown, o.Left)
		if o.Unknown == 0 {
			t.Error("no outcome was unknown: the faults do not bite")
		}
	}
}

// A weather is what comes over the nodes and the connections to them.
type weather struct {
	t       *testing.T
	cluster *lab.Cluster
	api     string
	proxies map[string]string // node -> its proxy
}

func newWeather(t *testing.T, program string, c *lab.Cluster) *weather {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	host, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	must(t, l.Close())
	cmd := exec.Command(program, "-host", host, "-port", port)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() // it keeps nothing
		cmd.Wait()
	})
	w := &weather{t: t, cluster: c, api: "http://" + net.JoinHostPort(host, port), proxies: map[string]string{}}
	for range 200 {
		if reply, err := http.Get(w.api + "/version"); err == nil {
			reply.Body.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for i, n := range c.Nodes {
		var made struct{ Listen string }
		said := w.ask(http.MethodPost, "/proxies", fmt.Sprintf(`{"name":"n%d","listen":"127.0.0.1:0","upstream":%q,"enabled":true}`, i, n.Address))
		must(t, json.Unmarshal(said, &made))
		w.proxies[n.Address] = made.Listen
	}
	return w
}

// dial connects to a node through its proxy.
func (w *weather) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, w.proxies[address])
}

// strike does one thing to one node, mends it, and says what it was: the node is killed, or its connections suffer.
func (w *weather) strike(rng *rand.Rand, kill bool) string {
	i := rng.IntN(len(w.cluster.Nodes))
	n := w.cluster.Nodes[i]
	if kill {
		n.Kill()
		time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
		must(w.t, n.Restart(w.t.Context()))
		return fmt.Sprintf("node %d killed", i)
	}
	toxic := toxics[rng.IntN(len(toxics))]
	w.ask(http.MethodPost, fmt.Sprintf("/proxies/n%d/toxics", i), `{"name":"it",`+toxic[1:])
	time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
	w.ask(http.MethodDelete, fmt.Sprintf("/proxies/n%d/toxics/it", i), "")
	return fmt.Sprintf("node %d behind %s", i, toxic)
}

func (w *weather) ask(verb, path, body string) []byte {
	w.t.Helper()
	r, err := http.NewRequest(verb, w.api+path, bytes.NewReader([]byte(body)))
	must(w.t, err)
	reply, err := http.DefaultClient.Do(r)
	must(w.t, err)
	defer reply.Body.Close()
	said, err := io.ReadAll(reply.Body)
	must(w.t, err)
	if reply.StatusCode >= 300 {
		w.t.Fatalf("%s %s: %s", verb, path, said)
	}
	return said
}
