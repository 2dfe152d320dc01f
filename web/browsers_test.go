package web

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gleaner/web/page"
)

const (
	origin   = "http://127.0.0.1:7070"
	apiToken = "0123456789abcdef"
)

// A served gleaner has an API and pages that answer with their names, and change
// something when they are posted to.
type served struct {
	*Browsers
	now     time.Time
	handler http.Handler
	changed []string
}

func newServed() *served {
	s := &served{Browsers: &Browsers{}, now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)}
	s.Now = func() time.Time { return s.now }
	s.guard()
	return s
}

// guard guards the API and the pages anew, with full allowances.
func (s *served) guard() {
	say := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				s.changed = append(s.changed, r.URL.Path)
			}
			_, _ = io.WriteString(w, name)
		})
	}
	g := &Guard{Token: apiToken, Host: Loopback, Browsers: s.Browsers}
	s.handler = g.Wrap(s.Handler(say("the api"), say("the pages")))
}

func (s *served) ask(method, target string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// logIn spends a link, and gives what adds the cookie to a request.
func (s *served) logIn(t *testing.T) (*http.Cookie, func(*http.Request)) {
	t.Helper()
	w := s.ask(http.MethodGet, s.Link(origin), nil)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("%d with %d cookies: %s", w.Code, len(cookies), w.Body)
	}
	return cookies[0], func(r *http.Request) { r.AddCookie(cookies[0]) }
}

// A link becomes a cookie that scripts and other sites do not get, and its token
// leaves the address.
func TestLinkBecomesACookie(t *testing.T) {
	s := newServed()
	link := s.Link(origin)
	w := s.ask(http.MethodGet, link, nil)
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Secure || len(c.Value) != 64 {
		t.Errorf("the cookie is %s", strings.Replace(c.String(), c.Value, "…", 1))
	}
	if to := w.Header().Get("Location"); to != "/" {
		t.Errorf("it leads to %s", to)
	}
	_, token, _ := strings.Cut(link, "token=")
	if len(token) != 64 || c.Value == token || strings.Contains(w.Body.String(), token) {
		t.Error("the token is in the answer")
	}
	if w := s.ask(http.MethodGet, origin+"/", func(r *http.Request) { r.AddCookie(c) }); w.Body.String() != "the pages" {
		t.Errorf("with the cookie: %d %s", w.Code, w.Body)
	}
	twice := func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: "of another service"})
		r.AddCookie(c)
	}
	if w := s.ask(http.MethodGet, origin+"/", twice); w.Body.String() != "the pages" {
		t.Errorf("behind another cookie of its name: %d %s", w.Code, w.Body)
	}
	w = s.ask(http.MethodGet, s.Link("https://127.0.0.1:7070"), func(r *http.Request) { r.TLS = &tls.ConnectionState{} })
	if c := w.Result().Cookies()[0]; !c.Secure || c.Name != "__Host-gleaner-7070" {
		t.Errorf("with TLS the cookie is %s", c.Name)
	}
}

