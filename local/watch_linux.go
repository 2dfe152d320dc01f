package local

import (
	"slices"

	"gleaner/cluster"
)

const (
	// glances is how often the primary is looked at between two samples: every
	// 67 ms, where samples are a second apart.
	glances = 15
	// agree is how many glances in a row must show that the primary has risen. It
	// is then known for sure within 400 ms. A program that runs for less than
	// 200 ms, as a shell or a cron job does, cannot be in five of them.
	agree = 5
	// risen is by how much: nobody counts more finely, and one tick of the
	// kernel's clock is more than that in one glance.
	risen = cluster.Core / 10
)

// A watch sees the primary rise between two samples.
type watch struct {
	told   cluster.MilliCPU // of its use, by the last report
	recent [agree]cluster.MilliCPU
	seen   int
}

// glance takes in what the primary used since the last one, and reports
// whether it has risen above what was told; then now is what it used in each
// of the last glances at least.
func (w *watch) glance(use cluster.MilliCPU) (now cluster.MilliCPU, rose bool) {
	w.recent[w.seen%agree] = use
	w.seen++
	now = slices.Min(w.recent[:])
	return now, w.seen >= agree && now >= w.told+risen
}
