package harvest

import (
	"testing"

	"gleaner/cluster"
)

// The reserve of a machine differs from the paper's only if it has few cores and
// the kernel isolates tasks.
func TestReserveForAMachine(t *testing.T) {
	tenth := cluster.Core / 10
	for _, tc := range []struct {
		cores      int
		isolated   bool
		cpu, step  cluster.MilliCPU
		mostOfIdle cluster.MilliCPU
	}{
		{12, true, 4000, cluster.Core, 7000},
		{12, false, 4000, cluster.Core, 7000},
		{8, true, 2666, cluster.Core, 4334},
		{7, true, 700, tenth, 6200},
		{7, false, 2333, cluster.Core, 3667},
		{2, true, 200, tenth, 1700},
		{2, false, 666, cluster.Core, 334},
		{1, true, 100, tenth, 800},
		{1, false, 333, cluster.Core, -333}, // nothing to give
	} {
		size := cluster.Resources{CPU: cluster.MilliCPU(tc.cores) * cluster.Core, Memory: 32 * cluster.GB}
		r := ReserveFor(size, tc.isolated)
		if got, want := r.Of(size), (cluster.Resources{CPU: tc.cpu, Memory: 10 * cluster.GB}); got != want || r.Step != tc.step {
			t.Errorf("%d cores, isolated %v: %v in steps of %d, want %v in steps of %d", tc.cores, tc.isolated, got, r.Step, want, tc.step)
		}
		if got := r.Most(size).CPU; got != tc.mostOfIdle {
			t.Errorf("%d cores, isolated %v: at most %d, want %d", tc.cores, tc.isolated, got, tc.mostOfIdle)
		}
	}
}

// The reserve of simulations is the paper's, and counts in whole cores.
func TestPaperReserveCountsInWholeCores(t *testing.T) {
	if got := PaperReserve.Counted(cluster.Resources{CPU: 2001, Memory: 1}); got != (cluster.Resources{CPU: 3000, Memory: cluster.MB}) {
		t.Errorf("%v", got)
	}
	if got := (Reserve{Step: 100}).Counted(cluster.Resources{CPU: 2001}); got.CPU != 2100 {
		t.Errorf("%v", got)
	}
}
