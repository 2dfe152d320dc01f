package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
)

// ErrEmpty is returned where samples are needed and the store has none.
var ErrEmpty = errors.New("history: no samples")

// A Store keeps the history in tables of a kv store. Its methods may be called
// concurrently; an Import belongs to one goroutine.
type Store struct {
	samples  kv.LooseTable // part: server; row: day, import, piece
	servers  kv.LooseTable // part: "servers"; row: server
	reimages kv.LooseTable // part: server; row: time
	tasks    kv.LooseTable // part: job/stage; row: start
	books    *books
	codec    *codec

	mu   sync.Mutex
	mine map[uint32]bool // imports this store has under way
}

// Open opens the history in a kv store. It stays the caller's to close.
func Open(ctx context.Context, store kv.Store) (*Store, error) {
	s := &Store{mine: map[uint32]bool{}}
	for name, table := range map[string]*kv.LooseTable{"history_samples": &s.samples, "history_servers": &s.servers,
		"history_reimages": &s.reimages, "history_tasks": &s.tasks} {
		var err error
		if *table, err = store.LooseTable(ctx, name); err != nil {
			return nil, fmt.Errorf("history: open: %w", err)
		}
	}
	imports, err := store.Table(ctx, "history_imports")
	if err != nil {
		return nil, fmt.Errorf("history: open: %w", err)
	}
	if s.books, err = openBooks(imports); err != nil {
		return nil, err
	}
	s.codec, err = newCodec()
	return s, err
}

var serversPart = []byte("servers")

// serverRow is a server as it is kept.
type serverRow struct {
	Environment string           `json:"environment,omitempty"`
	Function    string           `json:"function,omitempty"`
	Rack        string           `json:"rack,omitempty"`
	CPU         cluster.MilliCPU `json:"milli_cpu,omitempty"`
	Memory      cluster.Bytes    `json:"memory_bytes,omitempty"`
	Disk        cluster.Bytes    `json:"disk_bytes,omitempty"`
	Owner       cluster.TenantID `json:"tenant,omitempty"`
}

// Servers lists every server that has samples or stands in the inventory, in
// the order of their names.
func (s *Store) Servers(ctx context.Context) ([]Server, error) {
	var all []Server
	for record, err := range s.servers.Scan(ctx, kv.Range{Part: serversPart}) {
		if err != nil {
			return nil, fmt.Errorf("history: list servers: %w", err)
		}
		var row serverRow
		if err := json.Unmarshal(record.Value, &row); err != nil {
			return nil, fmt.Errorf("history: server %q: %w", record.Key.Row, err)
		}
		all = append(all, Server{Owner: row.Owner, Server: cluster.Server{ID: cluster.ServerID(record.Key.Row), Environment: row.Environment,
			Function: row.Function, Rack: row.Rack, CPU: row.CPU, Memory: row.Memory, Disk: row.Disk}})
	}
	return all, nil
}

