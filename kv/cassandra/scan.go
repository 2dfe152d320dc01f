package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/kv"
)

const (
	// pageBytes is how large a page of a scan shall be. Cassandra counts pages in rows,
	// so each page is as many rows as the one before makes seem right.
	pageBytes = 1 << 20
	firstPage = 32
	minPage   = 4
	maxPage   = 4096
	// rangesInFlight is how many ranges of tokens a scan reads ahead.
	rangesInFlight = 4
)

// Split cuts the ring evenly: see cut.
func (t *table) Split(_ context.Context, n int) ([]kv.Range, error) {
	if n < 1 {
		return nil, fmt.Errorf("kv: cannot cut a table into %d ranges", n)
	}
	return cut(n), nil
}

func (t *table) Rest(r kv.Range, last kv.Key) kv.Range {
	if len(r.Part) > 0 {
		r.From = append(bytes.Clone(last.Row), 0)
	} else {
		r.From = place{tokenOf(last.Part), &last}.bytes()
	}
	return r
}

// errStopped ends a scan whose caller has seen enough.
var errStopped = errors.New("stopped")

// Scan reads at QUORUM, so it sees every write that was acknowledged before.
func (t *table) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // ends what reads ahead
		defer cancel()
		each := func(r kv.Record) error {
			if !yield(r, nil) {
				return errStopped
			}
			return nil
		}
		err := t.scanRange(ctx, r, each)
		if err != nil && !errors.Is(err, errStopped) {
			yield(kv.Record{}, err)
		}
	}
}

func (t *table) scanRange(ctx context.Context, r kv.Range, each func(kv.Record) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(r.Part) > 0 {
		return t.scanPart(ctx, r, each)
	}
	from, to, err := bounds(r)
	if err != nil {
		return err
	}
	if from.after != nil {
		if err := t.scanAfter(ctx, *from.after, each); err != nil {
			return err
		}
	}
	return t.scanRing(ctx, from.token, to, each)
}

// scanPart scans rows of one part.
func (t *table) scanPart(ctx context.Context, r kv.Range, each func(kv.Record) error) error {
	if r.To != nil && bytes.Compare(r.From, r.To) >= 0 {
		return ctx.Err()
	}
	q := query{t.ofPart, []any{r.Part}}
	if len(r.From) > 0 {
		q = q.and(r.From, `row >= ?`, `row > ?`)
	}
	if r.To != nil {
		q = q.and(r.To, `row < ?`, `row <= ?`)
	}
	_, err := t.drain(t.stream(ctx, q), each)
	return err
}

// and adds a bound. One that is longer than any row, as Rest makes it of the
// longest, is cut: no row lies between the two.
func (q query) and(bound []byte, whole, cut string) query {
	if len(bound) > kv.MaxKey {
		whole, bound = cut, bound[:kv.MaxKey]
	}
	return query{q.stmt + ` AND ` + whole, append(q.values, bound)}
}

