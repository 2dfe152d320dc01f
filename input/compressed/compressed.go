// Package compressed opens the files a user names: plain, gzip or zstd,
// recognised by their first bytes or their ending.
package compressed

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"gleaner/input"
)

// Open opens path, or standard input for "-", and decompresses it while reading
// if it starts like gzip or zstd, or its name ends in .gz or .zst. A file that is
// missing or unreadable, does not match its ending, or has a format that is not
// supported is an input.Error. Damage further in is an input.Error from Read.
func Open(path string) (io.ReadCloser, error) { return OpenWatched(path, func(int64) {}) }

// OpenWatched is Open that calls read with the bytes read each time, as they are
// on disk.
func OpenWatched(path string, read func(bytes int64)) (io.ReadCloser, error) {
	f, err := os.Stdin, error(nil)
	if path != "-" {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, &input.Error{Where: path, Msg: plainReason(err), Err: err}
	}
	if st, err := f.Stat(); err == nil && st.IsDir() {
		f.Close()
		return nil, input.Errorf(path, "is a directory, not a file")
	}
	r, err := unpack(path, bufio.NewReaderSize(watched{f, read}, 1<<18))
	if err != nil {
		f.Close()
		return nil, err
	}
	return &file{path: path, ReadCloser: r, f: f}, nil
}

// foreign are the first bytes of common files that are not supported.
var foreign = map[string]string{
	"BZh":          "bzip2: only plain files, gzip and zstd are read",
	"\xfd7zXZ\x00": "xz: only plain files, gzip and zstd are read",
	"PK\x03\x04":   "a zip archive or a spreadsheet: only plain files, gzip and zstd are read",
	"\xff\xfe":     "UTF-16 text: save it as UTF-8",
	"\xfe\xff":     "UTF-16 text: save it as UTF-8",
}

// unpack decompresses r by its first bytes or, if these are of no known format, by
// the ending.
func unpack(path string, r *bufio.Reader) (io.ReadCloser, error) {
	start, _ := r.Peek(6) // shorter at the end, or if reading fails, which Read will report
	starts := func(magic string) bool { return bytes.HasPrefix(start, []byte(magic)) }
	ends := func(ending string) bool { return strings.HasSuffix(strings.ToLower(path), ending) }
	for magic, what := range foreign {
		if starts(magic) {
			return nil, input.Errorf(path, "is %s", what)
		}
	}
	switch {
	case starts("\x1f\x8b") || ends(".gz"):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, input.Errorf(path, "not a gzip file: %v", err)
		}
		return z, nil
	case starts("\x28\xb5\x2f\xfd") || ends(".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, input.Errorf(path, "not a zstd file: %v", err)
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

type file struct {
	io.ReadCloser // unpacks f
	path          string
	f             *os.File
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, input.Errorf(f.path, "cut short: the compressed data ends in the middle")
	}
	return n, input.Errorf(f.path, "damaged: %v", err)
}

func (f *file) Close() error { return errors.Join(f.ReadCloser.Close(), f.f.Close()) }

// watched reports every read.
type watched struct {
	r    io.Reader
	read func(bytes int64)
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.read(int64(n))
	return n, err
}

func plainReason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return err.Error()
}
