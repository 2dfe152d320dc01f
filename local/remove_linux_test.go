package local

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDeepTreesAreRemoved: trees that are deeper than paths can be and wider than a buffer, with names that the remover could use itself, links to elsewhere and directories
// that nobody may enter; few files are open meanwhile.
func TestDeepTreesAreRemoved(t *testing.T) {
	root := t.TempDir()
	dir, elsewhere := filepath.Join(root, "tree"), filepath.Join(root, "elsewhere")
	for _, d := range []string{dir, elsewhere, filepath.Join(dir, "wide"), filepath.Join(dir, "shut", "in")} {
		must(t, os.MkdirAll(d, 0o700))
	}
	must(t, os.WriteFile(filepath.Join(elsewhere, "kept"), nil, 0o600))
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "wide", "link")))
	must(t, os.WriteFile(filepath.Join(dir, ".gleaner-0"), nil, 0o600))
	for i := range 3000 {
		must(t, os.MkdirAll(filepath.Join(dir, "wide", strconv.Itoa(i), "below"), 0o700))
	}
	must(t, os.Chmod(filepath.Join(dir, "shut", "in"), 0))
	must(t, os.Chmod(filepath.Join(dir, "shut"), 0))
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range 5000 {
		must(t, unix.Mkdirat(at, "deeper", 0o700))
		next, err := unix.Openat(at, "deeper", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		must(t, unix.Close(at))
		at = next
	}
	must(t, unix.Close(at))

	var granted unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &granted))
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	few := granted
	few.Cur = uint64(len(open)) + 8
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	err = removeTree(dir)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &granted))
	must(t, err)
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "kept")); err != nil {
		t.Error("a link was followed:", err)
	}
}
