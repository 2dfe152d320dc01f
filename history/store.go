package history

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
)

var (
	// ErrEmpty is returned where samples are needed and the store has none.
	ErrEmpty = errors.New("history: no samples")
	// ErrTooFew is returned where the time between samples is needed and no
	// server has two.
	ErrTooFew = errors.New("history: no server has two samples")
)

// A Store keeps the history in tables of a kv store. Its methods may be called
// concurrently, also by several processes; an Import belongs to one goroutine.
type Store struct {
	samples  kv.LooseTable // part: server; row: day, import, piece
	headers  kv.LooseTable // the index of samples, with the same parts and rows
	servers  kv.LooseTable // part: "servers"; row: server, import
	reimages kv.LooseTable // part: server; row: time, import
	tasks    kv.LooseTable // part: job/stage; row: start
	jobs     kv.LooseTable // part: job; row: end
	classes  kv.LooseTable // part: "classes"; row: empty
	ledger   *ledgerTable
	codec    *codec
}

// Open opens the history in a kv store, which stays the caller's to close. now
// is the clock: it tells when an import has stalled for too long.
func Open(ctx context.Context, store kv.Store, now func() time.Time) (*Store, error) {
	s := new(Store)
	for name, table := range map[string]*kv.LooseTable{"history_samples": &s.samples, "history_headers": &s.headers,
		"history_servers": &s.servers, "history_reimages": &s.reimages, "history_tasks": &s.tasks,
		"history_jobs": &s.jobs, "history_classes": &s.classes} {
		var err error
		if *table, err = store.LooseTable(ctx, name); err != nil {
			return nil, fmt.Errorf("history: open: %w", err)
		}
	}
	var err error
	if s.ledger, err = openLedger(ctx, store, now); err != nil {
		return nil, err
	}
	if s.codec, err = newCodec(); err != nil {
		return nil, err
	}
	return s, s.makeIndex(ctx)
}

// put writes records, if there are any.
func put(ctx context.Context, table kv.LooseTable, what string, records []kv.Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := table.Put(ctx, records...); err != nil {
		return fmt.Errorf("history: put %s: %w", what, err)
	}
	return nil
}

// numbered appends the number of an import to a row.
func numbered(row []byte, imported uint32) []byte {
	return binary.BigEndian.AppendUint32(row, imported)
}

