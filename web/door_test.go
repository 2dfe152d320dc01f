package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A crowd of silent strangers does not keep out a client with the token.
func TestStrangersDoNotBlockTheDoor(t *testing.T) {
	door, url := openDoor(t, 8, 2)
	var silent []net.Conn
	for range 40 {
		c, err := net.Dial("tcp", door.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	client := &http.Client{Transport: &http.Transport{}}
	for range 3 { // on one connection, which is no stranger's after the first
		if code := ask(t, client, url, "secret"); code != http.StatusOK {
			t.Errorf("who has the token gets %d", code)
		}
	}
	gone := 0
	for _, c := range silent[:40-8] {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			gone++
		}
	}
	if gone != 40-8 {
		t.Errorf("%d of those who came first had to leave, want %d", gone, 40-8)
	}
	if strangers, known := door.count(); strangers > 8 || known != 1 {
		t.Errorf("%d strangers and %d known are in", strangers, known)
	}
}

// A client that has sent something has time to finish, such as two round trips
// across the world for a handshake, whatever crowd comes meanwhile.
func TestCrowdDoesNotInterrupt(t *testing.T) {
	door, _ := openDoor(t, 8, 2)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", door.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	slow := dial()
	fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost: localhost\r\n")
	for range 40 {
		dial()
	}
	time.Sleep(3 * toSpeak)
	fmt.Fprint(slow, "Authorization: Bearer secret\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}

// Bytes count as sent even if the server has not read them yet.
func TestUnreadWordsCount(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	door := &Door{Listener: l, Strangers: 8, Known: 2}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := door.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	v := conn.(*visitor)
	v.awaited, v.until = true, time.Now().Add(-time.Hour)
	if door.dispensable() != v {
		t.Error("who says nothing stays")
	}
	fmt.Fprint(c, "GET")
	for deadline := time.Now().Add(time.Minute); !unread(v.Conn); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing arrives")
		}
	}
	if door.dispensable() != nil {
		t.Error("who has spoken has to leave")
	}
	if v.until = time.Now().Add(-time.Hour); door.dispensable() != v {
		t.Error("who only began to speak stays for ever")
	}
}

// A client without a token is closed after one answer.
func TestStrangersLeaveAfterOneAnswer(t *testing.T) {
	door, url := openDoor(t, 8, 2)
	client := &http.Client{Transport: &http.Transport{}}
	if code := ask(t, client, url, "guess"); code != http.StatusUnauthorized {
		t.Errorf("%d", code)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if strangers, known := door.count(); strangers+known == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection is still there")
		}
	}
}

func TestKnownHaveTheirOwnLimit(t *testing.T) {
	_, url := openDoor(t, 8, 2)
	var codes []int
	for range 3 {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		codes = append(codes, ask(t, client, url, "secret"))
	}
	if !slices.Equal(codes, []int{200, 200, 503}) {
		t.Errorf("%v", codes)
	}
}

// openDoor serves a guarded API behind a door.
func openDoor(t *testing.T, strangers, known int) (*Door, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := &Door{Listener: l, Strangers: strangers, Known: known}
	g := &Guard{Token: "secret", Host: Loopback}
	server := &http.Server{Handler: g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })), ConnContext: door.Context}
	go func() { _ = server.Serve(door) }()
	t.Cleanup(func() { server.Close() })
	return door, "http://" + l.Addr().String()
}

func ask(t *testing.T, client *http.Client, url, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func (d *Door) count() (strangers, known int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.strangers), d.known
}

// A failing listener has no files until a given time.
type failing struct {
	net.Listener
	until time.Time
}

func (l failing) Accept() (net.Conn, error) {
	if time.Now().Before(l.until) {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	conn, _ := net.Pipe()
	return conn, nil
}

// A listener that is out of files waits, and reports why, and that it continues.
func TestSteadyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var told []error
		l := Steady{failing{until: begin.Add(time.Minute)}, func(err error) { told = append(told, err) }}
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it took %s", took)
		}
		if !errors.Is(told[0], syscall.EMFILE) || told[len(told)-1] != nil {
			t.Errorf("it told %v first and %v last", told[0], told[len(told)-1])
		}
	})
}

// Strangers that begin a request and never finish it make others wait no longer
// than silent ones.
func TestHalfWordsBlockNobody(t *testing.T) {
	_, url := openDoor(t, 8, 2)
	for range 160 {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "G")
	}
	begun := time.Now()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if code := ask(t, client, url, "secret"); code != http.StatusOK {
		t.Error(code)
	}
	if took := time.Since(begun); took > 10*toShow { // a second for each would be twenty
		t.Errorf("who has the token waited %v", took)
	}
}
