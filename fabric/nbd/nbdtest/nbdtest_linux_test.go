package nbdtest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func image(t *testing.T, size int64) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err == nil {
		err = file.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestDevicesConform(t *testing.T) {
	const size = 1<<20 + 1234
	for seed := range uint64(3) {
		Conform(t, NewMemory(size), size, seed)
		Conform(t, NewFile(image(t, size)), size, seed)
		Conform(t, NewVolatile(image(t, 1<<20), 0.1, seed), 1<<20, seed)
	}
}

// What was flushed, or written with FUA, is in the file of a volatile device, and what was written since is not.
func TestVolatile(t *testing.T) {
	file := image(t, 4*sector)
	v := NewVolatile(file, 0, 1)
	write := func(at int64, b byte, fua bool) {
		if err := v.WriteAt(t.Context(), bytes.Repeat([]byte{b}, sector), at*sector, fua); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 'a', false)
	if err := v.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(0, 'b', false)
	write(1, 'c', true)
	write(2, 'd', false)
	got, err := os.ReadFile(file.Name())
	if err != nil || got[0] != 'a' || got[sector] != 'c' || got[2*sector] != 0 {
		t.Errorf("%q, %v", []byte{got[0], got[sector], got[2*sector]}, err)
	}
}
