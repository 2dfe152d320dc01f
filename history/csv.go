package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gleaner/input"
)

// maxRecord is the longest record that a CSV may have. Real records are far
// shorter; a longer one means that the file is no CSV.
const maxRecord = 64 << 10

// ReadOptions say how to read a file.
type ReadOptions struct {
	// SkipBad skips rows that cannot be read, and counts them.
	SkipBad bool
}

// ReadStats tell what a file held.
type ReadStats struct {
	Rows     int64 // good rows
	Skipped  int64 // bad rows
	FirstBad error // the first of them, an input.Error
}

// records reads RFC 4180 records from a stream in one pass. A record without
// quotes is split in place, which is fast.
type records struct {
	name   string
	r      io.Reader
	buf    []byte
	at     int // the next record starts here
	end    int // of what is read
	eof    bool
	line   int // first line of the record given last
	lines  int // lines given so far
	fields [][]byte
}

func newRecords(name string, r io.Reader) *records {
	return &records{name: name, r: r, buf: make([]byte, 4*maxRecord)}
}

// bad is what is wrong with one row; the rows after it can still be read.
type bad string

func (b bad) Error() string { return string(b) }

func badf(format string, args ...any) error { return bad(fmt.Sprintf(format, args...)) }

// next gives the fields of the next record that is not a blank line, valid until
// the next call. io.EOF ends the file; a bad can be skipped.
func (r *records) next() ([][]byte, error) {
	for {
		record, err := r.record()
		if err != nil {
			return nil, err
		}
		record = bytes.TrimSuffix(record, []byte("\r"))
		if len(record) == 0 {
			continue
		}
		if bytes.IndexByte(record, '"') >= 0 {
			return r.splitQuoted(record)
		}
		r.fields = r.fields[:0]
		for {
			i := bytes.IndexByte(record, ',')
			if i < 0 {
				r.fields = append(r.fields, record)
				return r.fields, nil
			}
			r.fields = append(r.fields, record[:i])
			record = record[i+1:]
		}
	}
}

// record reads up to the newline that ends a record: the first with an even
// number of quotes before it. A line whose first quote is not at the beginning
// of a field is a record by itself, and bad.
func (r *records) record() ([]byte, error) {
	r.line = r.lines + 1
	quotes, seen := 0, 0 // quotes within the first seen bytes
	for {
		rest := r.buf[r.at:r.end]
		i := bytes.IndexByte(rest[seen:], '\n')
		if i < 0 && !r.eof {
			if len(rest) > maxRecord {
				return nil, r.errorf("longer than %d bytes: is this a CSV file?", maxRecord)
			}
			if err := r.fill(); err != nil {
				return nil, err
			}
			continue
		}
		last := i < 0
		if last {
			i = len(rest) - seen
		}
		quotes += bytes.Count(rest[seen:seen+i], []byte{'"'})
		closed := quotes%2 == 0 || !opensField(rest)
		r.lines++
		switch {
		case last && len(rest) == 0:
			return nil, io.EOF
		case last && !closed:
			return nil, r.errorf("a quoted field is never closed")
		case last:
			r.at = r.end
			return rest, nil
		case closed:
			r.at += seen + i + 1
			return rest[:seen+i], nil
		case seen+i > maxRecord:
			return nil, r.errorf("a quoted field is not closed within %d bytes", maxRecord)
		}
		seen += i + 1
	}
}

// opensField reports whether the first quote is at the beginning of a field.
func opensField(record []byte) bool {
	i := bytes.IndexByte(record, '"')
	return i == 0 || i > 0 && record[i-1] == ','
}

func (r *records) errorf(format string, args ...any) error {
	return input.Linef(r.name, r.line, format, args...)
}

// fill reads more of the file into the buffer.
func (r *records) fill() error {
	if r.at > 0 {
		r.end = copy(r.buf, r.buf[r.at:r.end])
		r.at = 0
	}
	n, err := r.r.Read(r.buf[r.end:])
	r.end += n
	switch {
	case err == io.EOF:
		r.eof = true
	case err != nil && input.Is(err):
		return err
	case err != nil:
		return fmt.Errorf("history: read %s: %w", r.name, err)
	}
	return nil
}

