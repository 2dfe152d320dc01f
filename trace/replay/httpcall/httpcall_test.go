package httpcall

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/replay"
)

// TestCalls: a call of an audit log becomes the request that was logged.
func TestCalls(t *testing.T) {
	var heard string
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"resources":[{"name":"pods"},{"name":"nodes"},{"name":"events"}]}`)
	})
	mux.HandleFunc("/apis", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"groups":[{"preferredVersion":{"groupVersion":"coordination.k8s.io/v1"}},{"preferredVersion":{"groupVersion":"events.k8s.io/v1"}},{"preferredVersion":{"groupVersion":"gleaner.dev/v1"}}]}`)
	})
	mux.HandleFunc("/apis/events.k8s.io/v1", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"resources":[{"name":"events"}]}`) })
	mux.HandleFunc("/apis/gleaner.dev/v1", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"resources":[{"name":"harvestjobs"}]}`)
	})
	mux.HandleFunc("/apis/coordination.k8s.io/v1", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"resources":[{"name":"leases"}]}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heard = strings.TrimSpace(fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Content-Type"), " ", string(body)))
		if r.Method == http.MethodDelete {
			w.WriteHeader(404)
			fmt.Fprint(w, `{"kind":"Status","message":"pods \"x\" not found"}`)
			return
		}
		fmt.Fprint(w, `{"metadata":{"uid":"u1","labels":{"a.b/c":"d"}},"items":[{"n":1}]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	at, _ := url.Parse(server.URL)
	e, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	for method, ok := range map[string]bool{"create leases": true, "get": true, "register nodes": false, "beat": false} {
		if err := e.(replay.Checker).Check(method); ok != (err == nil) {
			t.Errorf("%s: %v", method, err)
		}
	}
	c, err := e.Dial(t.Context(), replay.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	str := func(path, value string) trace.Leaf { return trace.Leaf{Path: path, Kind: trace.String, Value: value} }
	for _, tc := range []struct {
		method string
		ask    []trace.Leaf
		heard  string
		want   string
	}{
		{"create leases", []trace.Leaf{str("@namespace", "ns"), str("@name", "n1"), str("@query.timeout", "5s"), str("kind", "Lease"), str(`metadata.labels.a\.b`, "c"), {Path: "spec.list[1]", Kind: trace.Int, Value: "7"}},
			`POST /apis/coordination.k8s.io/v1/namespaces/ns/leases?timeout=5s application/json {"kind":"Lease","metadata":{"labels":{"a.b":"c"}},"spec":{"list":[null,7]}}`,
			`200 [{metadata.uid string u1} {metadata.labels.a\.b/c string d} {items[0].n int 1}] `},
		{"patch pods/status", []trace.Leaf{str("@namespace", "ns"), str("@name", "p"), str("status.phase", "Running")},
			`PATCH /api/v1/namespaces/ns/pods/p/status application/strategic-merge-patch+json {"status":{"phase":"Running"}}`, ""},
		{"get nodes", []trace.Leaf{str("@name", "n1")}, "GET /api/v1/nodes/n1", ""},
		{"watch nodes", []trace.Leaf{str("@name", "n1"), str("@query.watch", "true")}, "GET /api/v1/nodes?watch=true", "200 [] "},
		{"list nodes", []trace.Leaf{str("@name", "n1"), str("@query.fieldSelector", "metadata.name=n1")}, "GET /api/v1/nodes?fieldSelector=metadata.name%3Dn1", ""},
		{"patch nodes", []trace.Leaf{str("@name", "n1")}, "PATCH /api/v1/nodes/n1 application/strategic-merge-patch+json {}", ""},
		{"get /healthz", []trace.Leaf{str("@path", "/healthz/etcd")}, "GET /healthz/etcd", ""},
		{"delete pods", []trace.Leaf{str("@namespace", "ns"), str("@name", "x")}, "DELETE /api/v1/namespaces/ns/pods/x",
			`404 [{kind string Status} {message string pods "x" not found}] pods "x" not found`},
		{"create events", []trace.Leaf{str("@namespace", "ns"), str("apiVersion", "events.k8s.io/v1")}, `POST /apis/events.k8s.io/v1/namespaces/ns/events application/json {"apiVersion":"events.k8s.io/v1"}`, ""},
		{"create events", []trace.Leaf{str("@namespace", "ns"), str("apiVersion", "v1")}, `POST /api/v1/namespaces/ns/events application/json {"apiVersion":"v1"}`, ""},
		{"create pods/binding", []trace.Leaf{str("@namespace", "ns"), str("@name", "p"), str("apiVersion", "else/v1")}, `POST /api/v1/namespaces/ns/pods/p/binding application/json {"apiVersion":"else/v1"}`, ""},
		{"delete nodes", []trace.Leaf{str("@name", "n"), str("kind", "DeleteOptions"), str("apiVersion", "meta.k8s.io/__internal"), {Path: "gracePeriodSeconds", Kind: trace.Int, Value: "0"}},
			`DELETE /api/v1/nodes/n application/json {"gracePeriodSeconds":0}`, ""},
		{"patch nodes", []trace.Leaf{str("@name", "n"), str("[0].op", "remove")}, `PATCH /api/v1/nodes/n application/json-patch+json [{"op":"remove"}]`, ""},
		{"patch harvestjobs", []trace.Leaf{str("@name", "j"), str("a", "b")}, `PATCH /apis/gleaner.dev/v1/harvestjobs/j application/merge-patch+json {"a":"b"}`, ""},
		{"patch nodes", []trace.Leaf{str("@name", "n"), str("@query.force", "true"), str("a", "b")}, `PATCH /api/v1/nodes/n?force=true application/apply-patch+yaml {"a":"b"}`, ""},
		{"post widgets", []trace.Leaf{str("a", "b")}, `POST /widgets application/json {"a":"b"}`, ""},
	} {
		got, err := c.Call(t.Context(), &trace.Call{Method: tc.method, Request: tc.ask})
		if err != nil {
			t.Fatal(err)
		}
		if heard != tc.heard {
			t.Errorf("%s: the server heard %s\nnot %s", tc.method, heard, tc.heard)
		}
		if text := fmt.Sprint(got.Status, " ", got.Leaves, " ", got.Message); tc.want != "" && text != tc.want {
			t.Errorf("%s: %s, not %s", tc.method, text, tc.want)
		}
	}
}

// TestBadTargets: a target that is not there, and one that refuses the login.
func TestBadTargets(t *testing.T) {
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }))
	defer closed.Close()
	for address, want := range map[string]string{closed.URL: "the login is refused: 401", "http://127.0.0.1:1": "connection refused"} {
		at, _ := url.Parse(address)
		if _, err := Open(t.Context(), at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
