package dataserver_test

import (
	"path/filepath"
	"testing"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/dataserver/dataservertest"
	"gleaner/fabric/disk"
)

// TestConform runs the suite for every way to reach a disk, and for copies between
// disks that are reached in two ways.
func TestConform(t *testing.T) {
	local := func(_ *testing.T, d *disk.Disk) dataserver.Disk { return dataserver.Local(d) }
	at := func(address func(*testing.T) string) func(*testing.T, *disk.Disk) dataserver.Disk {
		return func(t *testing.T, d *disk.Disk) dataserver.Disk {
			return dial(t, serve(t, address(t), dataserver.Options{}, d)).Disk(d.Identity().Disk)
		}
	}
	unix := at(func(t *testing.T) string { return filepath.Join(t.TempDir(), "s") })
	tcp := at(func(*testing.T) string { return "127.0.0.1:0" })
	tls := at(func(*testing.T) string { return "tls:127.0.0.1:0" })
	for name, ways := range map[string][2]func(*testing.T, *disk.Disk) dataserver.Disk{
		"local":          {local, local},
		"unix":           {unix, unix},
		"tcp":            {tcp, tcp},
		"tls":            {tls, tls},
		"local and unix": {local, unix},
		"tls and local":  {tls, local},
		"unix and tls":   {unix, tls},
		"both at one":    {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataservertest.Conform(t, cluster.ID, func(t *testing.T, disks ...*disk.Disk) []dataserver.Disk {
				if ways[0] == nil {
					c := dial(t, serve(t, filepath.Join(t.TempDir(), "s"), dataserver.Options{}, disks...))
					return []dataserver.Disk{c.Disk("d0"), c.Disk("d1")}
				}
				return []dataserver.Disk{ways[0](t, disks[0]), ways[1](t, disks[1])}
			})
		})
	}
}
