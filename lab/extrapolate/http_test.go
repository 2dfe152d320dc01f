package extrapolate

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"gleaner/lab/engine"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/httpcall"
)

// overHTTP is a few nodes that keep a key under a lease, by etcd's JSON gateway;
// keys and values are base64 there. The last step names a lease that does not exist.
const overHTTP = `version: 1
scales: [3, 6]
types:
  - type: node
    nodes: "n"
    sender: node-{node}
    calls:
      - {call: grant#1, target: etcd, method: post /v3/lease/grant, args: {TTL: 60}}
      - {call: put#1, target: etcd, method: post /v3/kv/put, args: {key: 'AAA{node}', value: 'BBB{i}', lease: '{reply "grant#1" "ID"}'}}
      - {call: range#1, target: etcd, method: post /v3/kv/range, args: {key: 'AAA{node}'}}
      - {call: put#2, target: etcd, method: post /v3/kv/put, args: {key: 'CCC{node}', value: '{reply "range#1" "kvs[0].value"}'}}
      - {call: put#3, target: etcd, method: post /v3/kv/put, args: {key: 'DDD{node}', lease: "7"}}
      - {call: keep#1, target: etcd, method: post /v3/lease/keepalive, args: {ID: '{reply "grant#1" "ID"}'}}
      - {call: health#1, target: etcd, method: get /health}
    steps:
      - call: grant#1
      - {call: put#1, repeat: "3"}
      - call: range#1
      - call: put#2
      - call: put#3
      - call: health#1
    beats:
      - {call: keep#1, every: 200}
`

// TestEtcdOverHTTP plays to a real server over HTTP and JSON: values of its replies
// go into later calls, and what it refuses is reported.
func TestEtcdOverHTTP(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to build and play to a real etcd")
	}
	e, _, err := buildEtcd(t.Context(), t.TempDir())
	if errors.Is(err, engine.ErrNoGo) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	at, err := engine.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := e.Start(t.Context(), at, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Stop()
	target, err := httpcall.Open(t.Context(), &url.URL{Scheme: "http", Host: at})
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Read("http.yaml", []byte(overHTTP))
	if err != nil {
		t.Fatal(err)
	}
	setting, err := grow.Resolve(p, grow.Setting{Scale: 5})
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Play(t.Context(), replay.Options{Program: p, Setting: setting, Targets: map[string]replay.Executor{"etcd": target}, For: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]int{"post /v3/lease/grant": 5, "post /v3/kv/put": 25, "post /v3/kv/range": 5, "get /health": 5} {
		if c := find(r.Calls, "node", method); c.Answered != want {
			t.Errorf("%s: %d answered, not %d", method, c.Answered, want)
		}
	}
	keep, put := find(r.Calls, "node", "post /v3/lease/keepalive"), find(r.Calls, "node", "post /v3/kv/put")
	if keep.Answered == 0 || keep.Refused+r.Failed > 0 || len(r.MadeUp)+len(r.Missing) > 0 {
		t.Errorf("%+v; %d without a reply, made up %v, missing %v", keep, r.Failed, r.MadeUp, r.Missing)
	}
	if put.Refused != 5 || !strings.Contains(put.Errors[0].What, "requested lease not found") {
		t.Errorf("of leases that are not there: %d refused, %v", put.Refused, put.Errors)
	}
	conn, err := target.Dial(t.Context(), replay.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Call(t.Context(), &trace.Call{Method: "post /v3/kv/range", Request: []trace.Leaf{{Path: "key", Kind: trace.String, Value: "CCC4"}}})
	if kept, _ := trace.Get(reply.Leaves, "kvs[0].value"); err != nil || kept != "BBB2" {
		t.Errorf("%v: the last node keeps %q, not what it read", err, kept)
	}
}
