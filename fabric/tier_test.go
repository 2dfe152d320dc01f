package fabric

import (
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/registry"
	"gleaner/kv/mem"
)

// A data server of a later version, or one that is wrong, tells of a disk of a tier that this front does not know.
func TestUnknownTier(t *testing.T) {
	f, err := Open(t.Context(), Options{Store: mem.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e := registry.Server{Name: "s", Address: "/tmp/none.sock"}
	c, err := dataserver.NewClient(e.Address, dataserver.Cluster{ID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f.Join(serverOf(e))
	s := &server{entry: e, client: c, disks: map[cluster.DiskID]disk.Identity{}, seen: map[cluster.DiskID]uint64{}}
	f.heard(t.Context(), s, dataserver.Beat{Disks: []dataserver.DiskBeat{{Identity: disk.Identity{Disk: "d", Tier: "nvme", Quota: 1 << 30, Opened: 1}, Free: 1 << 30, Age: time.Second}}})
	f.pool.server("d") // as tidy and holders do for a group that has a replica there
}
