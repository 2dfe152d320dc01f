package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"gleaner/web/page"
)

// Browsers are let in to the pages. A browser shows the token of a link, which is
// spent by that, and gets a cookie in its place. Only digests of both are kept, in
// memory: after a restart everybody needs a new link.
type Browsers struct {
	Now func() time.Time // nil means time.Now

	mu       sync.Mutex
	links    tickets
	sessions tickets
}

// How long a link that is not used and a cookie are valid, and how many there may
// be; the oldest is given up for another.
const (
	linkLasts    = time.Hour
	sessionLasts = 7 * 24 * time.Hour
	mostTickets  = 64
)

// LoginPath is where a link leads, with its token in the query.
const LoginPath = "/login"

// A ticket is a secret's digest and until when it is valid. Whoever looks a digest
// up learns nothing of the secret by how long that takes.
type ticket struct {
	digest [sha256.Size]byte
	until  time.Time
	ended  chan struct{} // closed when it is given up before that
}

// tickets are those of one kind, the oldest first.
type tickets []ticket

// issue makes a secret.
func (t *tickets) issue(now time.Time, lasts time.Duration) string {
	var random [32]byte
	rand.Read(random[:])
	secret := hex.EncodeToString(random[:])
	*t = append(*t, ticket{sha256.Sum256([]byte(secret)), now.Add(lasts), make(chan struct{})})
	for len(*t) > mostTickets {
		t.drop(0)
	}
	return secret
}

// find is the index of a secret that is valid; -1 if it is not.
func (t tickets) find(secret string, now time.Time) int {
	digest := sha256.Sum256([]byte(secret))
	for i, one := range t {
		if one.digest == digest && now.Before(one.until) {
			return i
		}
	}
	return -1
}

func (t *tickets) drop(i int) {
	close((*t)[i].ended)
	*t = append((*t)[:i:i], (*t)[i+1:]...)
}

func (b *Browsers) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// Link is an address that lets one browser in, once. base is that of the server.
func (b *Browsers) Link(base string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return base + LoginPath + "?token=" + b.links.issue(b.now(), linkLasts)
}

// A Link is the answer to POST /api/v1/link.
type Link struct {
	URL string `json:"url"`
}

// LinkTo answers requests for a link; base is "" if the pages are not served.
func (b *Browsers) LinkTo(base string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if base == "" {
			problem(w, http.StatusConflict, "there is no page: gleaner was started without a network address")
			return
		}
		answer(w, http.StatusCreated, Link{b.Link(base)})
	}
}

// exchange spends the token of a link for a session.
func (b *Browsers) exchange(token string) (session string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.links.find(token, b.now())
	if i < 0 {
		return "", false
	}
	b.links.drop(i)
	return b.sessions.issue(b.now(), sessionLasts), true
}

// invited reports whether r logs in with a link that is valid, which is not spent by that.
func (b *Browsers) invited(r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL.Path != LoginPath {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.links.find(r.URL.Query().Get("token"), b.now()) >= 0
}

// known reports whether r has the cookie of a session.
func (b *Browsers) known(r *http.Request) bool {
	_, _, ok := b.session(r)
	return ok
}

// cookieName has the port in it, because browsers send a cookie to all ports of a host: each gleaner
// of a machine has its own.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	if r.TLS != nil {
		return "__Host-gleaner-" + port
	}
	return "gleaner-" + port
}

func (b *Browsers) cookie(r *http.Request, session string, lasts time.Duration) *http.Cookie {
	return &http.Cookie{Name: cookieName(r), Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil, MaxAge: int(lasts.Seconds())}
}

// Handler serves the API and pages beside it, and logs in and out. Guard checks who
// may see what.
func (b *Browsers) Handler(api, pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/api/", profilePath, metricsPath, "/healthz", "/readyz"} {
		mux.Handle(path, api)
	}
	mux.HandleFunc("GET "+LoginPath, b.logIn)
	mux.HandleFunc("POST /logout", b.logOut)
	mux.Handle("/", b.whileLoggedIn(pages))
	return mux
}

