package cassandra

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/kv"
)

// catalogue is the CQL table that lists the tables of a store: the kind of each,
// and its id. The row named storeRow is the store's own: its kind is its format.
const (
	catalogue  = "gleaner"
	storeRow   = "STORE" // no table can have this name
	formatText = "format %d"
)

// Kinds of tables, as the catalogue has them. A table of the kind dropped is gone,
// and what is left of it is removed before another gets its name.
const (
	strictKind  = "table"
	looseKind   = "loose"
	droppedKind = "dropped"
)

// makeCatalogue makes the catalogue. Its id follows from the name of the keyspace:
// see createTable.
func (s *Store) makeCatalogue(ctx context.Context) error {
	sum := sha256.Sum256([]byte("gleaner catalogue of " + s.at.Keyspace))
	id, err := gocql.UUIDFromBytes(sum[:16])
	if err != nil {
		return err
	}
	return s.createTable(ctx, catalogue, id, `name text PRIMARY KEY, kind text, id uuid`)
}

// changing is how long a change of the schema may take on a busy machine.
const changing = time.Minute

// createTable makes a CQL table, unless it is there, and waits until all nodes that
// are up know it. If two processes make a table of the same name at once, Cassandra
// gives it two ids, and what is written under one of them is lost later. So the id
// is given, and is the same for all.
func (s *Store) createTable(ctx context.Context, name string, id gocql.UUID, columns string) error {
	deadline := time.Now().Add(changing)
	for {
		err := s.tryTable(ctx, name, id, columns)
		if err == nil || !behind(err) || time.Now().After(deadline) {
			return err
		}
		if !rest(ctx) {
			return ctx.Err()
		}
	}
}

// rest waits a moment, for nodes to learn of a change of the schema. It reports whether to go on.
func rest(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(20 * time.Millisecond):
		return true
	}
}

// unaware tells whether a write was refused by a node that does not know its table yet: one that was away, for the driver at least, when
// the table was made. It surely was not applied.
func unaware(err error) bool {
	var e gocql.RequestError
	return errors.As(err, &e) && e.Code() == gocql.ErrCodeInvalid && (strings.Contains(e.Message(), "does not exist") || strings.Contains(e.Message(), "unconfigured table"))
}

