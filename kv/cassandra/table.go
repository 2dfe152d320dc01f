package cassandra

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/kv"
)

// columns are those of a CQL table. An empty row is a row like any other.
func columns(loose bool) string {
	if loose {
		return `part blob, row blob, value blob, PRIMARY KEY (part, row)`
	}
	return `part blob, row blob, writer bigint, seq bigint, value blob, PRIMARY KEY (part, row)`
}

type table struct {
	store *Store
	name  string
	loose bool
	rows  atomic.Int64 // of the next page of a scan

	// Statements, each written once: the driver prepares them by their text.
	get, put, fill, remove              string // of one record; put and remove of a loose table, fill of another
	insert, update, keep, compareDelete string // conditional ones
	ofPart, ofRing, parts               string // of scans
}

func newTable(s *Store, name, cql string, loose bool) *table {
	fields := "part, row, writer, seq, value"
	if loose {
		fields = "part, row, value"
	}
	const key, same = ` WHERE part = ? AND row = ?`, ` IF writer = ? AND seq = ?`
	t := &table{
		store: s, name: name, loose: loose,
		get:           `SELECT ` + fields + ` FROM ` + cql + key,
		put:           `INSERT INTO ` + cql + ` (part, row, value) VALUES (?, ?, ?)`,
		fill:          `INSERT INTO ` + cql + ` (part, row, writer, seq, value) VALUES (?, ?, ?, ?, ?)`,
		remove:        `DELETE FROM ` + cql + key,
		update:        `UPDATE ` + cql + ` SET writer = ?, seq = ?, value = ?` + key + same,
		keep:          `UPDATE ` + cql + ` SET writer = ?, seq = ?` + key + same,
		compareDelete: `DELETE FROM ` + cql + key + same,
		ofPart:        `SELECT ` + fields + ` FROM ` + cql + ` WHERE part = ?`,
		ofRing:        `SELECT ` + fields + ` FROM ` + cql + ` WHERE token(part) > ? AND token(part) <= ?`,
		parts:         `SELECT DISTINCT part FROM ` + cql + ` WHERE token(part) = ?`,
	}
	t.insert = t.fill + ` IF NOT EXISTS`
	t.rows.Store(firstPage)
	return t
}

// Get reads at SERIAL, which completes or discards the writes that are under way.
// A loose table has none.
func (t *table) Get(ctx context.Context, key kv.Key) (kv.Record, error) {
	if t.loose {
		return t.read(ctx, key, gocql.Quorum)
	}
	return t.read(ctx, key, gocql.Serial)
}

// Peek reads at QUORUM: a round of Paxos less. LOCAL_ONE would be cheaper still, but
// a node that was down may be hours behind.
func (t *table) Peek(ctx context.Context, key kv.Key) (kv.Record, error) {
	return t.read(ctx, key, gocql.Quorum)
}

func (t *table) read(ctx context.Context, key kv.Key, level gocql.Consistency) (r kv.Record, err error) {
	if err := ready(ctx, key); err != nil {
		return r, err
	}
	rows := t.store.safe(t.get, key.Part, solid(key.Row)).Consistency(level).IterContext(ctx)
	found := t.scan(rows, &r)
	if err := rows.Close(); err != nil {
		return kv.Record{}, t.failed("read", err)
	}
	if !found {
		return kv.Record{}, kv.ErrNotFound
	}
	return r, nil
}

// scan reads the next row of an answer into r, whose bytes are then r's own.
func (t *table) scan(rows *gocql.Iter, r *kv.Record) bool {
	if t.loose {
		return rows.Scan(&r.Key.Part, &r.Key.Row, &r.Value)
	}
	var writer, seq int64
	found := rows.Scan(&r.Key.Part, &r.Key.Row, &writer, &seq, &r.Value)
	r.Version = kv.Version{Writer: uint64(writer), Seq: uint64(seq)}
	return found
}

func (t *table) failed(did string, err error) error {
	return fmt.Errorf("kv: %s table %s of %s: %w", did, t.name, t.store.at.Keyspace, plain(err))
}

func ready(ctx context.Context, key kv.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return key.Check()
}

type strict struct{ *table }

func (t strict) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return t.Apply(ctx, key.Part, next, kv.Change{Do: kv.Set, Row: key.Row, Old: old, Value: value})
}

func (t strict) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return t.Apply(ctx, key.Part, kv.Version{}, kv.Change{Do: kv.Delete, Row: key.Row, Old: old})
}

// Apply is one conditional statement, or a batch of them.
func (t strict) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	if err := kv.CheckApply(part, next, changes); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ok, err := applied(t.send(ctx, part, next, changes))
	for deadline := time.Now().Add(timeout); unaware(err) && time.Now().Before(deadline) && rest(ctx); {
		ok, err = applied(t.send(ctx, part, next, changes))
	}
	switch {
	case err != nil:
		return fmt.Errorf("kv: write table %s of %s: %w", t.name, t.store.at.Keyspace, settled(err))
	case !ok:
		return kv.ErrConflict
	}
	return nil
}

