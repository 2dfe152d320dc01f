package cassandra

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// archive is the file of Cassandra's classes as Java keeps them when it has loaded and checked them. With it a node starts with less than half
// of the work. Java does without one that is not there, or that another Java made.
func archive(lib string) string { return filepath.Join(filepath.Dir(lib), "classes.jsa") }

// makeArchive makes the archive, if there is none: a node that starts and ends writes it. Where that does not work nodes start slower, no more.
func makeArchive(ctx context.Context, lib string) {
	if _, err := os.Stat(archive(lib)); err == nil {
		return
	}
	dir, err := os.MkdirTemp(filepath.Dir(lib), "archive-")
	if err != nil {
		return
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "classes.jsa")
	addr := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(256)), 1}) // nobody else's
	c, err := Start(ctx, lib, Setting{Data: dir, Nodes: 1, First: netip.AddrPortFrom(addr, 9042), Heap: "512m", archive: made})
	if err != nil {
		return
	}
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.Nodes[0].process.Finish(ctx) == nil {
		_ = os.Rename(made, archive(lib)) // whole, or not at all
	}
}
