package fabric_test

import (
	"fmt"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric"
)

// Groups that lack a replica are told of, also while no disk can take it; and no more once it is made, or the group is gone.
func TestGroupsWithoutADiskAreToldOf(t *testing.T) {
	t.Parallel()
	f := newFront(t, 1)
	for i := range 2 {
		name := fmt.Sprint("v", i)
		create(t, f, name, 8<<20, 2)
		mustWrite(t, f, name, 'A', 8<<20)
	}
	repairs := func(what string, want fabric.Repairs) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			if _, _, err := f.Scan(t.Context()); err != nil {
				t.Fatal(err)
			}
			c, err := f.Curation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.Repairs == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, c.Repairs)
			}
		}
	}
	repairs("one server", fabric.Repairs{NoDisk: 4})
	if err := f.Remove(t.Context(), "v0"); err != nil {
		t.Fatal(err)
	}
	repairs("one vDisk removed", fabric.Repairs{NoDisk: 2})
	d := newDisk(t, "another")
	f.Join(cluster.Server{ID: "another"})
	f.Add("another", d)
	repairs("another server", fabric.Repairs{Done: 2})
}
