package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/fabric/disk"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/mem"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var example = Server{Name: "s1", Address: "/data/fabric/servers/s1.sock", PID: 4711, Environment: "search", Function: "ranking", Rack: "r7",
	Disks: []Disk{{ID: "0a1b2c3d4e5f6071", Tier: disk.SSD, Path: "/mnt/ssd1", Quota: 100 << 30}}}

// TestFormatsPage compares the examples of the page with what the code writes.
func TestFormatsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/fabric-registry.md")
	must(t, err)
	server, err := json.Marshal(example)
	must(t, err)
	for _, want := range []string{string(server) + "\n", string(encodeCluster("5d0c4a7f9e3b4f1c8a6d2e7b90f1c3a5")) + "\n"} {
		if !strings.Contains(string(page), "```\n"+want+"```\n") {
			t.Errorf("the page lacks\n%s", want)
		}
	}
}

// TestFirst: those who come at the same time agree on the cluster and its key, and so does who comes later.
func TestFirst(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		var found [8]*Registry
		var all sync.WaitGroup
		for i := range found {
			all.Go(func() {
				r, err := Open(dir)
				if err != nil {
					t.Error(err)
				}
				found[i] = r
			})
		}
		all.Wait()
		for _, r := range found {
			if r == nil || r.ID != found[0].ID || r.Key != found[0].Key || r.Key == [32]byte{} || len(r.ID) != 32 {
				t.Fatalf("one found %+v, another %+v", found[0], r)
			}
		}
		info, err := os.Stat(filepath.Join(dir, "fabric", "key"))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("the key's mode is %v", info.Mode())
		}
		left, err := filepath.Glob(filepath.Join(dir, "fabric", ".new*"))
		must(t, err)
		if len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	}
}

func TestBadFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		file, text string
		mode       os.FileMode
		want       string
	}{
		"no key":        {"key", "", 0, "gone"},
		"open key":      {"key", strings.Repeat("ab", 32), 0o644, "others may read"},
		"short key":     {"key", "abcd", 0o600, "64 hexadecimal"},
		"no hex":        {"key", strings.Repeat("xy", 32), 0o600, "64 hexadecimal"},
		"no JSON":       {"cluster.json", "hello", 0o600, "not what a registry has"},
		"two":           {"cluster.json", `{"cluster":"a"}{}`, 0o600, "behind it"},
		"bad cluster":   {"cluster.json", `{"cluster":"a/b"}`, 0o600, "no good name"},
		"no name":       {"servers/s.json", `{"address":"a"}`, 0o600, "no good name"},
		"other name":    {"servers/s.json", `{"name":"r","address":"a"}`, 0o600, "another server"},
		"no address":    {"servers/s.json", `{"name":"s"}`, 0o600, "no address"},
		"unnamed disk":  {"servers/s.json", `{"name":"s","address":"a","disks":[{"tier":"ssd"}]}`, 0o600, "disk 1 has no id"},
		"torn entry":    {"servers/s.json", `{"name":"s","addr`, 0o600, "not what a registry has"},
		"empty entry":   {"servers/s.json", ``, 0o600, "not what a registry has"},
		"empty cluster": {"cluster.json", ``, 0o600, "not what a registry has"},
	} {
		dir := t.TempDir()
		_, err := Open(dir)
		must(t, err)
		file := filepath.Join(dir, "fabric", tc.file)
		if tc.mode == 0 {
			must(t, os.Remove(file))
		} else {
			must(t, os.WriteFile(file, []byte(tc.text), tc.mode))
			must(t, os.Chmod(file, tc.mode))
		}
		r, err := Open(dir)
		if err == nil {
			_, err = r.Servers(t.Context())
		}
		if !input.Is(err) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestServers: a name is one server's at a time, and its entry stays.
func TestServers(t *testing.T) {
	dir, store := t.TempDir(), mem.New()
	t.Run("files", func(t *testing.T) {
		testServers(t, func() (*Registry, error) { return Open(dir) })
	})
	t.Run("records", func(t *testing.T) {
		testServers(t, func() (*Registry, error) { return OpenStore(t.Context(), t.TempDir(), store, t.TempDir()) })
	})
}

func testServers(t *testing.T, open func() (*Registry, error)) {
	r, err := open()
	must(t, err)
	c, err := r.Claim(t.Context(), "s1")
	must(t, err)
	must(t, c.Announce(t.Context(), example))
	if _, err := r.Claim(t.Context(), "s1"); !errors.Is(err, ErrRuns) {
		t.Errorf("got %v", err)
	}
	must(t, c.Release())
	other, err := r.Claim(t.Context(), "s0")
	must(t, err)
	must(t, other.Announce(t.Context(), Server{Address: "tls:10.0.0.1:7071"}))

	first := r
	r, err = open()
	must(t, err)
	if r.ID != first.ID || r.Key != first.Key {
		t.Errorf("cluster %s has become %s", first.ID, r.ID)
	}
	if _, err := r.Claim(t.Context(), "s0"); !errors.Is(err, ErrRuns) {
		t.Errorf("got %v", err)
	}
	got, err := r.Servers(t.Context())
	must(t, err)
	want := []Server{{Name: "s0", Address: "tls:10.0.0.1:7071"}, example}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("servers are %+v", got)
	}
	c, err = r.Claim(t.Context(), "s1")
	must(t, err)
	moved := example
	moved.Address = "127.0.0.1:9"
	must(t, c.Announce(t.Context(), moved))
	if got, err = r.Servers(t.Context()); err != nil || got[1].Address != "127.0.0.1:9" {
		t.Errorf("servers are %+v, %v", got, err)
	}
	for _, name := range []string{"", ".", "..", "a/b", ".hidden", strings.Repeat("x", 65), "a b", "ü"} {
		if _, err := r.Claim(t.Context(), name); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// TestTakenName: a server that stood still for so long that another took its name is told, and the other keeps it.
func TestTakenName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stuck{Store: mem.New()}
		r, err := OpenStore(t.Context(), t.TempDir(), store, "one")
		must(t, err)
		c, err := r.Claim(t.Context(), "s1")
		must(t, err)
		time.Sleep(3 * claimed) // it is renewed
		r2, err := OpenStore(t.Context(), t.TempDir(), store, "two")
		must(t, err)
		if _, err := r2.Claim(t.Context(), "s1"); !errors.Is(err, ErrRuns) {
			t.Errorf("got %v", err)
		}
		store.still.Store(true)
		time.Sleep(2*claimed + time.Second) // between two tries to renew it
		store.still.Store(false)
		other, err := r2.Claim(t.Context(), "s1")
		must(t, err)
		<-c.Lost()
		must(t, c.Release())
		time.Sleep(3 * claimed)
		select {
		case <-other.Lost():
			t.Error("the name is lost though nobody took it")
		default:
		}
		must(t, other.Release())
	})
}