func TestLinkWorksOnce(t *testing.T) {
	for name, spoil := range map[string]func(s *served, link string) string{
		"used": func(s *served, link string) string {
			s.ask(http.MethodGet, link, nil)
			return link
		},
		"too old":   func(s *served, link string) string { s.now = s.now.Add(linkLasts); return link },
		"wrong":     func(_ *served, link string) string { return link[:len(link)-1] + "x" },
		"empty":     func(*served, string) string { return origin + LoginPath + "?token=" },
		"the API's": func(*served, string) string { return origin + LoginPath + "?token=" + apiToken },
		"one of many": func(s *served, link string) string {
			for range mostTickets {
				s.Link(origin)
			}
			return link
		},
	} {
		s := newServed()
		link := spoil(s, s.Link(origin))
		w := s.ask(http.MethodGet, link, nil)
		if w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 || !strings.Contains(w.Body.String(), "gleaner status --link") {
			t.Errorf("%s: %d with %d cookies", name, w.Code, len(w.Result().Cookies()))
		}
	}
	// What does not log in does not spend it.
	s := newServed()
	link := s.Link(origin)
	s.ask(http.MethodHead, link, nil)
	s.ask(http.MethodGet, link, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	s.ask(http.MethodGet, link, func(r *http.Request) { r.Host = "evil.example" })
	if w := s.ask(http.MethodGet, link, nil); w.Code != http.StatusSeeOther {
		t.Errorf("after requests that do not log in: %d", w.Code)
	}
}

// Strangers who use up their allowance stop nobody from logging in, and a link that is spent gives
// no other allowance.
func TestStrangersDoNotStopLogins(t *testing.T) {
	s := newServed()
	spent := s.Link(origin)
	s.ask(http.MethodGet, spent, nil)
	for name, target := range map[string]string{"no token": origin + LoginPath, "a guess": origin + LoginPath + "?token=guess", "a spent link": spent} {
		s.guard()
		refused := 0
		for range 100 {
			if s.ask(http.MethodGet, target, nil).Code == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused < 50 {
			t.Errorf("%s: of 100 requests in a row only %d were too many", name, refused)
		}
		if w := s.ask(http.MethodGet, s.Link(origin), nil); w.Code != http.StatusSeeOther {
			t.Errorf("%s: after that a link leads to %d", name, w.Code)
		}
	}
}

// Without a cookie there is only the login, and what it looks like.
func TestStrangersSeeOnlyTheLogin(t *testing.T) {
	s := newServed()
	known, _ := s.logIn(t)
	other := *known
	other.Name = "gleaner-7071"
	for name, change := range map[string]func(*http.Request){
		"nothing":          nil,
		"a made-up cookie": func(r *http.Request) { r.AddCookie(&http.Cookie{Name: known.Name, Value: strings.Repeat("0", 64)}) },
		"an empty cookie":  func(r *http.Request) { r.AddCookie(&http.Cookie{Name: known.Name}) },
		"another's cookie": func(r *http.Request) { r.AddCookie(&other) },
		"a wrong token":    func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
	} {
		for _, path := range []string{"/", "/jobs", "/jobs/1/tasks/map-0/output", "/storage", "/events", "/assets/live.js", "/assets/", "/login/x", "/nothing", "//jobs", "/jobs/../jobs"} {
			s.guard() // or the tenth is one too many
			w := s.ask(http.MethodGet, origin+path, change)
			if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "the pages") || !strings.Contains(w.Body.String(), "gleaner status --link") {
				t.Errorf("%s at %s: %d", name, path, w.Code)
			}
		}
	}
	for _, path := range []string{"/assets/page.css", "/assets/icon.svg"} {
		if w := s.ask(http.MethodGet, origin+path, nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// The API needs its token: a cookie, which browsers send by themselves, is none.
func TestCookieDoesNotOpenTheAPI(t *testing.T) {
	s := newServed()
	_, cookie := s.logIn(t)
	for _, path := range []string{"/api/v1/status", "/api/v1/jobs", "/api/", "/api/v1/link"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := s.ask(method, origin+path, func(r *http.Request) { cookie(r); r.Header.Set("Sec-Fetch-Site", "same-origin") })
			if w.Code != http.StatusUnauthorized || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
	if len(s.changed) > 0 {
		t.Errorf("changed: %v", s.changed)
	}
	for _, path := range []string{"//api/v1/jobs", "/x/../api/v1/jobs", "/./api/v1/jobs", "/%61pi/v1/jobs", "/api%2fv1/jobs", "/api"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodConnect} {
			w := s.ask(method, origin+path, func(r *http.Request) { cookie(r); r.Header.Set("Sec-Fetch-Site", "same-origin") })
			if strings.Contains(w.Body.String(), "the api") {
				t.Errorf("%s %s reaches the API: %d", method, path, w.Code)
			}
		}
	}
}

// What changes something must come from one of our pages.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		header map[string]string
		want   int
	}{
		{"our page, in a browser", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "null"}, http.StatusOK},
		{"our page, with its origin", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": origin}, http.StatusOK},
		{"our page, in an old browser", map[string]string{"Origin": origin}, http.StatusOK},
		{"nobody says where from", nil, http.StatusForbidden},
		{"a sandbox, in an old browser", map[string]string{"Origin": "null"}, http.StatusForbidden},
		{"another site", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, http.StatusForbidden},
		{"another site in a sandbox", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "null"}, http.StatusForbidden},
		{"another port", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:8080"}, http.StatusForbidden},
		{"another port, in an old browser", map[string]string{"Origin": "http://127.0.0.1:8080"}, http.StatusForbidden},
		{"a user's own request", map[string]string{"Sec-Fetch-Site": "none"}, http.StatusForbidden},
		{"two that disagree", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}, http.StatusForbidden},
	} {
		for _, path := range []string{"/jobs", "/jobs/1/cancel"} {
			s := newServed()
			_, cookie := s.logIn(t)
			w := s.ask(http.MethodPost, origin+path, func(r *http.Request) {
				cookie(r)
				for name, value := range tc.header {
					r.Header.Set(name, value)
				}
			})
			if w.Code != tc.want || (len(s.changed) > 0) != (tc.want == http.StatusOK) {
				t.Errorf("%s at %s: %d, want %d; changed %v", tc.name, path, w.Code, tc.want, s.changed)
			}
		}
	}
}

// Whoever follows a link of another site is told to follow it from here: then the
// browser sends the cookie.
func TestLinksOfOtherSitesLeadOn(t *testing.T) {
	s := newServed()
	w := s.ask(http.MethodGet, origin+`/jobs/7?span="><script>`, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `href="/jobs/7?span=`) || strings.Contains(w.Body.String(), `"><script>`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = s.ask(http.MethodGet, origin+"//evil.example/", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	if strings.Contains(w.Body.String(), `href="//`) {
		t.Errorf("it leads to another site: %s", w.Body)
	}
}

// Every answer, also a refusal, forbids frames, inline scripts and styles, and
// referrers.
func TestEveryAnswerHasTheHeaders(t *testing.T) {
	s := newServed()
	_, cookie := s.logIn(t)
	for _, target := range []string{"/", "/login", "/login?token=x", "/assets/page.css", "/api/v1/status", "/nothing"} {
		for name, change := range map[string]func(*http.Request){"a stranger": nil, "a browser": cookie,
			"a rebound host": func(r *http.Request) { r.Host = "evil.example" }} {
			h := s.ask(http.MethodGet, origin+target, change).Header()
			policy := h.Get("Content-Security-Policy")
			if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
				t.Errorf("%s at %s: policy %q", name, target, policy)
			}
			if h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s at %s: %v", name, target, h)
			}
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	own := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }
	for name, end := range map[string]func(s *served, cookie func(*http.Request)){
		"logged out": func(s *served, cookie func(*http.Request)) {
			s.ask(http.MethodPost, origin+"/logout", func(r *http.Request) { own(r); cookie(r) })
		},
		"too old": func(s *served, _ func(*http.Request)) { s.now = s.now.Add(sessionLasts) },
		"given up for others": func(s *served, _ func(*http.Request)) {
			for range mostTickets {
				s.exchange(strings.TrimPrefix(s.Link(""), LoginPath+"?token="))
			}
		},
	} {
		s := newServed()
		_, cookie := s.logIn(t)
		end(s, cookie)
		if w := s.ask(http.MethodGet, origin+"/", cookie); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, w.Code)
		}
		if len(s.sessions) > mostTickets || len(s.links) > mostTickets {
			t.Errorf("%s: %d sessions, %d links", name, len(s.sessions), len(s.links))
		}
	}
}

