package dataserver_test

import (
	"context"
	"sync"
	"testing"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
)

var cluster = dataserver.Cluster{ID: "c", Key: [32]byte{1, 2, 3}}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve serves disks until the test ends, and gives the address.
func serve(t testing.TB, address string, options dataserver.Options, disks ...*disk.Disk) string {
	t.Helper()
	l, err := dataserver.Listen(address)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var local []*dataserver.LocalDisk
	for _, d := range disks {
		local = append(local, dataserver.Local(d))
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := dataserver.Serve(ctx, l, cluster, local, options); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return dataserver.Address(l)
}

func dial(t testing.TB, address string) *dataserver.Client {
	t.Helper()
	c, err := dataserver.Dial(t.Context(), address, cluster)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}
