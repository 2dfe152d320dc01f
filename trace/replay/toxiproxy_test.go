package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

// A toxiproxy between players and their target delays, limits and breaks connections.
type toxiproxy struct {
	t       *testing.T
	api     string
	Address string // where players connect
}

// newToxiproxy starts a real one in front of a target.
func newToxiproxy(t *testing.T, target string) *toxiproxy {
	t.Helper()
	server, err := exec.LookPath("toxiproxy-server")
	if err != nil {
		t.Skip("no toxiproxy-server here; .ci/run builds it from github.com/Shopify/toxiproxy/v2/cmd/server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := exec.Command(server, "-host", host, "-port", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it keeps nothing
		_ = cmd.Wait()
	})
	p := &toxiproxy{t: t, api: "http://" + net.JoinHostPort(host, port)}
	for range 200 {
		if _, err = p.ask(http.MethodGet, "/version", nil); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	said, err := p.ask(http.MethodPost, "/proxies", map[string]any{"name": "target", "listen": "127.0.0.1:0", "upstream": target, "enabled": true})
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Listen string }
	if err := json.Unmarshal(said, &made); err != nil {
		t.Fatal(err)
	}
	p.Address = made.Listen
	return p
}

// suffer adds a toxic to the replies of all connections, and returns how to remove it.
func (p *toxiproxy) suffer(kind string, attributes map[string]any) (end func()) {
	_, err := p.ask(http.MethodPost, "/proxies/target/toxics", map[string]any{"name": kind, "type": kind, "stream": "downstream", "attributes": attributes})
	if err != nil {
		p.t.Error(err)
	}
	return func() {
		if _, err := p.ask(http.MethodDelete, "/proxies/target/toxics/"+kind, nil); err != nil {
			p.t.Error(err)
		}
	}
}

func (p *toxiproxy) ask(verb, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(verb, p.api+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	said, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode >= 300 {
		err = fmt.Errorf("toxiproxy: %s %s: %s", verb, path, said)
	}
	return said, err
}