// splitQuoted splits a record in which at least one field is quoted.
func (r *records) splitQuoted(record []byte) ([][]byte, error) {
	r.fields = r.fields[:0]
	for {
		var field []byte
		quoted := len(record) > 0 && record[0] == '"'
		if quoted {
			field, record = unquote(record[1:])
		} else {
			i := bytes.IndexByte(record, ',')
			if i < 0 {
				i = len(record)
			}
			field, record = record[:i], record[i:]
		}
		switch {
		case !quoted && bytes.IndexByte(field, '"') >= 0:
			return nil, bad("a quote in the middle of a field")
		case len(record) > 0 && record[0] != ',':
			return nil, bad("text behind a closing quote")
		}
		r.fields = append(r.fields, field)
		if len(record) == 0 {
			return r.fields, nil
		}
		record = record[1:]
	}
}

// unquote gives the field after an opening quote, and what follows its closing
// quote. There is one: record counted them.
func unquote(record []byte) (field, rest []byte) {
	for {
		i := bytes.IndexByte(record, '"')
		if i < 0 {
			return append(field, record...), nil
		}
		field = append(field, record[:i]...)
		record = record[i+1:]
		if len(record) == 0 || record[0] != '"' {
			return field, record
		}
		field, record = append(field, '"'), record[1:]
	}
}

// A column is a column that a file may have.
type column struct {
	name     string
	required bool
}

// header reads the first record and gives the place of each column, -1 if the
// file does not have it.
func (r *records) header(columns []column) ([]int, error) {
	fields, err := r.next()
	switch {
	case err == io.EOF:
		return nil, input.Errorf(r.name, "is empty: it should start with a header such as %s", names(columns))
	case isBad(err):
		return nil, r.errorf("%v", err)
	case err != nil:
		return nil, err
	}
	places := slices.Repeat([]int{-1}, len(columns))
	for i, field := range fields {
		if i == 0 {
			field = bytes.TrimPrefix(field, []byte("\ufeff")) // as spreadsheets write it
		}
		name := strings.ToLower(string(bytes.TrimSpace(field)))
		at := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		switch {
		case at < 0 && len(fields) == 1 && strings.ContainsAny(name, ";\t"):
			return nil, r.errorf("separated by %q instead of \",\"", name[strings.IndexAny(name, ";\t"):][:1])
		case at < 0:
			return nil, r.errorf("unknown column %s: the columns are %s", show([]byte(name)), names(columns))
		case places[at] >= 0:
			return nil, r.errorf("the column %q is there twice", name)
		}
		places[at] = i
	}
	for i, c := range columns {
		if c.required && places[i] < 0 {
			return nil, r.errorf("the header misses the column %q", c.name)
		}
	}
	return places, nil
}

// names lists the columns, with optional ones in brackets.
func names(columns []column) string {
	var all []string
	for _, c := range columns {
		if c.required {
			all = append(all, c.name)
		} else {
			all = append(all, "["+c.name+"]")
		}
	}
	return strings.Join(all, ",")
}

// eachRow reads a file with the given columns and calls take for every row, with
// the fields in the order of columns (nil for one that the file does not have). A
// bad that take returns is reported with its line, or counted.
func eachRow(name string, r io.Reader, columns []column, o ReadOptions, take func(line int, fields [][]byte) error) (ReadStats, error) {
	var stats ReadStats
	in := newRecords(name, r)
	places, err := in.header(columns)
	if err != nil {
		return stats, err
	}
	width := len(in.fields)
	row := make([][]byte, len(columns))
	for {
		fields, err := in.next()
		if err == io.EOF {
			return stats, nil
		}
		if err == nil && len(fields) != width {
			err = badf("%d fields where the header has %d", len(fields), width)
		}
		if err == nil {
			for i, place := range places {
				if place >= 0 {
					row[i] = fields[place]
				}
			}
			err = take(in.line, row)
		}
		switch {
		case err == nil:
			stats.Rows++
			continue
		case !isBad(err):
			return stats, err
		}
		err = in.errorf("%v", err)
		if !o.SkipBad {
			return stats, err
		}
		if stats.Skipped++; stats.Skipped == 1 {
			stats.FirstBad = err
		}
	}
}

func isBad(err error) bool {
	var b bad
	return errors.As(err, &b)
}

// show quotes a user's text for a message, on one line and not too long.
func show(field []byte) string {
	const most = 40
	if len(field) > most {
		return fmt.Sprintf("%q…", field[:most])
	}
	return fmt.Sprintf("%q", field)
}
