package shuffle

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gleaner/kv"
)

// A Space is where runs are kept. All workers of a scan have the same. Names have
// letters, digits and dashes.
type Space interface {
	// Create makes a run, which is there once its writer is closed. A run of that name is replaced.
	Create(ctx context.Context, name string) (io.WriteCloser, error)
	// Open opens a run. If there is none of that name, the error is a Damaged.
	Open(ctx context.Context, name string) (Source, error)
	// Names lists the runs.
	Names(ctx context.Context) ([]string, error)
	// Remove removes a run, if there is one of that name.
	Remove(ctx context.Context, name string) error
}

// A Source is a run that is open for reading.
type Source interface {
	io.ReaderAt
	io.Closer
}

// Dir keeps runs as files of a directory, for workers of one machine. It makes
// the directory when it is needed.
type Dir string

const ending = ".run"

func (d Dir) path(name string) string { return filepath.Join(string(d), name+ending) }

// Create makes a file.
func (d Dir) Create(_ context.Context, name string) (io.WriteCloser, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(d.path(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

// Open opens a file.
func (d Dir) Open(_ context.Context, name string) (Source, error) {
	f, err := os.Open(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Damaged{name, errors.New("is gone")}
	}
	return f, err
}

// Names lists the files.
func (d Dir) Names(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ending); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// Remove deletes a file.
func (d Dir) Remove(_ context.Context, name string) error {
	if err := os.Remove(d.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Table keeps runs in a table of kv that holds nothing else, for workers on
// several machines. A run is a part, and its rows are chunks of it.
type Table struct{ Rows kv.LooseTable }

// chunkSize is the length of all chunks of a run but the last.
const chunkSize = 256 << 10

func chunkKey(name string, n int64) kv.Key {
	return kv.Key{Part: []byte(name), Row: binary.BigEndian.AppendUint32(nil, uint32(n))}
}

// Create removes a run of that name, and gives a writer of it.
func (t Table) Create(ctx context.Context, name string) (io.WriteCloser, error) {
	if err := t.Remove(ctx, name); err != nil {
		return nil, err
	}
	return &chunkWriter{ctx: ctx, rows: t.Rows, name: name}, nil
}

// A chunkWriter has the chunk that is not full yet.
type chunkWriter struct {
	ctx   context.Context
	rows  kv.LooseTable
	name  string
	chunk []byte
	n     int64
}

func (w *chunkWriter) Write(b []byte) (int, error) {
	w.chunk = append(w.chunk, b...)
	for len(w.chunk) >= chunkSize {
		if err := w.put(w.chunk[:chunkSize]); err != nil {
			return 0, err
		}
		w.chunk = append([]byte(nil), w.chunk[chunkSize:]...)
	}
	return len(b), nil
}

func (w *chunkWriter) put(chunk []byte) error {
	err := w.rows.Put(w.ctx, kv.Record{Key: chunkKey(w.name, w.n), Value: chunk})
	w.n++
	return err
}

func (w *chunkWriter) Close() error {
	if len(w.chunk) == 0 && w.n > 0 {
		return nil
	}
	return w.put(w.chunk) // also an empty one, so that the run is there
}

// Open opens a run.
func (t Table) Open(ctx context.Context, name string) (Source, error) {
	r := &chunkReader{ctx: ctx, rows: t.Rows, name: name}
	return r, r.get(0)
}

// A chunkReader has the chunk that was read last.
type chunkReader struct {
	ctx   context.Context
	rows  kv.LooseTable
	name  string
	chunk []byte
	n     int64
}

func (r *chunkReader) get(n int64) error {
	record, err := r.rows.Get(r.ctx, chunkKey(r.name, n))
	if errors.Is(err, kv.ErrNotFound) {
		return &Damaged{r.name, fmt.Errorf("chunk %d is gone", n)}
	}
	r.chunk, r.n = record.Value, n
	return err
}

// ReadAt is for one caller at a time.
func (r *chunkReader) ReadAt(b []byte, at int64) (int, error) {
	done := 0
	for done < len(b) {
		n, skip := at/chunkSize, at%chunkSize
		if n != r.n {
			if err := r.get(n); err != nil {
				return done, err
			}
		}
		if skip >= int64(len(r.chunk)) {
			return done, io.EOF
		}
		copied := copy(b[done:], r.chunk[skip:])
		done, at = done+copied, at+int64(copied)
	}
	return done, nil
}

func (r *chunkReader) Close() error { return nil }

// Names lists the runs.
func (t Table) Names(ctx context.Context) ([]string, error) {
	var names []string
	for r, err := range t.Rows.Scan(ctx, kv.Range{}) {
		if err != nil {
			return nil, err
		}
		if name := string(r.Key.Part); len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names, nil
}

// Remove deletes the chunks of a run.
func (t Table) Remove(ctx context.Context, name string) error {
	var keys []kv.Key
	for r, err := range t.Rows.Scan(ctx, kv.Range{Part: []byte(name)}) {
		if err != nil {
			return err
		}
		keys = append(keys, kv.Key{Part: []byte(name), Row: append([]byte(nil), r.Key.Row...)})
	}
	return t.Rows.Delete(ctx, keys...)
}
