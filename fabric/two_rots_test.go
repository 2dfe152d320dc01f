package fabric_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Two replicas rot in different places: each slice is still good on one of them, can be read, and is so after a check has mended what it found.
func TestTwoRotsAreMended(t *testing.T) {
	t.Parallel()
	r := newRack(t, 3)
	f := r.front(time.Hour)
	create(t, f, "v", 4<<20, 2)
	mustWrite(t, f, "v", 'A', 4<<20)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(r.servers[0].dir), "disk*", "groups", "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	time.Sleep(2 * time.Second) // what is in the log moves to the group
	for i, name := range files {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteAt([]byte("rot"), int64(100_000+i*1_000_000)); err != nil {
			t.Fatal(err)
		}
	}
	report, err := f.Check(t.Context(), func(int, int) {})
	t.Logf("%+v, %v", report, err)
	deadline := time.Now().Add(15 * time.Second)
	for !whole(t, f) && time.Now().Before(deadline) {
		time.Sleep(time.Second)
	}
	v := open(t, f, "v")
	defer v.Close()
	got := make([]byte, 1<<20)
	for at := int64(0); at < 4<<20; at += 1 << 20 {
		if err := v.ReadAt(t.Context(), got, at); err != nil || !bytes.Equal(got, bytes.Repeat([]byte("A"), 1<<20)) {
			t.Errorf("block %d: %v", at>>20, err)
		}
	}
}
