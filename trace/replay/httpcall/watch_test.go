package httpcall

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"gleaner/trace"
	"gleaner/trace/replay"
)

// TestWatches: a watch is answered when it opens, its events are counted, it is opened
// again when the server ends it, from then on, and it ends with its node.
func TestWatches(t *testing.T) {
	asked, end := make(chan string), make(chan bool)
	mux := http.NewServeMux()
	mux.HandleFunc("/nodes", func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.URL.RawQuery:
		case <-r.Context().Done():
			return
		}
		fmt.Fprint(w, "{\"type\":\"ADDED\"}\n{\"type\":\"MODIFIED\"}\n")
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
			end <- true
		}
	})
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) })
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	defer server.Close()
	at, _ := url.Parse(server.URL)
	e, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Dial(t.Context(), replay.Identity{Sender: "n"})
	if err != nil {
		t.Fatal(err)
	}
	str := func(path, value string) trace.Leaf { return trace.Leaf{Path: path, Kind: trace.String, Value: value} }
	queries := make(chan []string)
	go func() {
		first := <-asked
		end <- true // the server ends the watch
		queries <- []string{first, <-asked}
	}()
	reply, err := c.Call(t.Context(), &trace.Call{Method: "watch nodes", Request: []trace.Leaf{
		str("@query.watch", "true"), str("@query.resourceVersion", "7"), str("@query.sendInitialEvents", "true"), str("@query.resourceVersionMatch", "NotOlderThan")}})
	if err != nil || reply.Status != "200" {
		t.Fatal(reply, err)
	}
	if got := <-queries; !slices.Equal(got, []string{"resourceVersion=7&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true", "watch=true"}) {
		t.Errorf("asked for %q", got)
	}
	watched := e.(interface{ Watched() Watched }).Watched
	for watched().Events < 4 { // two each time
		time.Sleep(time.Millisecond)
	}
	if got := watched(); got != (Watched{Open: 1, Opened: 1, Reopened: 1, Events: 4}) {
		t.Errorf("%+v", got)
	}
	if reply, err := c.Call(t.Context(), &trace.Call{Method: "watch gone"}); err != nil || reply.Status != "410" {
		t.Error(reply, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-end // the server was told
	if got := watched().Open; got != 0 {
		t.Errorf("%d are open", got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
