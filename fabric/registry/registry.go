// Package registry is where the parts of one fabric find each other: a few files below
// fabric/ in the cluster's data directory, or records in a store that many share. It says
// which cluster this is, keeps its key, and has an entry for each data server that ever ran, so that who is missing is known.
//
// docs/formats/fabric-registry.md has the files and the records.
package registry

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gleaner/fabric/disk"
	"gleaner/input"
)

// A Registry is that of one cluster.
type Registry struct {
	ID  string   // of the cluster
	Key [32]byte // which all of the cluster know and nobody else

	dir     string
	entries entries
}

// entries are those of the servers, in files or in records.
type entries interface {
	claim(ctx context.Context, name string) (lock, error)
	write(ctx context.Context, s Server) error
	all(ctx context.Context) ([]Server, error)
}

// A lock is a server's name, held.
type lock interface {
	release() error
	lost() <-chan struct{} // closed when another has the name
}

// A Server is the entry of a data server. It stays when the server stops.
type Server struct {
	Name    string `json:"name"`
	Address string `json:"address"` // as package dataserver takes it
	PID     int    `json:"pid"`     // of the process that wrote the entry
	Disks   []Disk `json:"disks"`
	// For placement, as in a servers file: what it belongs to, what it does there, and where it stands.
	Environment string `json:"environment,omitempty"`
	Function    string `json:"function,omitempty"`
	Rack        string `json:"rack,omitempty"`
}

// A Disk of a server's.
type Disk struct {
	ID    string    `json:"id"`
	Tier  disk.Tier `json:"tier"`
	Path  string    `json:"path"`
	Quota int64     `json:"quota"` // bytes
}

// ErrRuns is returned by Claim while another process has the name.
var ErrRuns = errors.New("a data server of that name is running")

const (
	clusterFile = "cluster.json"
	keyFile     = "key"
	servers     = "servers"
	entry       = ".json"
)

// Open opens the registry in a data directory. Who comes first makes it, and
// those who come at the same time agree.
func Open(data string) (*Registry, error) {
	r, err := in(data)
	if err != nil {
		return nil, err
	}
	r.entries = files{r}
	_, err = os.Lstat(r.file(clusterFile))
	if errors.Is(err, fs.ErrNotExist) {
		// The key is made before the name, so that a cluster with a name never lacks it.
		if err = r.make(keyFile, hex.AppendEncode(nil, random(len(r.Key)))); err == nil {
			err = r.make(clusterFile, encodeCluster(hex.EncodeToString(random(16))))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return r, r.read()
}

// in gives the registry of a data directory, with its folders.
func in(data string) (*Registry, error) {
	r := &Registry{dir: filepath.Join(data, "fabric")}
	for _, dir := range []string{r.dir, filepath.Join(r.dir, servers)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("registry: %w", err)
		}
	}
	return r, nil
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}

func (r *Registry) file(name string) string { return filepath.Join(r.dir, name) }

func (r *Registry) read() error {
	text, err := os.ReadFile(r.file(clusterFile))
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if r.ID, err = decodeCluster(text); err != nil {
		return input.Errorf(r.file(clusterFile), "%v", err)
	}
	info, err := os.Lstat(r.file(keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return input.Errorf(r.file(keyFile), "the cluster's key is gone; copy it from another machine of the cluster")
	}
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return input.Errorf(r.file(keyFile), "others may read the cluster's key (mode %v); 'chmod 600' mends it", info.Mode())
	}
	if text, err = os.ReadFile(r.file(keyFile)); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if r.Key, err = decodeKey(text); err != nil {
		return input.Errorf(r.file(keyFile), "%v", err)
	}
	return nil
}

func encodeCluster(id string) []byte { return fmt.Appendf(nil, `{"cluster":%q}`, id) }

func decodeCluster(text []byte) (string, error) {
	var c struct{ Cluster string }
	if err := decode(text, &c); err != nil {
		return "", err
	}
	if err := checkName("cluster", c.Cluster); err != nil {
		return "", err
	}
	return c.Cluster, nil
}

func decodeKey(text []byte) (key [32]byte, err error) {
	text = bytes.TrimSpace(text)
	if len(text) != 2*len(key) {
		return key, fmt.Errorf("a key has %d hexadecimal digits", 2*len(key))
	}
	if _, err := hex.Decode(key[:], text); err != nil {
		return key, fmt.Errorf("a key has %d hexadecimal digits", 2*len(key))
	}
	return key, nil
}

// decode reads one JSON value and nothing behind it.
func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not what a registry has: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("not what a registry has: something is behind it")
	}
	return nil
}

// CheckName says what is wrong with the name of a server, which is that of files.
func CheckName(name string) error { return checkName("server", name) }

func checkName(what, name string) error {
	bad := func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.", c))
	}
	if name == "" || len(name) > 64 || name[0] == '.' || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("the %s %q has no good name: up to 64 letters, digits, '-', '_' and '.', not '.' first", what, name)
	}
	return nil
}

// make writes a file that is not there yet. If another is faster, its file stays.
func (r *Registry) make(name string, text []byte) error {
	fresh, err := r.write(text)
	if err != nil {
		return err
	}
	defer os.Remove(fresh)
	if err := os.Link(fresh, r.file(name)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.OS{}.SyncDir(r.dir)
}

// write makes a file of any name, for the owner alone.
func (r *Registry) write(text []byte) (name string, err error) {
	f, err := os.CreateTemp(r.dir, ".new-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Socket is where a server listens if it is told nothing else.
func (r *Registry) Socket(name string) string { return r.file(filepath.Join(servers, name+".sock")) }

// A Claim is the right to a server's name, until it is released or the process ends.
type Claim struct {
	registry *Registry
	name     string
	lock     lock
}

// Claim takes a name, or fails with ErrRuns.
func (r *Registry) Claim(ctx context.Context, name string) (*Claim, error) {
	if err := CheckName(name); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	l, err := r.entries.claim(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("registry: %s: %w", name, err)
	}
	return &Claim{r, name, l}, nil
}

// Announce writes the entry of the server, in the place of an earlier one.
func (c *Claim) Announce(ctx context.Context, s Server) error {
	s.Name = c.name
	if err := c.registry.entries.write(ctx, s); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	return nil
}

// Release gives the name back. The entry stays.
func (c *Claim) Release() error { return c.lock.release() }

// Lost is closed when another has taken the name, as it may from a process that stood still for long.
func (c *Claim) Lost() <-chan struct{} { return c.lock.lost() }

// Servers gives all entries, by name.
func (r *Registry) Servers(ctx context.Context) ([]Server, error) { return r.entries.all(ctx) }

func decodeServer(text []byte) (Server, error) {
	var s Server
	if err := decode(text, &s); err != nil {
		return s, err
	}
	if err := CheckName(s.Name); err != nil {
		return s, err
	}
	if s.Address == "" {
		return s, errors.New("the server has no address")
	}
	if i := slices.IndexFunc(s.Disks, func(d Disk) bool { return d.ID == "" }); i >= 0 {
		return s, fmt.Errorf("disk %d has no id", i+1)
	}
	return s, nil
}
