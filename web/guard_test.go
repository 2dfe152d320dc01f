package web

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/harvest"
)

func TestGuardRefuses(t *testing.T) {
	const token = "0123456789abcdef"
	for _, tc := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"nothing wrong", func(*http.Request) {}, http.StatusOK},
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"an empty token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, http.StatusUnauthorized},
		{"a wrong token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer 0123456789abcdeX") }, http.StatusUnauthorized},
		{"the beginning of the token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer 0123") }, http.StatusUnauthorized},
		{"the token without its scheme", func(r *http.Request) { r.Header.Set("Authorization", token) }, http.StatusUnauthorized},
		{"health needs no token", func(r *http.Request) { r.Header.Del("Authorization"); r.URL.Path = "/healthz" }, http.StatusOK},
		{"a rebound host", func(r *http.Request) { r.Host = "evil.example:7070" }, http.StatusForbidden},
		{"a host that looks like ours", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, http.StatusForbidden},
		{"no host", func(r *http.Request) { r.Host = "" }, http.StatusForbidden},
		{"localhost", func(r *http.Request) { r.Host = "localhost:7070" }, http.StatusOK},
		{"IPv6 loopback", func(r *http.Request) { r.Host = "[::1]:7070" }, http.StatusOK},
		{"IPv6 loopback without port", func(r *http.Request) { r.Host = "[::1]" }, http.StatusOK},
		{"a foreign origin", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		{"an origin of another port", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8080") }, http.StatusForbidden},
		{"the null origin of a sandbox", func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		{"two origins", func(r *http.Request) { r.Header["Origin"] = []string{"http://127.0.0.1:7070", "https://evil.example"} }, http.StatusForbidden},
		{"our own origin", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:7070") }, http.StatusOK},
		{"our own origin, without TLS where there is TLS", func(r *http.Request) {
			r.TLS = &tls.ConnectionState{}
			r.Header.Set("Origin", "http://127.0.0.1:7070")
		}, http.StatusForbidden},
		{"another site's page", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		{"a sibling site's page", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		{"a body of 100 MB", func(r *http.Request) { r.ContentLength = 100 << 20 }, http.StatusRequestEntityTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &Guard{Token: token, Host: Loopback}
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7070/api/v1/jobs", strings.NewReader("x"))
			r.Header.Set("Authorization", "Bearer "+token)
			tc.change(r)
			w := httptest.NewRecorder()
			reached := false
			g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })).ServeHTTP(w, r)
			if w.Code != tc.want || reached != (tc.want == http.StatusOK) {
				t.Errorf("%d, want %d; reached: %v", w.Code, tc.want, reached)
			}
		})
	}
}

func TestGuardWithoutATokenLetsNobodyIn(t *testing.T) {
	g := &Guard{Host: Loopback}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7070/api/v1/jobs", nil)
	r.Header.Set("Authorization", "Bearer ")
	if code, _ := g.judge(r, g.authorized(r)); code != http.StatusUnauthorized {
		t.Errorf("%d", code)
	}
}

// Profiles need the token, as the API does.
func TestProfilesNeedTheToken(t *testing.T) {
	g := &Guard{Token: "secret", Host: Loopback, Browsers: &Browsers{}}
	api := (&API{Board: board.New(harvest.Reserve{}), Harvested: func() cluster.Resources { return cluster.Resources{} }, Machine: noMachine{}}).Handler()
	h := g.Wrap(g.Browsers.Handler(api, http.NotFoundHandler()))
	for token, want := range map[string]int{"secret": http.StatusOK, "guess": http.StatusUnauthorized} {
		for _, path := range []string{"", "heap", "goroutine?debug=1"} {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/debug/pprof/"+path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%q with %q: %d", path, token, w.Code)
			}
		}
	}
}

// noMachine is one that nobody asks.
type noMachine struct{ Machine }

func (noMachine) Cancel(cluster.JobID) error   { return nil }
func (noMachine) Pause(cluster.JobID) error    { return nil }
func (noMachine) Continue(cluster.JobID) error { return nil }
func (noMachine) Drain() error                 { return nil }
func (noMachine) Refill() error                { return nil }

// Strangers are slowed down, and cannot slow down clients with the token, whatever
// they ask for.
func TestRates(t *testing.T) {
	for _, path := range []string{"/api/v1/status", "/healthz", "/readyz"} {
		t.Run(path, func(t *testing.T) {
			g := &Guard{Token: "secret", Host: Loopback}
			h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			ask := func(path, token string) int {
				r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
				r.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w.Code
			}
			refused := 0
			for range 800 {
				if ask(path, "guess") == http.StatusTooManyRequests {
					refused++
				}
			}
			if refused < 700 {
				t.Errorf("of 800 requests in a row without the token only %d were too many", refused)
			}
			for range 60 {
				if code := ask("/api/v1/status", "secret"); code != http.StatusOK {
					t.Fatalf("who has the token gets %d", code)
				}
			}
			if code := ask(path, "secret"); code != http.StatusOK {
				t.Errorf("who has the token gets %d from %s", code, path)
			}
		})
	}
}

// A bad request with the token does not make its sender a stranger.
func TestMistakesOfTheKnownAreTheirOwn(t *testing.T) {
	g := &Guard{Token: "secret", Host: Loopback}
	h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 100 {
		r := httptest.NewRequest(http.MethodGet, "http://evil.example/api/v1/status", nil)
		r.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Fatalf("%d", w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/healthz", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("a stranger gets %d", w.Code)
	}
}

func TestBucket(t *testing.T) {
	var b bucket
	at := time.Unix(0, 0)
	took := 0
	for range 100 {
		if b.take(at, 10) {
			took++
		}
	}
	if took != 20 {
		t.Errorf("%d at once, want two seconds' worth", took)
	}
	if !b.take(at.Add(time.Second), 10) {
		t.Error("a second later there is nothing")
	}
}
