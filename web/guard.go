package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"gleaner/web/page"
)

// A Guard protects an API that listens on a network address. It accepts requests
// that have the token, and that:
//
//   - name a host that is ours, so that a page whose name was pointed at this
//     machine (DNS rebinding) is refused;
//   - come from no other site's page;
//   - send no more than MaxBody, and no more often than a person or a script needs.
//
// Pages are protected alike, but by a cookie in place of the token (see Browsers); and a request
// that changes something must show that it comes from one of our pages.
//
// A connection through a Door is a stranger until the guard has seen the token or
// the cookie.
type Guard struct {
	Token string
	// Browsers may see the pages, which are all that is not the API; nil if there
	// are none.
	Browsers *Browsers
	// Host reports whether a host name without its port is ours.
	Host func(name string) bool

	known, strangers bucket
}

// MaxBody is how much a request may send.
const MaxBody = 1 << 20

// How often requests may come. Requests without the token have a separate
// allowance, whatever they ask for, so that they cannot use up that of others. Whoever
// shows a link that is valid counts as known, so that strangers cannot stop logins.
const (
	perSecond          = 100
	strangersPerSecond = 10
)

// Loopback reports whether a host name is a loopback name of this machine.
func Loopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// Wrap guards h.
func (g *Guard) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		ofPages := g.Browsers != nil && !ofAPI(r.URL.Path)
		known := g.authorized(r) || ofPages && g.Browsers.known(r)
		allowance, rate := &g.known, float64(perSecond)
		if !known {
			w.Header().Set("Connection", "close") // a stranger does not keep its place
		}
		if !known && !(ofPages && g.Browsers.invited(r)) {
			allowance, rate = &g.strangers, strangersPerSecond
		}
		code, refuse := g.verdict(r, known, ofPages)
		switch {
		case !allowance.take(time.Now(), rate):
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusTooManyRequests, "too many requests")
		case code == 0 && known && !enter(r):
			w.Header().Set("Connection", "close")
			problem(w, http.StatusServiceUnavailable, "too many connections")
		case code != 0:
			refuse(w)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
			h.ServeHTTP(w, r)
		}
	})
}

// headers are those of every answer. The policy allows nothing but files of ours, and none inline;
// nobody may frame a page, and its address is told to nobody.
var headers = map[string]string{
	"Cache-Control":                "no-store",
	"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// verdict is 0, or the code of a refusal and what writes it.
func (g *Guard) verdict(r *http.Request, known, ofPages bool) (code int, refuse func(http.ResponseWriter)) {
	if ofPages {
		code, why := g.judgePage(r, known)
		return code, func(w http.ResponseWriter) { page.Refuse(w, code, why) }
	}
	code, why := g.judge(r, known)
	return code, func(w http.ResponseWriter) {
		if code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		problem(w, code, "%s", why)
	}
}

// judge returns the reason to refuse r, which has the token if known; 0 if there
// is none.
func (g *Guard) judge(r *http.Request, known bool) (code int, why string) {
	switch {
	case !g.Host(hostName(r.Host)):
		return http.StatusForbidden, "this host is not served here"
	case foreign(r):
		return http.StatusForbidden, "requests from other sites are refused"
	case !known && !open(r.URL.Path):
		return http.StatusUnauthorized, "the token is missing or wrong; it is in the data directory"
	case r.ContentLength > MaxBody:
		return http.StatusRequestEntityTooLarge, "more than a request may send"
	}
	return 0, ""
}

// open reports whether a path needs no token: it says only that gleaner is there.
func open(path string) bool { return path == "/healthz" || path == "/readyz" }

// authorized compares digests in constant time, so that the time reveals neither
// how much of the token is right nor its length.
func (g *Guard) authorized(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && ok && g.Token != ""
}

// foreign reports whether a browser sent r for a page of another site.
func foreign(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return true
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return false
	}
	u, err := url.Parse(origins[0])
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return len(origins) > 1 || err != nil || u.Scheme != scheme || u.Host != r.Host
}

func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// A bucket fills at a rate, holds two seconds' worth, and each request takes
// one drop.
type bucket struct {
	mu    sync.Mutex
	at    time.Time
	drops float64
}

func (b *bucket) take(now time.Time, rate float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.drops = 2 * rate
	} else {
		b.drops = min(b.drops+now.Sub(b.at).Seconds()*rate, 2*rate)
	}
	b.at = now
	if b.drops < 1 {
		return false
	}
	b.drops--
	return true
}