// scanAfter scans what follows a record at its own token: the rest of its part,
// and other parts of the same token, of which there are hardly ever any.
func (t *table) scanAfter(ctx context.Context, last kv.Key, each func(kv.Record) error) error {
	if err := t.scanPart(ctx, kv.Range{Part: last.Part, From: append(bytes.Clone(last.Row), 0)}, each); err != nil {
		return err
	}
	rows := t.store.safe(t.parts, tokenOf(last.Part).cql()).IterContext(ctx)
	var parts [][]byte
	for part := []byte(nil); rows.Scan(&part); part = nil {
		parts = append(parts, part)
	}
	if err := rows.Close(); err != nil {
		return t.failed("scan", err)
	}
	slices.SortFunc(parts, bytes.Compare)
	for _, part := range parts {
		if bytes.Compare(part, last.Part) > 0 {
			if err := t.scanPart(ctx, kv.Range{Part: part}, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanRing scans the parts of tokens in (from, to]. One page tells how dense the
// records are; if there are more, it cuts the rest into ranges of about a page
// each, and reads some of them ahead.
func (t *table) scanRing(ctx context.Context, from, to token, each func(kv.Record) error) error {
	if from >= to {
		return ctx.Err()
	}
	first := t.fetch(ctx, t.ringQuery(from, to), nil)
	if err := first.give(each); err != nil {
		return err
	}
	if len(first.next) == 0 {
		return nil
	}
	at := from
	if n := len(first.records); n > 0 {
		last := first.records[n-1].Key
		if err := t.scanAfter(ctx, last, each); err != nil {
			return err
		}
		at = tokenOf(last.Part)
	}
	var stride atomic.Uint64
	stride.Store(nextStride(uint64(at-from), len(first.records), t.rows.Load()))
	for s := range t.ahead(ctx, at, to, &stride) {
		n, err := t.drain(s.pages, each)
		if err != nil {
			return err
		}
		stride.Store(nextStride(s.width, n, t.rows.Load()))
	}
	return ctx.Err()
}

// nextStride is the width of a range that holds three quarters of a page, so that most
// are read by one request, by a range that has n records. It changes by a factor of 4
// at most: one range is not like the next.
func nextStride(width uint64, n int, page int64) uint64 {
	factor := min(4, max(0.25, 0.75*float64(page)/float64(max(n, 1))))
	return uint64(max(1, min(float64(width)*factor, math.MaxUint64/2)))
}

func (t *table) ringQuery(from, to token) query {
	return query{t.ofRing, []any{from.cql(), to.cql()}}
}

// A span is a range of tokens that is being read.
type span struct {
	width uint64
	pages <-chan page
}

// ahead cuts (from, to] into spans in order, and begins to read each.
func (t *table) ahead(ctx context.Context, from, to token, stride *atomic.Uint64) <-chan span {
	spans := make(chan span, rangesInFlight-1)
	go func() {
		defer close(spans)
		for from < to {
			width := min(stride.Load(), uint64(to-from))
			next := from + token(width)
			select {
			case spans <- span{width, t.stream(ctx, t.ringQuery(from, next))}:
			case <-ctx.Done():
				return
			}
			from = next
		}
	}()
	return spans
}

// A query is a statement of a scan, with its values.
type query struct {
	stmt   string
	values []any
}

// A page is a part of an answer.
type page struct {
	records []kv.Record
	next    []byte // where the next page begins; empty after the last
	err     error
}

// give hands the records to each.
func (p page) give(each func(kv.Record) error) error {
	if p.err != nil {
		return p.err
	}
	for _, r := range p.records {
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

// stream reads the pages of a query, one ahead of the reader.
func (t *table) stream(ctx context.Context, q query) <-chan page {
	pages := make(chan page, 1)
	go func() {
		defer close(pages)
		for at, more := []byte(nil), true; more; {
			p := t.fetch(ctx, q, at)
			select {
			case pages <- p:
			case <-ctx.Done():
				return
			}
			at, more = p.next, len(p.next) > 0
		}
	}()
	return pages
}

// drain gives each record of the pages, and tells how many there are.
func (t *table) drain(pages <-chan page, each func(kv.Record) error) (n int, err error) {
	for p := range pages {
		n += len(p.records)
		if err := p.give(each); err != nil {
			return n, err
		}
	}
	return n, nil
}

// fetch reads one page. One that fails may be too much for the nodes at once, so
// it is tried again with fewer rows.
func (t *table) fetch(ctx context.Context, q query, at []byte) page {
	rows := t.rows.Load()
	for {
		p := t.fetchRows(ctx, q, at, int(rows))
		if p.err == nil || rows == minPage || ctx.Err() != nil {
			return p
		}
		rows = max(minPage, rows/16)
	}
}

func (t *table) fetchRows(ctx context.Context, q query, at []byte, rows int) page {
	answer := t.store.safe(q.stmt, q.values...).Consistency(gocql.Quorum).PageSize(rows).PageState(at).IterContext(ctx)
	p := page{records: make([]kv.Record, 0, answer.NumRows()), next: answer.PageState()}
	size := 0
	for r := (kv.Record{}); t.scan(answer, &r); r = (kv.Record{}) {
		size += len(r.Key.Part) + len(r.Key.Row) + len(r.Value)
		p.records = append(p.records, r)
	}
	if err := answer.Close(); err != nil {
		return page{err: t.failed("scan", err)}
	}
	if n := len(p.records); n >= rows/2 { // enough to say how large rows are
		t.rows.Store(int64(min(maxPage, max(minPage, pageBytes*n/max(size, 1)), 4*rows)))
	}
	return p
}
