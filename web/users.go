package web

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/input"
)

// A UsersListener knows who is at the other end of each connection: its RemoteAddr is
// a Peer.
type UsersListener struct {
	net.Listener
	// Who is the user at the other end.
	Who func(net.Conn) (cluster.User, error)
	// Most is how many connections each may have at a time, so that none keeps out the others.
	Most int

	mu   sync.Mutex
	open map[uint32]int // connections, by user
}

// Accept returns the next connection of a user who is known and has not too many.
func (l *UsersListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if user, err := l.Who(conn); err == nil && l.enter(user.UID) {
			return &peerConn{Conn: conn, peer: Peer{user}, leave: sync.OnceFunc(func() { l.leave(user.UID) })}, nil
		}
		conn.Close() // it has gone already, or has too many
	}
}

func (l *UsersListener) enter(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid] >= l.Most {
		return false
	}
	if l.open == nil {
		l.open = map[uint32]int{}
	}
	l.open[uid]++
	return true
}

func (l *UsersListener) leave(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid]--; l.open[uid] == 0 {
		delete(l.open, uid)
	}
}

// A Peer is the address of a user's connection.
type Peer struct{ User cluster.User }

// Network is that of sockets.
func (Peer) Network() string { return "unix" }

func (p Peer) String() string { return p.User.Name }

type peerConn struct {
	net.Conn
	peer  Peer
	leave func()
}

func (c *peerConn) RemoteAddr() net.Addr { return c.peer }

func (c *peerConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

type userKey struct{}

// UserContext stores the user of a connection: it is a server's ConnContext.
func UserContext(ctx context.Context, conn net.Conn) context.Context {
	if peer, ok := conn.RemoteAddr().(Peer); ok {
		return context.WithValue(ctx, userKey{}, peer.User)
	}
	return ctx
}

// userOf is the user who sends a request; false for the owner, who may do all.
func userOf(r *http.Request) (cluster.User, bool) {
	user, ok := r.Context().Value(userKey{}).(cluster.User)
	return user, ok
}

// mayUse reports whether who sends r may see and change a job.
func mayUse(r *http.Request, j *board.Job) bool {
	user, ok := userOf(r)
	return !ok || j.User != "" && j.UID == user.UID
}

// mostJobs is how many jobs of each other user may not have ended.
const mostJobs = 1000

// allows returns an error if the user of a job may not submit it: only the owner's jobs
// may go before those of others, and nobody's may be without number.
func (a *API) allows(job *cluster.Job) error {
	if job.User == (cluster.User{}) {
		return nil
	}
	if job.Priority > 0 {
		return input.Errorf("priority", "%d: only root may give one above 0, which goes before the jobs of others", job.Priority)
	}
	n := 0
	for _, j := range a.Board.Jobs() {
		if j.User != "" && j.UID == job.User.UID && j.Ended.IsZero() {
			n++
		}
	}
	if n >= mostJobs {
		return input.Errorf("job", "%s has %d jobs that have not ended, as many as may be; an array is one job", job.User.Name, n)
	}
	return nil
}

// UsersHandler serves that part of the API which every user of the machine may use:
// their own jobs, and what is harvested. Root is root here too.
func (a *API) UsersHandler() http.Handler {
	all, mux := a.Handler(), http.NewServeMux()
	mux.Handle("/api/v1/jobs", all)
	mux.Handle("/api/v1/jobs/{id}", a.own(all))
	mux.Handle("/api/v1/jobs/{id}/", a.own(all))
	mux.HandleFunc("GET /api/v1/status", a.statusOfUser)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusForbidden, "only the user whom gleaner runs as may ask for %s %s", r.Method, r.URL.Path)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, known := userOf(r)
		switch {
		case !known:
			problem(w, http.StatusForbidden, "it is not known who asks")
		case user.UID == 0:
			all.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, nil)))
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// own lets requests for a job through to its user. To others it does not exist.
func (a *API) own(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := jobID(w, r)
		if !ok {
			return
		}
		if j, known := a.Board.Job(id); !known || !mayUse(r, &j) {
			problem(w, http.StatusNotFound, "there is no %s", id)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// statusOfUser is the status without the names of other users' tasks.
func (a *API) statusOfUser(w http.ResponseWriter, r *http.Request) {
	s := Status{a.Board.Status(), a.Harvested()}
	s.Last = slices.DeleteFunc(s.Last, func(k board.Kill) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(k.Task, "job-"), "/")
		id, err := strconv.ParseInt(name, 10, 64)
		j, known := a.Board.Job(cluster.JobID(id))
		return err != nil || !known || !mayUse(r, &j)
	})
	answer(w, http.StatusOK, s)
}
