package local

import (
	"slices"

	"gleaner/cluster"
)

const (
	// glances is how often the primary's CPU is read between two samples: every
	// 67 ms if samples are a second apart.
	glances = 15
	// agree is how many glances in a row must show that the primary has risen. A
	// rise is then detected within 400 ms. A program that runs for less than 200 ms,
	// such as a shell or a cron job, cannot be in five of them.
	agree = 5
	// risen is by how much it must rise: use is not counted more finely, and one
	// tick of the kernel's clock is more than that in one glance.
	risen = cluster.Core / 10
)

// A watch detects a rise of the primary between two samples.
type watch struct {
	told   cluster.MilliCPU // its use in the last report
	recent [agree]cluster.MilliCPU
	seen   int
}

// glance takes what the primary used since the last glance, and reports whether it
// has risen above the last report; now is the least of the last glances.
func (w *watch) glance(use cluster.MilliCPU) (now cluster.MilliCPU, rose bool) {
	w.recent[w.seen%agree] = use
	w.seen++
	now = slices.Min(w.recent[:])
	return now, w.seen >= agree && now >= w.told+risen
}
