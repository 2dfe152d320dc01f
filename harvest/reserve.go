package harvest

import (
	"cmp"

	"gleaner/cluster"
)

// A Reserve is what is kept free on each server for its primary: a share of
// the server or, if not zero, a fixed amount.
type Reserve struct {
	CPU, Memory float64
	Fixed       cluster.Resources
	// Step is what a primary's CPU is rounded up to. 0: a whole core.
	Step cluster.MilliCPU
}

// PaperReserve keeps 4 of 12 cores and 10 of 32 GB (OSDI'16 §6.1).
var PaperReserve = Reserve{CPU: 4.0 / 12, Memory: 10.0 / 32}

const (
	// fewCores is the size from which on the paper's figures, made for 12 cores,
	// fit: of two cores, a primary that rounds up to one and a reserve of a third
	// leave a third of a core.
	fewCores = 8 * cluster.Core
	fineStep = cluster.Core / 10
	// isolatedCPU is the smallest of the measured shares (a third, a tenth, none)
	// that keeps a primary's 99th percentile latency within 10% of its value
	// alone: see docs/decisions/0005-a-small-machine-counts-in-tenths.md.
	isolatedCPU = 0.1
)

// ReserveFor is the default reserve of a machine of that size, to the
// thousandth of a core. Isolated says that the kernel gives harvested tasks only
// idle cores; the primary then gets its cores back at once, even without a
// guard, and on a machine of few cores the reserve is smaller and the primary's
// use is counted in tenths of a core. Memory is not freed by itself: its reserve
// is always the paper's.
func ReserveFor(size cluster.Resources, isolated bool) Reserve {
	share, step := PaperReserve.CPU, cluster.Core
	if isolated && size.CPU < fewCores {
		share, step = isolatedCPU, fineStep
	}
	return Reserve{Step: step, Fixed: cluster.Resources{
		CPU:    cluster.MilliCPU(share * float64(size.CPU)),
		Memory: cluster.Bytes(PaperReserve.Memory*float64(size.Memory)) / cluster.MB * cluster.MB,
	}}
}

// Of is the reserve of a server of that size. A share is taken in whole cores
// and megabytes.
func (r Reserve) Of(size cluster.Resources) cluster.Resources {
	if r.Fixed != (cluster.Resources{}) {
		return r.Fixed
	}
	const rounding = 1e-6 // a third of 12 cores is 4, despite rounding errors
	return cluster.Resources{
		CPU:    cluster.MilliCPU(r.CPU*float64(size.CPU) - rounding + 1),
		Memory: cluster.Bytes(r.Memory*float64(size.Memory) - rounding + 1),
	}.RoundUp()
}

// Counted is a primary's use as it is counted: rounded up, because it changes
// (OSDI'16 §5.3).
func (r Reserve) Counted(use cluster.Resources) cluster.Resources {
	return use.RoundUpTo(cmp.Or(r.Step, cluster.Core))
}

// Most is the most that harvested tasks can ever hold on a server of that
// size: a primary is never quite idle, and counts as one step at least.
func (r Reserve) Most(size cluster.Resources) cluster.Resources {
	return size.Sub(r.Of(size)).Sub(r.Counted(cluster.Resources{CPU: 1}))
}
