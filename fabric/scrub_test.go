package fabric_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gleaner/fabric"
)

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
	file, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("rot"), 100_000); err != nil {
		t.Fatal(err)
	}
	if err := fabric.ScrubAll(f, t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := f.Curation(t.Context())
	if err != nil || c.Scrubbed.Corrupt != 1 || c.Scrubbed.Groups != 2 {
		t.Errorf("%+v, %v", c.Scrubbed, err)
	}
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(100 * time.Millisecond) {
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