func (s *Store) putServers(ctx context.Context, servers []Server) error {
	var records []kv.Record
	for _, v := range servers {
		value, err := json.Marshal(serverRow{v.Environment, v.Function, v.Rack, v.CPU, v.Memory, v.Disk, v.Owner})
		if err != nil {
			return fmt.Errorf("history: server %q: %w", v.ID, err)
		}
		records = append(records, kv.Record{Key: kv.Key{Part: serversPart, Row: []byte(v.ID)}, Value: value})
	}
	return put(ctx, s.servers, "servers", records)
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

// A rowKey is the row of a chunk: rows of a server are in the order of days,
// and within a day the newer stands behind the older.
type rowKey struct {
	day           int64 // since 1970
	imported, nth uint32
}

func (k rowKey) bytes() []byte {
	row := binary.BigEndian.AppendUint32(nil, uint32(k.day))
	row = binary.BigEndian.AppendUint32(row, k.imported)
	return binary.BigEndian.AppendUint32(row, k.nth)
}

func parseRow(row []byte) (rowKey, error) {
	if len(row) != 12 {
		return rowKey{}, fmt.Errorf("history: damaged row %x", row)
	}
	return rowKey{int64(binary.BigEndian.Uint32(row)), binary.BigEndian.Uint32(row[4:]), binary.BigEndian.Uint32(row[8:])}, nil
}

// days gives the range of a server's rows from the day first to the day last.
func days(server cluster.ServerID, first, last int64) kv.Range {
	return kv.Range{Part: []byte(server), From: rowKey{day: first}.bytes(), To: rowKey{day: last + 1}.bytes()}
}

// lastDay is behind every day a sample may have.
const lastDay = 1 << 20

// A serverDay is all chunks of a server and day that count, the oldest first.
// Usually it is one.
type serverDay struct {
	day    int64
	keys   []rowKey
	chunks [][]byte
}

// serverDays yields the days of a server; each is good until the next is asked for.
func (s *Store) serverDays(ctx context.Context, l *ledger, server cluster.ServerID, first, last int64) iter.Seq2[*serverDay, error] {
	return func(yield func(*serverDay, error) bool) {
		var d serverDay
		for record, err := range s.samples.Scan(ctx, days(server, first, last)) {
			var key rowKey
			if err == nil {
				key, err = parseRow(record.Key.Row)
			}
			if err != nil {
				yield(nil, fmt.Errorf("history: read samples of %q: %w", server, err))
				return
			}
			if !l.counts(key.imported) {
				continue
			}
			if len(d.keys) > 0 && d.day != key.day {
				if !yield(&d, nil) {
					return
				}
				d.keys, d.chunks = d.keys[:0], d.chunks[:0]
			}
			d.day, d.keys, d.chunks = key.day, append(d.keys, key), append(d.chunks, bytes.Clone(record.Value))
		}
		if len(d.keys) > 0 {
			yield(&d, nil)
		}
	}
}

// points appends the day's points, in order, to into.
func (s *Store) points(into []point, server cluster.ServerID, d *serverDay) ([]point, error) {
	for i, chunk := range d.chunks {
		old := len(into)
		var err error
		if into, err = s.codec.decode(into, d.day, chunk); err != nil {
			return into, fmt.Errorf("history: samples of %q on day %d: %w", server, d.day, err)
		}
		if i > 0 {
			into = merge(into[:old], into[old:])
		}
	}
	return into, nil
}

// Samples yields the samples of a server from (inclusive) to (exclusive), in order.
func (s *Store) Samples(ctx context.Context, server cluster.ServerID, from, to time.Time) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		l, err := s.books.read(ctx)
		if err != nil {
			yield(Sample{}, err)
			return
		}
		for points, err := range s.eachDay(ctx, l, server, from.UnixMilli(), to.UnixMilli()) {
			if err != nil {
				yield(Sample{}, err)
				return
			}
			for _, p := range points {
				if !yield(Sample{Milli: p.milli, Server: server, CPU: fromMillionths(p.cpu), Mem: fromMillionths(p.mem)}, nil) {
					return
				}
			}
		}
	}
}

