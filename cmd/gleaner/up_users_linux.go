package main

import (
	"net"
	"net/http"
	"os"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/input"
	"gleaner/web"
)

// trustUsers makes the directory of --users, in which everyone can open the socket, but
// only root can change anything, and locks it for as long as this process lives.
func (u *wiring) trustUsers(dir string) (err error) {
	if dir == "" {
		return nil
	}
	if os.Geteuid() != 0 {
		return input.Errorf("--users", "only root can run tasks as other users; without it, jobs of %s are accepted", me())
	}
	if u.users, err = trustData(dir); err != nil {
		return place{flag: "--users"}.blamed(err)
	}
	if err := os.Chmod(u.users, 0o711); err != nil {
		return err
	}
	if u.usersLock, err = os.Open(u.users); err != nil {
		return err
	}
	if unix.Flock(int(u.usersLock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return input.Errorf("--users", "another gleaner serves the users of %s; give this one a directory of its own", u.users)
	}
	return nil
}

// serveUsers offers every user of the machine their part of the API.
func (u *wiring) serveUsers(s *web.Serving, api *web.API, places int) error {
	path := usersSocket(u.users)
	socket, err := listenSocket(path, 0o666)
	if err != nil {
		return err
	}
	known := &web.UsersListener{Listener: web.Steady{Listener: socket, Short: u.short.Of("the socket of users")}, Who: userAt, Most: max(2, places/8)}
	s.Add(&http.Server{Handler: api.UsersHandler(), ConnContext: web.UserContext}, netutil.LimitListener(known, places), "socket "+path)
	return nil
}

// userAt is the user at the other end of a socket, as the kernel says.
func userAt(conn net.Conn) (cluster.User, error) {
	who, err := peerOf(conn)
	if err != nil {
		return cluster.User{}, err
	}
	return cluster.User{Name: userName(who.Uid), UID: who.Uid, GID: who.Gid}, nil
}

// peerOf is what the kernel says of the process at the other end of a socket.
func peerOf(conn net.Conn) (*unix.Ucred, error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var who *unix.Ucred
	if ctl := raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); ctl != nil {
		return nil, ctl
	}
	return who, err
}
