package transfer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/kv/pebble"
)

// childVariable makes this test's program copy one directory to another, instead of testing.
const childVariable = "TRANSFER_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := copyIn(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// copyIn copies the store dir/from to dir/to.
func copyIn(ctx context.Context, dir string) error {
	from, err := pebble.Open(filepath.Join(dir, "from"), pebble.Options{})
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := pebble.Open(filepath.Join(dir, "to"), pebble.Options{})
	if err != nil {
		return err
	}
	defer to.Close()
	_, err = Copy{From: from, To: to, Source: "from", Target: "to"}.Do(ctx)
	return err
}

// TestKilledCopyResumes: a copy that is killed with SIGKILL again and again, at any
// moment, ends with two stores that are equal.
func TestKilledCopyResumes(t *testing.T) {
	dir := t.TempDir()
	source, err := pebble.Open(filepath.Join(dir, "from"), pebble.Options{})
	must(t, err)
	_, err = Copy{From: filled(t), To: source, Source: "mem", Target: "from"}.Do(t.Context())
	must(t, err)
	must(t, source.Close())
	began := time.Now()
	must(t, copyIn(t.Context(), dir))
	whole := time.Since(began)
	must(t, os.RemoveAll(filepath.Join(dir, "to")))

	killed := 0
	for i := range 8 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+dir)
		must(t, child.Start())
		timer := time.AfterFunc(whole*time.Duration(i)/10, func() { child.Process.Kill() })
		_ = child.Wait() // what counts is what it left
		timer.Stop()
		if child.ProcessState.Exited() { // done, or refused: the one before was done when it was killed
			break
		}
		killed++
	}
	if killed < 3 {
		t.Errorf("killed %d times", killed)
	}
	if err := copyIn(t.Context(), dir); err != nil && !input.Is(err) { // an input error if it is complete: it is not empty
		t.Fatal(err)
	}
	if a, b := sums(t, filepath.Join(dir, "from")), sums(t, filepath.Join(dir, "to")); len(a) != 3 || !slices.Equal(a, b) {
		t.Errorf("%v was copied as %v", a, b)
	}
}

// sums measures the tables of a store.
func sums(t *testing.T, dir string) (all []Sum) {
	s, err := pebble.Open(dir, pebble.Options{})
	must(t, err)
	defer s.Close()
	tables, err := s.Tables(t.Context())
	must(t, err)
	for _, info := range tables {
		sum, err := Measure(t.Context(), s, info, func() {})
		must(t, err)
		all = append(all, sum)
	}
	return all
}
