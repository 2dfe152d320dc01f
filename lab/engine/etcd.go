package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // for the sources
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// EtcdVersion is the etcd that is built.
const EtcdVersion = "3.6.8"

// etcdSources are the files of the module lab/etcd: another module cannot be
// embedded as it is. 'go generate ./lab/engine' updates them.
//
//go:generate go test -run TestSourcesAreThoseOfTheModule -rewrite .
//go:embed etcd.txtar
var etcdSources []byte

// An Etcd is etcd as built here.
type Etcd struct {
	Binary string // etcd with its own flags, and besides 'descriptors' and 'work'
}

// ErrNoGo is the error of building without Go.
var ErrNoGo = errors.New("etcd is built from its Go module, and there is no 'go' here; install Go 1.26 or later: 'apt-get install golang', or https://go.dev/doc/install")

// BuildEtcd builds etcd, once: the binary is kept in the user's cache. It calls
// building before it builds, which takes long.
func BuildEtcd(ctx context.Context, building func()) (Etcd, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Etcd{}, fmt.Errorf("engine: %w", err)
	}
	at := filepath.Join(cache, "gleaner", fmt.Sprintf("etcdlab-%x-%s-%s", sha256.Sum256(etcdSources), runtime.GOOS, runtime.GOARCH))
	e := Etcd{Binary: at}
	if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() {
		return e, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return e, ErrNoGo
	}
	building()
	if err := build(ctx, at); err != nil {
		return e, fmt.Errorf("engine: build etcd: %w", err)
	}
	return e, nil
}

// build unpacks the sources and builds them; the binary is written whole or not at
// all.
func build(ctx context.Context, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, f := range txtar.Parse(etcdSources).Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", "etcdlab", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(out)))
	}
	return os.Rename(filepath.Join(dir, "etcdlab"), to)
}

// Start starts etcd with its data in a folder, and waits until it serves. more are
// flags of etcd.
func (e Etcd) Start(ctx context.Context, listen, data string, more ...string) (*Process, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	peers, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--name", "lab", "--data-dir", filepath.Join(data, "etcd"), "--log-level", "warn",
		"--listen-client-urls", "http://" + listen, "--advertise-client-urls", "http://" + listen,
		"--listen-peer-urls", "http://" + peers, "--initial-advertise-peer-urls", "http://" + peers, "--initial-cluster", "lab=http://" + peers,
	}, more...)
	return Start(ctx, "etcd", data, exec.Command(e.Binary, args...), func(ctx context.Context) error { return healthy(ctx, "http://"+listen+"/health") })
}

// healthy asks an engine for its health.
func healthy(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	said, err := io.ReadAll(io.LimitReader(reply.Body, 1<<10))
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("it says %s", said)
	}
	return err
}

// Descriptors returns etcd's messages as a descriptor set.
func (e Etcd) Descriptors(ctx context.Context) ([]byte, error) {
	set, err := exec.CommandContext(ctx, e.Binary, "descriptors").Output()
	if err != nil {
		return nil, fmt.Errorf("engine: etcd's descriptors: %w", err)
	}
	return set, nil
}

// Work runs a job of many nodes on an etcd; see lab/etcd.
func (e Etcd) Work(ctx context.Context, endpoint string, nodes int) error {
	cmd := exec.CommandContext(ctx, e.Binary, "work", "--endpoint", endpoint, "--nodes", strconv.Itoa(nodes))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("engine: etcd's job: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}