// counted yields the records of a range whose row counts. number tells the
// import that wrote a row; a row from before rows were numbered has none, and counts.
func counted(ctx context.Context, table kv.LooseTable, in kv.Range, l *ledger, number func(row []byte) (uint32, bool)) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		for record, err := range table.Scan(ctx, in) {
			if err == nil {
				if id, has := number(record.Key.Row); has && !l.counts(id) {
					continue
				}
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

var serversPart = []byte("servers")

// serverRow is what one import says about a server.
type serverRow struct {
	Environment string           `json:"environment,omitempty"`
	Function    string           `json:"function,omitempty"`
	Rack        string           `json:"rack,omitempty"`
	CPU         cluster.MilliCPU `json:"milli_cpu,omitempty"`
	Memory      cluster.Bytes    `json:"memory_bytes,omitempty"`
	Disk        cluster.Bytes    `json:"disk_bytes,omitempty"`
	Owner       cluster.TenantID `json:"tenant,omitempty"`
}

// serverKey is the key of what an import says about a server: its name, a zero
// byte, which no name has, and the import's number.
func serverKey(server cluster.ServerID, imported uint32) kv.Key {
	return kv.Key{Part: serversPart, Row: numbered(append([]byte(server), 0), imported)}
}

// serverOf splits the row of a server.
func serverOf(row []byte) (server cluster.ServerID, imported uint32, has bool) {
	at := len(row) - 5
	if at < 0 || row[at] != 0 {
		return cluster.ServerID(row), 0, false
	}
	return cluster.ServerID(row[:at]), binary.BigEndian.Uint32(row[at+1:]), true
}

func serverNumber(row []byte) (uint32, bool) {
	_, imported, has := serverOf(row)
	return imported, has
}

// serverRows is the range of all rows of a server.
func serverRows(server cluster.ServerID) kv.Range {
	return kv.Range{Part: serversPart, From: []byte(server), To: append([]byte(server), 1)}
}

// Servers lists every server that has samples or is in the inventory, in the
// order of their names.
func (s *Store) Servers(ctx context.Context) ([]Server, error) {
	l, err := s.ledger.read(ctx)
	if err != nil {
		return nil, err
	}
	return s.countedServers(ctx, l)
}

// countedServers merges what the imports that count say about servers; a later one overrides an earlier.
func (s *Store) countedServers(ctx context.Context, l *ledger) ([]Server, error) {
	var all []Server
	for record, err := range counted(ctx, s.servers, kv.Range{Part: serversPart}, l, serverNumber) {
		if err != nil {
			return nil, fmt.Errorf("history: list servers: %w", err)
		}
		id, _, _ := serverOf(record.Key.Row)
		var row serverRow
		if err := json.Unmarshal(record.Value, &row); err != nil {
			return nil, fmt.Errorf("history: server %q: %w", id, err)
		}
		if len(all) == 0 || all[len(all)-1].ID != id {
			all = append(all, Server{Server: cluster.Server{ID: id}})
		}
		all[len(all)-1].update(Server{Owner: row.Owner, Server: cluster.Server{Environment: row.Environment,
			Function: row.Function, Rack: row.Rack, CPU: row.CPU, Memory: row.Memory, Disk: row.Disk}})
	}
	return all, nil
}

func (s *Store) putServers(ctx context.Context, imported uint32, servers []Server) error {
	var records []kv.Record
	for _, v := range servers {
		value, err := json.Marshal(serverRow{v.Environment, v.Function, v.Rack, v.CPU, v.Memory, v.Disk, v.Owner})
		if err != nil {
			return fmt.Errorf("history: server %q: %w", v.ID, err)
		}
		records = append(records, kv.Record{Key: serverKey(v.ID, imported), Value: value})
	}
	return put(ctx, s.servers, "servers", records)
}

// Reimages lists the reimages by time, and by server where the time is the same.
func (s *Store) Reimages(ctx context.Context) ([]cluster.Reimage, error) {
	l, err := s.ledger.read(ctx)
	if err != nil {
		return nil, err
	}
	type moment struct {
		server cluster.ServerID
		milli  int64
	}
	latest := map[moment]cluster.Reimage{} // rows of a moment come in the order of imports
	for record, err := range counted(ctx, s.reimages, kv.Range{}, l, reimageNumber) {
		if err != nil {
			return nil, fmt.Errorf("history: list reimages: %w", err)
		}
		m := moment{cluster.ServerID(record.Key.Part), reimageMilli(record.Key.Row)}
		latest[m] = cluster.Reimage{At: time.UnixMilli(m.milli).UTC(), Server: m.server, Cause: string(record.Value)}
	}
	return slices.SortedFunc(maps.Values(latest), func(a, b cluster.Reimage) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Server, b.Server))
	}), nil
}

func (s *Store) putReimages(ctx context.Context, imported uint32, all []cluster.Reimage) error {
	records := make([]kv.Record, len(all))
	for i, r := range all {
		row := numbered(binary.BigEndian.AppendUint64(nil, uint64(r.At.UnixMilli())), imported)
		records[i] = kv.Record{Key: kv.Key{Part: []byte(r.Server), Row: row}, Value: []byte(r.Cause)}
	}
	return put(ctx, s.reimages, "reimages", records)
}

func reimageMilli(row []byte) int64 { return int64(binary.BigEndian.Uint64(row)) }

func reimageNumber(row []byte) (uint32, bool) {
	if len(row) == 8 {
		return 0, false
	}
	return binary.BigEndian.Uint32(row[8:]), true
}