func (s *Store) tryTable(ctx context.Context, name string, id gocql.UUID, columns string) error {
	tables, err := s.cqlTables(ctx)
	if err == nil && !slices.Contains(tables, name) {
		err = s.change(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (%s) WITH id = %s`, s.cql(name), columns, id))
	}
	if err != nil {
		return err
	}
	key := strings.Fields(columns)[0]
	// No token is between: each node looks at what it knows of the table, and asks no other, which may be down.
	known := fmt.Sprintf(`SELECT * FROM %s WHERE token(%s) > 0 AND token(%[2]s) < 0`, s.cql(name), key)
	for _, h := range s.session.GetHosts() {
		if !h.IsUp() {
			continue // when it starts, it asks the others
		}
		err := s.safe(known).Consistency(gocql.One).SetHostID(h.HostID()).ExecContext(ctx)
		if err != nil && h.IsUp() && unaware(err) {
			err = fmt.Errorf("node %s has not heard of it, though others have; if that lasts, restart the node: %w", h.ConnectAddress(), err)
		}
		if err != nil && h.IsUp() {
			return s.failed("read a new table of", err)
		}
	}
	// The driver may not know of all nodes yet.
	err = s.safe(fmt.Sprintf(`SELECT * FROM %s WHERE %s = ?`, s.cql(name), key), name).ExecContext(ctx)
	if few := (*gocql.RequestErrUnavailable)(nil); err != nil && !errors.As(err, &few) {
		return s.failed("read a new table of", err)
	}
	return nil
}

// behind tells whether a statement failed for a node that does not know of a
// change of the schema yet, to which a connection is just being made, or that does not
// answer: it may have ended, or stand still, and the driver not know it.
func behind(err error) bool {
	var e gocql.RequestError
	if !errors.As(err, &e) {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, gocql.ErrSessionClosed)
	}
	return slices.Contains([]int{gocql.ErrCodeInvalid, gocql.ErrCodeConfig, gocql.ErrCodeServer, gocql.ErrCodeReadFailure, gocql.ErrCodeReadTimeout}, e.Code())
}

// cql is the name of a CQL table in a statement.
func (s *Store) cql(name string) string { return fmt.Sprintf("%q.%q", s.at.Keyspace, name) }

// change changes the schema, by a statement that can be repeated: on a busy machine a node may not answer in time.
func (s *Store) change(ctx context.Context, stmt string) error {
	for deadline := time.Now().Add(changing); ; {
		err := s.safe(stmt).ExecContext(ctx)
		if err == nil {
			return nil
		}
		unheard := errors.Is(err, gocql.ErrTimeoutNoResponse) || errors.Is(err, gocql.ErrConnectionClosed) || errors.Is(err, gocql.ErrNoConnections)
		if !unheard || time.Now().After(deadline) || !rest(ctx) {
			return s.failed("change the schema of", err)
		}
	}
}

// An entry is a row of the catalogue.
type entry struct {
	name, kind string
	id         gocql.UUID
}

// cqlName is the name of the CQL table: readable, at most 48 bytes, and no other
// table's, a dropped one of the same name neither.
func (e entry) cqlName() string {
	return fmt.Sprintf("%.31s_%x", e.name, e.id.Bytes()[:8])
}

// find reads an entry of the catalogue; its kind is empty if there is none.
func (s *Store) find(ctx context.Context, name string) (entry, error) {
	e := entry{name: name}
	err := s.safe(fmt.Sprintf(`SELECT kind, id FROM %s WHERE name = ?`, s.cql(catalogue)), name).Consistency(gocql.Serial).ScanContext(ctx, &e.kind, &e.id)
	if err != nil && !errors.Is(err, gocql.ErrNotFound) {
		return e, s.failed("look up "+name+" in", err)
	}
	return e, nil
}

// claim gives the entry of a name, and makes it of that kind if there is none. It
// does not matter who made it, so an answer that is lost does not matter either.
func (s *Store) claim(ctx context.Context, name, kind string) (e entry, err error) {
	insert := fmt.Sprintf(`INSERT INTO %s (name, kind, id) VALUES (?, ?, ?) IF NOT EXISTS`, s.cql(catalogue))
	for range tries {
		if e, err = s.find(ctx, name); err != nil || e.kind != "" {
			return e, err
		}
		id, failure := gocql.RandomUUID()
		if failure != nil {
			return e, failure
		}
		_, err = applied(s.session.Query(insert, name, kind, id).NoSkipMetadata().IterContext(ctx))
	}
	if err == nil {
		err = errors.New("others remove it as fast as it is made")
	}
	return e, s.failed("make "+name+" in", err)
}

// applied reads the answer to a conditional statement.
func applied(rows *gocql.Iter) (bool, error) {
	row := map[string]any{}
	rows.MapScan(row)
	if err := rows.Close(); err != nil {
		return false, err
	}
	yes, ok := row["[applied]"].(bool)
	if !ok {
		return false, errors.New("the answer does not say whether it was applied")
	}
	return yes, nil
}

// Tables lists the tables.
func (s *Store) Tables(ctx context.Context) ([]kv.TableInfo, error) {
	rows := s.safe(fmt.Sprintf(`SELECT name, kind FROM %s`, s.cql(catalogue))).IterContext(ctx)
	var all []kv.TableInfo
	for name, kind := "", ""; rows.Scan(&name, &kind); {
		if kind == strictKind || kind == looseKind { // not the store's own row, and not what was dropped
			all = append(all, kv.TableInfo{Name: name, Loose: kind == looseKind})
		}
	}
	if err := rows.Close(); err != nil {
		return nil, s.failed("list the tables of", err)
	}
	slices.SortFunc(all, func(a, b kv.TableInfo) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Flaws says what is wrong with the catalogue, and changes nothing: to open a table that is not there makes it again, without its records.
func (s *Store) Flaws(ctx context.Context) (flaws []string, err error) {
	there, err := s.cqlTables(ctx)
	if err != nil {
		return nil, err
	}
	rows := s.safe(fmt.Sprintf(`SELECT name, kind, id FROM %s`, s.cql(catalogue))).IterContext(ctx)
	for e := (entry{}); rows.Scan(&e.name, &e.kind, &e.id); e = (entry{}) {
		switch {
		case e.name == storeRow || e.kind == droppedKind:
		case e.kind != strictKind && e.kind != looseKind:
			flaws = append(flaws, fmt.Sprintf("table %s is of kind %q, which this gleaner does not know", e.name, e.kind))
		case !slices.Contains(there, e.cqlName()):
			flaws = append(flaws, fmt.Sprintf("table %s is not there: somebody dropped it, or who made it ended before it was", e.name))
		}
	}
	if err := rows.Close(); err != nil {
		return nil, s.failed("list the tables of", err)
	}
	slices.Sort(flaws)
	return flaws, nil
}

// Table gives the table of that name.
func (s *Store) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.table(ctx, name, false)
	if err != nil {
		return nil, err
	}
	return strict{t}, nil
}

// LooseTable gives the loose table of that name.
func (s *Store) LooseTable(ctx context.Context, name string) (kv.LooseTable, error) {
	t, err := s.table(ctx, name, true)
	if err != nil {
		return nil, err
	}
	return loose{t}, nil
}

func (s *Store) table(ctx context.Context, name string, loose bool) (*table, error) {
	if err := kv.CheckName(name); err != nil {
		return nil, err
	}
	kind := strictKind
	if loose {
		kind = looseKind
	}
	e, err := s.claim(ctx, name, kind)
	if err == nil && e.kind == droppedKind { // by a process that did not finish
		if err = s.remove(ctx, e); err == nil {
			e, err = s.claim(ctx, name, kind)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case e.kind == strictKind && loose, e.kind == looseKind && !loose:
		return nil, kv.WrongKind(name, !loose)
	case e.kind != kind:
		return nil, fmt.Errorf("kv: table %s is of kind %q, which this gleaner does not know", name, e.kind)
	}
	if err := s.createTable(ctx, e.cqlName(), e.id, columns(loose)); err != nil {
		return nil, err
	}
	return newTable(s, e.name, s.cql(e.cqlName()), loose), nil
}

// Drop marks the table as dropped first, so that whoever asks for the name next
// finishes what this process may not.
func (s *Store) Drop(ctx context.Context, name string) error {
	if err := kv.CheckName(name); err != nil {
		return err
	}
	e, err := s.find(ctx, name)
	if err != nil || e.kind == "" {
		return err
	}
	mark := fmt.Sprintf(`UPDATE %s SET kind = ? WHERE name = ? IF id = ?`, s.cql(catalogue))
	if err := s.repeat(ctx, mark, droppedKind, name, e.id); err != nil {
		return err
	}
	return s.remove(ctx, e)
}

// remove removes a table that is marked as dropped.
func (s *Store) remove(ctx context.Context, e entry) error {
	if err := s.change(ctx, `DROP TABLE IF EXISTS `+s.cql(e.cqlName())); err != nil {
		return err
	}
	return s.repeat(ctx, fmt.Sprintf(`DELETE FROM %s WHERE name = ? IF id = ?`, s.cql(catalogue)), e.name, e.id)
}

// repeat runs a conditional statement that can be repeated, until there is an answer: not
// applied means that it was before, or that the table is not the same any more.
func (s *Store) repeat(ctx context.Context, stmt string, values ...any) (err error) {
	for range tries {
		if _, err = applied(s.session.Query(stmt, values...).NoSkipMetadata().IterContext(ctx)); err == nil {
			return nil
		}
	}
	return s.failed("drop a table of", err)
}
