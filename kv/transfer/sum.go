package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	"gleaner/kv"
)

// A Sum is what a table holds. Two tables with the same records have the same
// sum, whatever the order in which their stores keep them.
type Sum struct {
	Table   string `json:"table"`
	Loose   bool   `json:"loose"`
	Parts   int64  `json:"parts"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"` // of parts, rows and values
	Digest  string `json:"digest"`
}

// Diary says that the table is no data: it is there while a copy into its store is not complete.
func (s Sum) Diary() bool { return s.Table == diaryTable }

// Measure reads a whole table, and calls each for every record. It returns an
// error if the store breaks a promise: rows of a part out of order or in pieces.
func Measure(ctx context.Context, s kv.Store, t kv.TableInfo, each func()) (Sum, error) {
	sum := Sum{Table: t.Name, Loose: t.Loose}
	tab, err := open(ctx, s, t)
	if err != nil {
		return sum, err
	}
	var total digest
	var last kv.Key
	var buf []byte
	for r, err := range tab.Scan(ctx, kv.Range{}) {
		switch {
		case err != nil:
			return sum, err
		case !bytes.Equal(r.Key.Part, last.Part):
			sum.Parts++
		case bytes.Compare(r.Key.Row, last.Row) <= 0:
			return sum, fmt.Errorf("transfer: table %s: row %q of part %q comes after row %q", t.Name, r.Key.Row, r.Key.Part, last.Row)
		}
		if err := r.Check(); err != nil {
			return sum, fmt.Errorf("transfer: table %s: %w", t.Name, err)
		}
		last = kv.Key{Part: append(last.Part[:0], r.Key.Part...), Row: append(last.Row[:0], r.Key.Row...)}
		sum.Records++
		sum.Bytes += int64(len(r.Key.Part) + len(r.Key.Row) + len(r.Value))
		buf = total.add(buf[:0], r)
		each()
	}
	sum.Digest = hex.EncodeToString(total[:])
	return sum, nil
}

// A digest is the sum of the hashes of some records, in which their order does not matter.
type digest [32]byte

// add adds a record; buf is space to work in.
func (d *digest) add(buf []byte, r kv.Record) []byte {
	for _, b := range [][]byte{r.Key.Part, r.Key.Row, r.Value} {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(b)))
		buf = append(buf, b...)
	}
	buf = binary.BigEndian.AppendUint64(buf, r.Version.Writer)
	buf = binary.BigEndian.AppendUint64(buf, r.Version.Seq)
	hash, carry := sha256.Sum256(buf), 0
	for i := len(d) - 1; i >= 0; i-- {
		carry += int(d[i]) + int(hash[i])
		d[i], carry = byte(carry), carry>>8
	}
	return buf
}

func newWriter() *kv.Writer { return kv.NewWriter(rand.Uint64()) }
