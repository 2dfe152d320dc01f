package fabric_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gleaner/fabric"
)

// Files that a stranger has removed under running servers are found, and made again from the one that is left.
func TestScrubFindsRemovedFiles(t *testing.T) {
	t.Parallel()
	r := newRack(t, 3)
	f := r.front(time.Hour)
	create(t, f, "v", 8<<20, 3)
	mustWrite(t, f, "v", 'A', 8<<20)
	groups := func() (files []string) {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(r.servers[0].dir), "disk*", "groups", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	all := groups()
	if len(all) != 6 {
		t.Fatalf("%v", all)
	}
	for _, file := range all[:4] {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := f.Check(t.Context(), func(int, int) {}); err != nil || report.Missing != 4 || report.Replicas != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	mended(t, f)
	if now := groups(); len(now) != 6 {
		t.Errorf("there are %v", now)
	}
}

// A replica that was found to be damaged several times is made anew once: by the second time it is whole.
func TestMendedReplicaIsKept(t *testing.T) {
	t.Parallel()
	r := newRack(t, 3)
	f := r.front(time.Hour)
	create(t, f, "v", 4<<20, 3)
	mustWrite(t, f, "v", 'A', 4<<20)
	fabric.Discard(t.Context(), f, 1, "s0-1")
	if report, err := f.Check(t.Context(), func(int, int) {}); err != nil || report.Missing != 0 || report.Replicas != 3 {
		t.Errorf("%+v, %v", report, err)
	}
}

// A group whose only replica is damaged is not whole, and says so until it is written anew.
func TestOnlyReplicaIsDamaged(t *testing.T) {
	t.Parallel()
	r := newRack(t, 1)
	f := r.front(time.Hour)
	create(t, f, "v", 8<<20, 1)
	mustWrite(t, f, "v", 'A', 8<<20)
	states := func() map[string]int {
		t.Helper()
		s, err := f.Stat(t.Context(), "v")
		if err != nil {
			t.Fatal(err)
		}
		return s.States
	}
	if got := states(); got[fabric.Damaged] != 0 || len(got) != 1 {
		t.Fatalf("before: %v", got)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(r.servers[0].dir), "disk*", "groups", "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	await(t, "the log is empty", func() bool { // what is in it is not read from the group
		text, err := os.ReadFile(files[0])
		return err == nil && bytes.Contains(text, bytes.Repeat([]byte{'A'}, 4<<20-1<<16))
	})
	rot(t, files[0])
	if report, err := f.Check(t.Context(), func(int, int) {}); err != nil || report.Corrupt == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	await(t, "it is damaged", func() bool { return states()[fabric.Damaged] == 1 })
	if c, err := f.Curation(t.Context()); err != nil || c.Damaged != 1 {
		t.Errorf("%d damaged, %v", c.Damaged, err)
	}
	mustWrite(t, f, "v", 'B', 8<<20)
	await(t, "it is whole again", func() bool { return states()[fabric.Damaged] == 0 })
}

// rot changes some bytes of a group's file.
func rot(t *testing.T, name string) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("rot"), 100_000); err != nil {
		t.Fatal(err)
	}
}

// mended waits until nothing is rotten or missing.
func mended(t *testing.T, f *fabric.Front) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		report, err := f.Check(t.Context(), func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		if report.Corrupt == 0 && report.Missing == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", report)
		}
	}
}

// A slice that has rotted is found though nobody reads it, and its replica is made good from the other.
func TestScrubFindsRot(t *testing.T) {
	t.Parallel()
	r := newRack(t, 3)
	f := r.front(time.Hour)
	create(t, f, "v", 8<<20, 2)
	mustWrite(t, f, "v", 'A', 8<<20)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(r.servers[0].dir), "disk*", "groups", "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	time.Sleep(2 * time.Second) // what is in the log moves to the group
	rot(t, files[0])
	if err := fabric.ScrubAll(f, t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := f.Curation(t.Context())
	if err != nil || c.Scrubbed.Corrupt != 1 || c.Scrubbed.Groups != 2 {
		t.Errorf("%+v, %v", c.Scrubbed, err)
	}
	mended(t, f)
}
