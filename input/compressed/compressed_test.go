package compressed

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"gleaner/input"
)

func pack(t *testing.T, ending, text string) []byte {
	var buf bytes.Buffer
	var w io.WriteCloser
	switch ending {
	case ".gz":
		w = gzip.NewWriter(&buf)
	case ".zst":
		w, _ = zstd.NewWriter(&buf)
	default:
		return []byte(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func write(t *testing.T, name string, data []byte) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEachFormReadsAlike(t *testing.T) {
	text := strings.Repeat("time,server,cpu\n1,s1,20\n", 5000)
	for _, ending := range []string{"", ".gz", ".zst"} {
		packed, read := pack(t, ending, text), int64(0)
		f, err := OpenWatched(write(t, "h.csv"+ending, packed), func(n int64) { read += n })
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err != nil || string(got) != text {
			t.Errorf("%q: %d bytes, %v", ending, len(got), err)
		}
		if read != int64(len(packed)) {
			t.Errorf("%q: told of %d bytes read, the file has %d", ending, read, len(packed))
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTheFirstBytesDecide, whatever the name says.
func TestTheFirstBytesDecide(t *testing.T) {
	const text = "time,server,cpu\n1,s1,20\n"
	for _, tc := range []struct{ name, ending string }{{"h.csv", ".gz"}, {"h.csv", ".zst"}, {"H.CSV.GZ", ".gz"}, {"H.ZST", ".zst"}} {
		f, err := Open(write(t, tc.name, pack(t, tc.ending, text)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); err != nil || string(got) != text {
			t.Errorf("%s as %s: %q, %v", tc.ending, tc.name, got, err)
		}
		f.Close()
	}
}

func TestDamageIsBadInput(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 20000)
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"cut.gz", pack(t, ".gz", text)[:200], "cut short"},
		{"cut.zst", pack(t, ".zst", text)[:20], "cut short"},
		{"text.gz", []byte("time,server,cpu\n"), "not a gzip file"},
		{"text.zst", []byte("time,server,cpu\n"), "damaged"},
		{"empty.gz", nil, "not a gzip file"},
		{"h.csv", []byte("\xff\xfet\x00i\x00"), "is UTF-16 text"},
		{"h.csv", []byte("BZh91AY&SY"), "is bzip2"},
	} {
		path := write(t, tc.name, tc.data)
		f, err := Open(path)
		if err == nil {
			_, err = io.Copy(io.Discard, f)
			f.Close()
		}
		if err == nil || !input.Is(err) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: %v, want bad input that says %q", tc.name, err, tc.want)
		}
	}
}

func TestFilesThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not say that the file is not there", err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "none.csv"): "no such file", dir: "is a directory"} {
		if _, err := Open(path); err == nil || !input.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want bad input that says %q", path, err, want)
		}
	}
}
