package nbd_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"gleaner/fabric/nbd"
	"gleaner/fabric/nbd/nbdtest"
)

// A pipeListener brings clients through memory, so that a bubble of synctest can tell when
// all that can happen has happened.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	here, there := net.Pipe()
	l.conns <- there
	return here
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "memory"} }

// A stranger is a client that says what it likes and keeps what it hears.
type stranger struct {
	conn   net.Conn
	mu     sync.Mutex
	heard  bytes.Buffer
	closed bool
}

func newStranger(conn net.Conn) *stranger {
	s := &stranger{conn: conn}
	go func() {
		part := make([]byte, 1<<16)
		for {
			n, err := s.conn.Read(part)
			s.mu.Lock()
			s.heard.Write(part[:n])
			s.closed = err != nil
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// hears gives what came since the last time, as bytes.
func (s *stranger) hears() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := hex.Dump(s.heard.Bytes())
	s.heard.Reset()
	if s.closed {
		said += "closed\n"
	}
	return said
}

// TestScenarios plays clients byte by byte. A file has the commands
//
//	connect       a client comes
//	send          it sends the bytes below: "text", u16:N, u32:N, u64:N, N*u8:B (N bytes B)
//	wait 30s      time passes
//	shutdown      the server is told to end
//
// and below each what the client hears. The exports are disk (64 KiB, whose first 4 KiB are
// held, the letter a) and snap (8 KiB, read-only). Files that begin with tls serve with TLS.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var options nbd.Options
		if strings.Contains(path, "tls_") {
			options.TLS = &tls.Config{}
		}
		synctest.Test(t, func(t *testing.T) { playScenario(t, path, options) })
	})
}

func playScenario(t *testing.T, path string, options nbd.Options) {
	ctx, cancel := context.WithCancel(t.Context())
	l := newPipeListener()
	var serving sync.WaitGroup
	serving.Go(func() { nbd.Serve(ctx, l, scenarioExports(), options) })
	defer serving.Wait()
	defer cancel()
	var client *stranger
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "connect":
			client = newStranger(l.dial())
		case "send":
			client.conn.SetWriteDeadline(time.Now().Add(time.Minute))
			client.conn.Write(parseBytes(t, d))
		case "wait":
			pause, err := time.ParseDuration(d.CmdArgs[0].Key)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			time.Sleep(pause)
		case "shutdown":
			cancel()
		default:
			d.Fatalf(t, "unknown command %q", d.Cmd)
		}
		synctest.Wait()
		return client.hears()
	})
	if client != nil {
		client.conn.Close()
	}
}

func scenarioExports() nbdtest.Exports {
	disk, snap := memory("disk", 64<<10), memory("snap", 8<<10)
	disk.Device.WriteAt(context.Background(), bytes.Repeat([]byte("a"), 4096), 0, false)
	snap.ReadOnly, snap.MultiConn, snap.Description = true, false, "as of noon"
	return nbdtest.Exports{disk, snap}
}

// parseBytes reads what to send. What stands behind # is a comment.
func parseBytes(t *testing.T, d *datadriven.TestData) (out []byte) {
	for line := range strings.Lines(d.Input) {
		line, _, _ = strings.Cut(line, "#")
		for _, word := range strings.Fields(line) {
			b, err := parseWord(word)
			if err != nil {
				d.Fatalf(t, "%s: %v", word, err)
			}
			out = append(out, b...)
		}
	}
	return out
}

func parseWord(word string) ([]byte, error) {
	if strings.HasPrefix(word, `"`) {
		text, err := strconv.Unquote(word)
		return []byte(text), err
	}
	times := 1
	if count, rest, ok := strings.Cut(word, "*"); ok {
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, err
		}
		times, word = n, rest
	}
	kind, number, _ := strings.Cut(word, ":")
	n, err := strconv.ParseUint(number, 0, 64)
	if err != nil {
		return nil, err
	}
	size, ok := map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8}[kind]
	if !ok {
		return nil, fmt.Errorf("%q is no kind of number", kind)
	}
	return bytes.Repeat(binary.BigEndian.AppendUint64(nil, n)[8-size:], times), nil
}
