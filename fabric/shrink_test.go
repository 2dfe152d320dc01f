package fabric_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"gleaner/fabric/pack"
	"gleaner/fabric/volume"
)

// On seven data servers a vDisk is coded in four shards and two of parity, each in another environment. A second vDisk with the same bytes
// shares them. Two servers stop, and all is read; one of them stays away, and its shard is computed anew elsewhere.
func TestShrinkOnDataServers(t *testing.T) {
	t.Parallel()
	r := newRack(t, 7)
	f := r.front(time.Second)
	data := make([]byte, 8<<20)
	for i := range len(data) / 64 {
		copy(data[i*64:], fmt.Sprintf("line %d of a file that is kept and seldom read\n", i))
	}
	form := volume.Form{Level: pack.Better, Data: 4}
	for i, name := range []string{"a", "b"} {
		create(t, f, name, 8<<20, 3)
		v := open(t, f, name)
		for _, err := range []error{v.WriteAt(t.Context(), data, 0, false), v.Close()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		shrunk, err := f.Shrink(t.Context(), name, form, func(int, int) {})
		if err != nil || shrunk.Before != 24<<20 || shrunk.After != 6<<20 || (shrunk.Shared > 0) != (i > 0) {
			t.Fatalf("%+v, %v", shrunk, err)
		}
	}
	create(t, f, "c", 8<<20, 3)
	mustWrite(t, f, "c", 'c', 8<<20)
	if _, err := f.Shrink(t.Context(), "c", volume.Form{Level: pack.Fast, Data: 6}, func(int, int) {}); !errors.Is(err, volume.ErrNoTarget) {
		t.Errorf("eight shards on seven servers: %v", err)
	}
	for _, err := range []error{f.Remove(t.Context(), "c"), f.Tidy(t.Context())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	stat, err := f.Stat(t.Context(), "a")
	if err != nil || stat.Groups != 1 || stat.Have[6] != 1 || stat.Placement.Wishes[0].Kept != 1 {
		t.Fatalf("%+v, %v", stat, err)
	}
	if shared, err := f.Stat(t.Context(), "b"); err != nil || shared.Groups != 1 {
		t.Fatalf("%+v, %v", shared, err)
	}
	report, err := f.Check(t.Context(), func(int, int) {})
	if err != nil || len(report.Errors)+report.Missing+report.Corrupt > 0 || report.Groups != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	read := func() {
		t.Helper()
		for _, name := range []string{"a", "b"} {
			v, got := open(t, f, name), make([]byte, len(data))
			if err := v.ReadAt(t.Context(), got, 0); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%s has other bytes than were written, %v", name, err)
			}
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.halt(r.servers[0])
	r.halt(r.servers[1])
	read()
	r.start(r.servers[0])
	for deadline := time.Now().Add(30 * time.Second); !whole(t, f); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not whole again")
		}
	}
	read()
}