// A stuck store fails all writes while it is still.
type stuck struct {
	kv.Store
	still atomic.Bool
}

func (s *stuck) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return stuckTable{t, s}, err
}

type stuckTable struct {
	kv.Table
	store *stuck
}

func (t stuckTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	if t.store.still.Load() {
		return errors.New("the store cannot be reached")
	}
	return t.Table.CompareAndSet(ctx, key, old, next, value)
}

// FuzzFiles: what is read from a file is what would be written to it again.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(`{"cluster":"c1"}`))
	f.Add([]byte(`{"name":"s","address":"127.0.0.1:1","pid":3,"disks":[{"id":"d","tier":"ssd","path":"/p","quota":9}],"environment":"e","function":"f","rack":"r"}`))
	f.Add(bytes.Repeat([]byte("0f"), 32))
	f.Add(encodeFounding("c1", [32]byte{1, 2}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if id, err := decodeCluster(text); err == nil {
			if again, err := decodeCluster(encodeCluster(id)); err != nil || again != id {
				t.Errorf("cluster %q is not itself", id)
			}
		}
		if s, err := decodeServer(text); err == nil {
			out, err := json.Marshal(s)
			must(t, err)
			again, err := decodeServer(out)
			if err != nil || !reflect.DeepEqual(again, s) && len(s.Disks) > 0 {
				t.Errorf("server %+v is not itself", s)
			}
		}
		if id, key, err := decodeFounding(text); err == nil {
			again, same, err := decodeFounding(encodeFounding(id, key))
			if err != nil || again != id || same != key {
				t.Errorf("cluster %q is not itself", id)
			}
		}
		if _, err := decodeKey(text); err == nil && len(bytes.TrimSpace(text)) != 64 {
			t.Errorf("%q is a key", text)
		}
	})
}
