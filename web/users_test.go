package web

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/harvest"
	"gleaner/input"
)

// Who has as many connections as each may have is not let in again before one of them is closed; others are.
func TestNoUserKeepsOutTheOthers(t *testing.T) {
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	next := make(chan uint32, 1)
	l := &UsersListener{Listener: socket, Most: 2, Who: func(net.Conn) (cluster.User, error) { return cluster.User{UID: <-next}, nil }}
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	come := func(uid uint32) net.Conn {
		next <- uid
		conn, err := net.Dial("unix", socket.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	come(1)
	first := <-accepted
	come(1)
	<-accepted
	if _, err := come(1).Read(make([]byte, 1)); err == nil {
		t.Error("a third connection was answered")
	}
	come(2)
	if who := (<-accepted).RemoteAddr().(Peer).User.UID; who != 2 {
		t.Errorf("%d was let in", who)
	}
	for range 2 { // a connection counts once, however often it is closed
		_ = first.Close()
	}
	come(1)
	<-accepted
	if _, err := come(1).Read(make([]byte, 1)); err == nil {
		t.Error("a third connection was answered after one was closed twice")
	}
}

// What other users may not submit.
func TestWhatUsersMayNotSubmit(t *testing.T) {
	a := &API{Board: board.New(harvest.Reserve{}), Machine: noMachine{}, Most: cluster.Resources{CPU: cluster.Core, Memory: 1 << 30}}
	ann := cluster.User{Name: "ann", UID: 7, GID: 7}
	const job = "name: j\nstages: [{name: s, cpu: 0.1, memory: 4MiB, command: [\"true\"]DIR}]\n"
	urgent := 1
	for name, s := range map[string]Submission{
		"priority": {File: "job.yaml", User: ann, Priority: &urgent},
		"relative": {File: "job.yaml", User: ann},
	} {
		dir := ""
		if name == "relative" {
			dir = ", dir: here"
		}
		_, err := a.Submit(t.Context(), s, strings.NewReader(strings.Replace(job, "DIR", dir, 1)))
		var wrong *input.Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for id := range cluster.JobID(mostJobs) {
		if err := a.Board.Event(cluster.Event{Kind: cluster.JobSubmitted, Job: &cluster.Job{ID: id + 1, Name: "j", User: ann}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.allows(&cluster.Job{User: ann}); err == nil {
		t.Errorf("one more than %d jobs was accepted", mostJobs)
	}
	if err := errors.Join(a.allows(&cluster.Job{User: cluster.User{Name: "bob", UID: 8}}), a.allows(&cluster.Job{Priority: 9})); err != nil {
		t.Error(err)
	}
}
