package engine

import (
	"bytes"
	"context"
	_ "embed" // for the sources
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// BuildEtcd builds etcd, once: the binary is kept in the user's cache. It calls
// building before it builds, which takes long.
func BuildEtcd(ctx context.Context, building func()) (Etcd, error) {
	at, err := built(ctx, "etcdlab", etcdSources, building)
	return Etcd{Binary: at}, err
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