// whileLoggedIn ends a request with its session: who logs out does not go on following a log.
func (b *Browsers) whileLoggedIn(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, left, ok := b.session(r)
		if !ok { // it has the API's token, or asks for what anyone may see
			pages.ServeHTTP(w, r)
			return
		}
		ctx, stop := context.WithTimeout(r.Context(), left)
		defer stop()
		go func() {
			select {
			case <-session.ended:
				stop()
			case <-ctx.Done():
			}
		}()
		pages.ServeHTTP(w, r.WithContext(page.WithLogin(ctx, page.Login{Name: hex.EncodeToString(session.digest[:]), Ended: session.ended})))
	})
}

// session is the one whose cookie r has, and for how long it is valid.
func (b *Browsers) session(r *http.Request) (session ticket, left time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, cookie := range cookiesOf(r) {
		if i := b.sessions.find(cookie.Value, b.now()); i >= 0 {
			return b.sessions[i], b.sessions[i].until.Sub(b.now()), true
		}
	}
	return session, 0, false
}

// cookiesOf are the cookies of r that may be ours: another service of this host can set one of the same name.
func cookiesOf(r *http.Request) []*http.Cookie {
	all := r.CookiesNamed(cookieName(r))
	return all[:min(len(all), 8)]
}

func (b *Browsers) logIn(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("token")
	if token == "" || r.Method != http.MethodGet { // a HEAD does not spend it
		page.Refuse(w, http.StatusUnauthorized, page.Refusal{Why: "This page needs a link to log in with."})
		return
	}
	session, ok := b.exchange(token)
	if !ok {
		page.Refuse(w, http.StatusUnauthorized, page.Refusal{Why: "This link has been used, or is too old: each works once, within an hour."})
		return
	}
	http.SetCookie(w, b.cookie(r, session, sessionLasts))
	http.Redirect(w, r, "/", http.StatusSeeOther) // the token leaves the address bar
}

func (b *Browsers) logOut(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	for _, cookie := range cookiesOf(r) {
		if i := b.sessions.find(cookie.Value, b.now()); i >= 0 {
			b.sessions.drop(i)
		}
	}
	b.mu.Unlock()
	http.SetCookie(w, b.cookie(r, "", -time.Second))
	http.Redirect(w, r, LoginPath, http.StatusSeeOther)
}

// ofAPI reports whether a path is one of the API, which no cookie opens.
func ofAPI(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, profilePath) || path == metricsPath || open(path)
}

// anyone reports whether a path of the pages is served without a cookie: the login
// and what it looks like.
func anyone(path string) bool { return path == LoginPath || page.Open(path) }

// ownForm reports whether a browser sent r for one of our own pages. A form's origin is
// "null" because the pages send no referrer, but Sec-Fetch-Site tells, and no page can
// set that.
func ownForm(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		origin := r.Header.Get("Origin")
		return site == "same-origin" && (origin == "" || origin == "null" || !foreign(r))
	}
	return r.Header.Get("Origin") != "" && !foreign(r)
}

// judgePage returns the reason to refuse a request for a page; 0 if there is none.
func (g *Guard) judgePage(r *http.Request, known bool) (int, page.Refusal) {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !g.Host(hostName(r.Host)):
		return http.StatusForbidden, page.Refusal{Why: "This host is not served here."}
	case read && foreign(r):
		return http.StatusForbidden, page.Refusal{Why: "You come from another site, which may not open these pages for you.", Onward: onward(r.URL)}
	case !read && !ownForm(r):
		return http.StatusForbidden, page.Refusal{Why: "Requests from other sites are refused."}
	case !known && !anyone(r.URL.Path):
		return http.StatusUnauthorized, page.Refusal{Why: "You are not logged in."}
	case r.ContentLength > MaxBody:
		return http.StatusRequestEntityTooLarge, page.Refusal{Why: "That is more than a request may send.", Known: true}
	}
	return 0, page.Refusal{}
}

// onward is the address of a page within its site.
func onward(u *url.URL) string {
	return (&url.URL{Path: "/" + strings.TrimLeft(u.Path, "/"), RawQuery: u.RawQuery}).String()
}
