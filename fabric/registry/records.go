package registry

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"gleaner/kv"
)

// records keeps the entries in a store, for servers that have their own data directories.
type records struct {
	files  // a name is taken on this machine too: two processes of one data directory are one holder
	table  kv.Table
	leases kv.Leases
	writer *kv.Writer
	holder string
}

// The records of the table (docs/formats/fabric-registry.md).
var (
	clusterKey  = kv.Key{Part: []byte("cluster")}
	serversPart = []byte("servers")
)

// claimed is how long a server's name stays taken when its process is gone.
const claimed = 10 * time.Second

// OpenStore opens the registry in a store, for a data directory that has the sockets. Who comes first makes it. holder is
// who takes names: no two data directories have the same.
func OpenStore(ctx context.Context, data string, store kv.Store, holder string) (*Registry, error) {
	r, err := in(data)
	if err != nil {
		return nil, err
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	s := &records{files: files{r}, writer: kv.NewWriter(binary.LittleEndian.Uint64(id[:])), holder: holder}
	s.leases.Writer = s.writer
	for name, table := range map[string]*kv.Table{"fabric_registry": &s.table, "fabric_leases": &s.leases.Table} {
		if *table, err = store.Table(ctx, name); err != nil {
			return nil, fmt.Errorf("registry: open %s: %w", name, err)
		}
	}
	r.entries = s
	if r.ID, r.Key, err = s.found(ctx); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return r, nil
}

// found reads which cluster this is, or makes one. If another is faster, its record stays.
func (s *records) found(ctx context.Context) (id string, key [32]byte, err error) {
	record, err := s.table.Get(ctx, clusterKey)
	if errors.Is(err, kv.ErrNotFound) {
		made := encodeFounding(hex.EncodeToString(random(16)), [32]byte(random(len(key))))
		if _, err := s.writer.Create(ctx, s.table, clusterKey, made); err != nil && !errors.Is(err, kv.ErrConflict) {
			return "", key, err
		}
		record, err = s.table.Get(ctx, clusterKey)
	}
	if err != nil {
		return "", key, err
	}
	return decodeFounding(record.Value)
}

func encodeFounding(id string, key [32]byte) []byte {
	return fmt.Appendf(nil, `{"cluster":%q,"key":"%x"}`, id, key)
}

func decodeFounding(text []byte) (id string, key [32]byte, err error) {
	if id, err = decodeCluster(text); err != nil {
		return "", key, err
	}
	var f struct{ Key string }
	if err := decode(text, &f); err != nil {
		return "", key, err
	}
	key, err = decodeKey([]byte(f.Key))
	return id, key, err
}

// claim takes a name by lease. Who holds it already is the process before this one: the data directory has one at a time.
func (s *records) claim(ctx context.Context, name string) (lock, error) {
	here, err := s.files.claim(ctx, name)
	if err != nil {
		return nil, err
	}
	lease, err := s.leases.Acquire(ctx, "server-"+name, s.holder, time.Now(), claimed)
	if err != nil {
		here.release()
		if errors.Is(err, kv.ErrTaken) {
			err = fmt.Errorf("%w: %w", ErrRuns, err)
		}
		return nil, err
	}
	l := &leased{here: here, leases: s.leases, lease: lease, gone: make(chan struct{})}
	keep, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.keeper.Go(func() { l.keep(keep) })
	return l, nil
}

// A leased name is renewed until it is released, or another has it.
type leased struct {
	here   lock
	leases kv.Leases
	lease  kv.Lease
	gone   chan struct{}
	stop   context.CancelFunc
	keeper sync.WaitGroup
}

func (l *leased) lost() <-chan struct{} { return l.gone }

func (l *leased) keep(ctx context.Context) {
	tick := time.NewTicker(claimed / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next, err := l.leases.Renew(ctx, l.lease, time.Now(), claimed)
		if errors.Is(err, kv.ErrTaken) {
			close(l.gone)
			return
		}
		if err == nil { // else it is tried again: the lease is ours until another takes it
			l.lease = next
		}
	}
}

func (l *leased) release() error {
	l.stop()
	l.keeper.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), claimed)
	defer cancel()
	err := l.leases.Release(ctx, l.lease)
	if errors.Is(err, kv.ErrTaken) {
		err = nil
	}
	return errors.Join(err, l.here.release())
}

func (s *records) write(ctx context.Context, server Server) error {
	value, err := json.Marshal(server)
	if err != nil {
		return err
	}
	_, err = s.writer.Update(ctx, s.table, entryKey(server.Name), func(kv.Record) ([]byte, error) { return value, nil })
	return err
}

func entryKey(name string) kv.Key { return kv.Key{Part: serversPart, Row: []byte(name)} }

func (s *records) all(ctx context.Context) (all []Server, err error) {
	for r, err := range s.table.Scan(ctx, kv.Range{Part: serversPart}) {
		if err != nil {
			return nil, fmt.Errorf("registry: %w", err)
		}
		server, err := decodeEntry(string(r.Key.Row), r.Value)
		if err != nil {
			return nil, fmt.Errorf("registry: the entry of %s: %w", r.Key.Row, err)
		}
		all = append(all, server)
	}
	return all, nil
}