// send sends the changes once: the driver repeats only what is idempotent.
func (t strict) send(ctx context.Context, part []byte, next kv.Version, changes []kv.Change) *gocql.Iter {
	if len(changes) == 1 {
		stmt, values := t.statement(part, next, changes[0])
		return t.store.session.Query(stmt, values...).NoSkipMetadata().IterContext(ctx)
	}
	batch := t.store.session.Batch(gocql.UnloggedBatch)
	for _, c := range changes {
		stmt, values := t.statement(part, next, c)
		batch.Query(stmt, values...)
	}
	return batch.IterContext(ctx)
}

func (t strict) statement(part []byte, next kv.Version, c kv.Change) (string, []any) {
	row, none := solid(c.Row), kv.Version{}
	oldWriter, oldSeq := int64(c.Old.Writer), int64(c.Old.Seq)
	switch {
	case c.Do == kv.Delete:
		return t.compareDelete, []any{part, row, oldWriter, oldSeq}
	case c.Do == kv.Keep:
		return t.keep, []any{oldWriter, oldSeq, part, row, oldWriter, oldSeq}
	case c.Old == none:
		return t.insert, []any{part, row, int64(next.Writer), int64(next.Seq), solid(c.Value)}
	}
	return t.update, []any{int64(next.Writer), int64(next.Seq), solid(c.Value), part, row, oldWriter, oldSeq}
}

// solid makes nil bytes empty ones: nil is CQL's null, which no key may be.
func solid(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// loaded is the time of a record that was loaded, in microseconds: before that of
// any compare-and-set, whatever a clock says.
const loaded = 1

func (t strict) Load(ctx context.Context, records ...kv.Record) error {
	if err := kv.CheckLoad(records); err != nil {
		return err
	}
	return t.write(ctx, records, loaded, func(r kv.Record) (string, []any) {
		return t.fill, []any{r.Key.Part, solid(r.Key.Row), int64(r.Version.Writer), int64(r.Version.Seq), solid(r.Value)}
	})
}

type loose struct{ *table }

func (t loose) Put(ctx context.Context, records ...kv.Record) error {
	for _, r := range records {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return t.write(ctx, records, t.store.now(), func(r kv.Record) (string, []any) {
		return t.put, []any{r.Key.Part, solid(r.Key.Row), solid(r.Value)}
	})
}

func (t loose) Delete(ctx context.Context, keys ...kv.Key) error {
	records := make([]kv.Record, len(keys))
	for i, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
		records[i].Key = k
	}
	return t.write(ctx, records, t.store.now(), func(r kv.Record) (string, []any) {
		return t.remove, []any{r.Key.Part, solid(r.Key.Row)}
	})
}

// Unconditional writes to one part go together: Cassandra applies them at once.
const (
	batchRows      = 100
	batchBytes     = 64 << 10
	writesInFlight = 32
)

// write writes a statement for each record as of that time, in microseconds, some
// batches at a time. It can be repeated: the time says that it is the same write.
func (t *table) write(ctx context.Context, records []kv.Record, at int64, statement func(kv.Record) (string, []any)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	batches := gather(records)
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, min(len(batches), writesInFlight))
	for w := range errs {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(batches)) && errs[w] == nil; i = next.Add(1) - 1 {
				errs[w] = t.writeBatch(ctx, batches[i], at, statement)
			}
		})
	}
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		return t.failed("write", err)
	}
	return nil
}

// gather gathers records by their part. Of two under one key the later counts.
func gather(records []kv.Record) (batches [][]kv.Record) {
	last := make(map[[2]string]int, len(records))
	for i, r := range records {
		last[[2]string{string(r.Key.Part), string(r.Key.Row)}] = i
	}
	open, size := map[string]int{}, map[string]int{} // the batch of a part that takes more, and how large it is
	for i, r := range records {
		part := string(r.Key.Part)
		if last[[2]string{part, string(r.Key.Row)}] != i {
			continue
		}
		b, ok := open[part]
		if !ok || len(batches[b]) == batchRows || size[part] > batchBytes {
			b = len(batches)
			batches = append(batches, nil)
			open[part], size[part] = b, 0
		}
		batches[b] = append(batches[b], r)
		size[part] += len(r.Key.Row) + len(r.Value)
	}
	return batches
}

func (t *table) writeBatch(ctx context.Context, records []kv.Record, at int64, statement func(kv.Record) (string, []any)) error {
	if len(records) == 1 {
		stmt, values := statement(records[0])
		return t.store.safe(stmt, values...).RetryPolicy(patiently()).WithTimestamp(at).ExecContext(ctx)
	}
	batch := t.store.session.Batch(gocql.UnloggedBatch).WithTimestamp(at).RetryPolicy(patiently())
	for i, r := range records {
		stmt, values := statement(r)
		batch.Query(stmt, values...)
		batch.Entries[i].Idempotent = true
	}
	return batch.ExecContext(ctx)
}