// Prometheus has the token, and no cookie.
func TestMetricsAreOfTheAPI(t *testing.T) {
	s := newServed()
	_, cookie := s.logIn(t)
	for name, c := range map[string]struct {
		change func(*http.Request)
		code   int
	}{
		"nothing":  {nil, http.StatusUnauthorized},
		"a cookie": {cookie, http.StatusUnauthorized},
		"a token":  {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+apiToken) }, http.StatusOK},
	} {
		if w := s.ask(http.MethodGet, origin+"/metrics", c.change); w.Code != c.code || c.code == http.StatusOK && w.Body.String() != "the api" {
			t.Errorf("with %s: %d %s", name, w.Code, w.Body)
		}
	}
}

// Who logs out, or whose session is given up for another, does not go on following a log.
func TestLogoutEndsWhatIsFollowed(t *testing.T) {
	for name, end := range map[string]func(b *Browsers, h http.Handler, cookie *http.Cookie){
		"logout": func(_ *Browsers, h http.Handler, cookie *http.Cookie) {
			r := httptest.NewRequest(http.MethodPost, "/logout", nil)
			r.AddCookie(cookie)
			h.ServeHTTP(httptest.NewRecorder(), r)
		},
		"too many others": func(b *Browsers, _ http.Handler, _ *http.Cookie) {
			for range mostTickets {
				b.exchange(strings.TrimPrefix(b.Link(""), LoginPath+"?token="))
			}
		},
	} {
		b := &Browsers{}
		begun, ended := make(chan struct{}), make(chan struct{})
		h := b.Handler(http.NotFoundHandler(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
			close(ended)
		}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, b.Link(""), nil))
		cookie := w.Result().Cookies()[0]
		follow := httptest.NewRequest(http.MethodGet, "/jobs/1/tasks/s-0/output", nil)
		follow.AddCookie(cookie)
		go h.ServeHTTP(httptest.NewRecorder(), follow)
		<-begun
		select {
		case <-ended:
			t.Fatalf("%s: it ends by itself", name)
		default:
		}
		end(b, h, cookie)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: it is still followed", name)
		}
	}
}

// Views know which login asks, and when it has ended; its name is not the cookie, nor the digest of another.
func TestViewsKnowTheLogin(t *testing.T) {
	s := newServed()
	var last page.Login
	views := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { last = page.LoginOf(r) })
	s.handler = (&Guard{Token: apiToken, Host: Loopback, Browsers: s.Browsers}).Wrap(s.Handler(http.NotFoundHandler(), views))
	cookie, first := s.logIn(t)
	_, second := s.logIn(t)
	s.ask(http.MethodGet, origin+"/plan", first)
	me := last
	s.ask(http.MethodGet, origin+"/plan", second)
	if me.Name == "" || me.Name == last.Name || strings.Contains(cookie.Value, me.Name) {
		t.Errorf("two logins are %q and %q", me.Name, last.Name)
	}
	s.ask(http.MethodPost, origin+"/logout", func(r *http.Request) { first(r); r.Header.Set("Sec-Fetch-Site", "same-origin") })
	select {
	case <-me.Ended:
	default:
		t.Error("a logout does not end it")
	}
	select {
	case <-last.Ended:
		t.Error("a logout ends another")
	default:
	}
}