// eachDay yields a server's points from (inclusive) to (exclusive), a day at a
// time; they are good until the next are asked for.
func (s *Store) eachDay(ctx context.Context, l *ledger, server cluster.ServerID, from, to int64) iter.Seq2[[]point, error] {
	return func(yield func([]point, error) bool) {
		from, to = max(from, 0), min(to, lastMilli)
		if from >= to {
			return
		}
		var points []point
		for d, err := range s.serverDays(ctx, l, server, from/dayMilli, (to-1)/dayMilli) {
			if err == nil {
				points, err = s.points(points[:0], server, d)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(between(points, from, to), nil) {
				return
			}
		}
	}
}

// between gives the points from (inclusive) to (exclusive).
func between(points []point, from, to int64) []point {
	at := func(milli int64) int {
		i, _ := slices.BinarySearchFunc(points, milli, func(p point, m int64) int { return cmp.Compare(p.milli, m) })
		return i
	}
	return points[at(from):at(to)]
}

// A Summary is what the store holds of one server.
type Summary struct {
	Server
	First, Last time.Time // zero without samples
	Samples     int64
	Bytes       int64 // of the chunks that count, with their keys
}

// Summaries tells of every server what is held, from the headers of its chunks.
func (s *Store) Summaries(ctx context.Context) ([]Summary, error) {
	servers, err := s.Servers(ctx)
	if err != nil {
		return nil, err
	}
	l, err := s.books.read(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Summary, len(servers))
	for i, server := range servers {
		all[i].Server = server
		for d, err := range s.serverDays(ctx, l, server.ID, 0, lastDay) {
			if err == nil {
				err = s.summarise(&all[i], d)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (s *Store) summarise(sum *Summary, d *serverDay) error {
	first, last, count := int64(dayMilli), int64(0), 0
	for _, chunk := range d.chunks {
		h, _, err := readHeader(chunk)
		if err != nil {
			return fmt.Errorf("history: samples of %q on day %d: %w", sum.ID, d.day, err)
		}
		first, last, count = min(first, h.first), max(last, h.last), count+h.count
		sum.Bytes += int64(len(sum.ID) + 12 + len(chunk))
	}
	if len(d.chunks) > 1 { // they may share moments
		points, err := s.points(nil, sum.ID, d)
		if err != nil {
			return err
		}
		count = len(points)
	}
	sum.Samples += int64(count)
	if sum.First.IsZero() {
		sum.First = time.UnixMilli(d.day*dayMilli + first).UTC()
	}
	sum.Last = time.UnixMilli(d.day*dayMilli + last).UTC()
	return nil
}

// Range gives the times of the first and of the last sample, or ErrEmpty.
func (s *Store) Range(ctx context.Context) (first, last time.Time, err error) {
	all, err := s.Summaries(ctx)
	if err != nil {
		return first, last, err
	}
	for _, sum := range all {
		if sum.Samples == 0 {
			continue
		}
		if first.IsZero() || sum.First.Before(first) {
			first = sum.First
		}
		if sum.Last.After(last) {
			last = sum.Last
		}
	}
	if first.IsZero() {
		return first, last, ErrEmpty
	}
	return first, last, nil
}

// End chooses where a window of the given length should end: with the last
// sample of some server. It is the latest such moment that has a window at least
// a tenth as full as the fullest, so that one clock in the future does not leave everybody else out.
// It tells how many servers have samples after it. It is ErrEmpty without samples.
func (s *Store) End(ctx context.Context, length time.Duration) (end time.Time, later int, err error) {
	all, err := s.Summaries(ctx)
	if err != nil {
		return end, 0, err
	}
	all = slices.DeleteFunc(all, func(sum Summary) bool { return sum.Samples == 0 })
	if len(all) == 0 {
		return end, 0, ErrEmpty
	}
	ends := lastOfDays(all)
	full := make([]float64, len(ends))
	for i, e := range ends {
		for _, sum := range all {
			full[i] += sum.within(e.Add(-length), e)
		}
	}
	enough := slices.Max(full) / 10
	end = ends[slices.IndexFunc(full, func(f float64) bool { return f >= enough })]
	for _, sum := range all {
		if sum.Last.After(end) {
			later++
		}
	}
	return end, later, nil
}

// lastOfDays gives, of each day (UTC) on which servers have their last sample,
// the last of them; the latest day first.
func lastOfDays(all []Summary) []time.Time {
	byDay := map[int64]time.Time{}
	for _, sum := range all {
		if day := sum.Last.UnixMilli() / dayMilli; sum.Last.After(byDay[day]) {
			byDay[day] = sum.Last
		}
	}
	return slices.SortedFunc(maps.Values(byDay), func(a, b time.Time) int { return b.Compare(a) })
}

// within estimates how many samples lie after from and not after to, as if all
// were evenly spread.
func (sum *Summary) within(from, to time.Time) float64 {
	a, b := float64(max(from.UnixMilli(), sum.First.UnixMilli()-1)), float64(min(to.UnixMilli(), sum.Last.UnixMilli()))
	return float64(sum.Samples) * max(0, b-a) / float64(sum.Last.UnixMilli()-sum.First.UnixMilli()+1)
}

// Reimages lists the reimages by time, and by server where the time is the same.
func (s *Store) Reimages(ctx context.Context) ([]cluster.Reimage, error) {
	var all []cluster.Reimage
	for record, err := range s.reimages.Scan(ctx, kv.Range{}) {
		if err != nil {
			return nil, fmt.Errorf("history: list reimages: %w", err)
		}
		milli := int64(binary.BigEndian.Uint64(record.Key.Row))
		all = append(all, cluster.Reimage{At: time.UnixMilli(milli).UTC(), Server: cluster.ServerID(record.Key.Part), Cause: string(record.Value)})
	}
	slices.SortFunc(all, func(a, b cluster.Reimage) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(string(a.Server), string(b.Server))
	})
	return all, nil
}

func reimageKey(r cluster.Reimage) kv.Key {
	return kv.Key{Part: []byte(r.Server), Row: binary.BigEndian.AppendUint64(nil, uint64(r.At.UnixMilli()))}
}

func (s *Store) putReimages(ctx context.Context, all []cluster.Reimage) error {
	records := make([]kv.Record, len(all))
	for i, r := range all {
		records[i] = kv.Record{Key: reimageKey(r), Value: []byte(r.Cause)}
	}
	return put(ctx, s.reimages, "reimages", records)
}
