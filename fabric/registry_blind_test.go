package fabric_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gleaner/fabric"
)

func stateOf(f *fabric.Front, disk string) string { return lentAs(f, disk).State }

// lentAs is a disk as the front lists it; its state is the error if there is one.
func lentAs(f *fabric.Front, disk string) fabric.Lent {
	all, err := f.Lent(context.Background())
	if err != nil {
		return fabric.Lent{State: err.Error()}
	}
	for _, l := range all {
		if l.Disk == disk {
			return l
		}
	}
	return fabric.Lent{State: "none"}
}

// Whatever becomes of one entry of the registry, a server that stops is noticed.
func TestOneEntryBlindsNobody(t *testing.T) {
	for what, spoil := range map[string]func(dir string) error{
		"a bad entry of another": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.json"), []byte("{"), 0o600) },
		"a bad address of another": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "a.json"), []byte(`{"name":"a","address":"nonsense","disks":[]}`), 0o600)
		},
		"the entry is taken away": func(dir string) error { return os.Remove(filepath.Join(dir, "s1.json")) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRack(t, 2)
			f := r.front(time.Hour)
			if err := spoil(filepath.Join(filepath.Dir(r.servers[0].dir), "fabric", "servers")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			r.halt(r.servers[1])
			time.Sleep(8 * time.Second)
			if s := stateOf(f, "s1-1"); s == "up" {
				t.Errorf("its server has stopped 8 s ago, and the disk is %s", s)
			}
		})
	}
}
