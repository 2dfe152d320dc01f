package nbdtest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDevicesConform(t *testing.T) {
	const size = 1<<20 + 1234
	for seed := range uint64(3) {
		Conform(t, NewMemory(size), size, seed)
		file, err := os.Create(filepath.Join(t.TempDir(), "image"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := file.Truncate(size); err != nil {
			t.Fatal(err)
		}
		Conform(t, NewFile(file), size, seed)
	}
}
