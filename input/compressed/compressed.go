// Package compressed opens the files a user names: plain, gzip or zstd, told
// apart by their ending.
package compressed

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"gleaner/input"
)

// Open opens path for reading and decompresses it as it is read when its name
// ends in .gz or .zst. A file that is not there or cannot be read, or does not
// start as its ending promises, is an input.Error. Damage further in shows as
// an input.Error from Read.
func Open(path string) (io.ReadCloser, error) { return OpenWatched(path, func(int64) {}) }

// OpenWatched is Open that tells how many bytes of the file, as it lies on
// disk, were read each time.
func OpenWatched(path string, read func(bytes int64)) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, input.Errorf(path, "%s", plainReason(err))
	}
	if st, err := f.Stat(); err == nil && st.IsDir() {
		f.Close()
		return nil, input.Errorf(path, "is a directory, not a file")
	}
	buffered := bufio.NewReaderSize(watched{f, read}, 1<<18)
	switch {
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			f.Close()
			return nil, input.Errorf(path, "not a gzip file: %v", err)
		}
		return &file{path: path, r: z, close: func() error { return errors.Join(z.Close(), f.Close()) }}, nil
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if err != nil {
			f.Close()
			return nil, input.Errorf(path, "not a zstd file: %v", err)
		}
		return &file{path: path, r: z, close: func() error { z.Close(); return f.Close() }}, nil
	}
	return &file{path: path, r: buffered, close: f.Close}, nil
}

type file struct {
	path  string
	r     io.Reader
	close func() error
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, input.Errorf(f.path, "cut short: the compressed data ends in the middle")
	}
	return n, input.Errorf(f.path, "damaged: %v", err)
}

func (f *file) Close() error { return f.close() }

// watched tells of every read.
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
