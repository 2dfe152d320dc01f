package harvester

import (
	"testing"

	"gleaner/cluster"
	"gleaner/harvest"
)

// What 'gleaner up' prints at the start: what can be harvested now, and why not more.
func TestWhatCanBeHarvestedNow(t *testing.T) {
	two := cluster.Resources{CPU: 2 * cluster.Core, Memory: 16 * cluster.GB}
	twelve := cluster.Resources{CPU: 12 * cluster.Core, Memory: 16 * cluster.GB}
	for _, tc := range []struct {
		size     cluster.Resources
		uses     cluster.Resources
		isolated bool
		room     string
		because  string
	}{
		{two, cluster.Resources{CPU: 330, Memory: 3 * cluster.GB}, true, "1.4 cores and 8 GiB",
			"of 2 cores and 16 GiB the primary uses 0.4 cores and 3 GiB, and 0.2 cores and 5 GiB are kept free for it"},
		{two, cluster.Resources{CPU: 330, Memory: 3 * cluster.GB}, false, "0.334 cores and 8 GiB",
			"of 2 cores and 16 GiB the primary uses 1 core and 3 GiB, and 0.666 cores and 5 GiB are kept free for it; its use counts in whole cores, as the kernel does not isolate tasks from it (control groups with cpu.idle, Linux 5.15)"},
		{two, cluster.Resources{CPU: 1950, Memory: 3 * cluster.GB}, true, "8 GiB",
			"of 2 cores and 16 GiB the primary uses 2 cores and 3 GiB, and 0.2 cores and 5 GiB are kept free for it"},
		{twelve, cluster.Resources{CPU: 330, Memory: 3 * cluster.GB}, true, "7 cores and 8 GiB",
			"of 12 cores and 16 GiB the primary uses 1 core and 3 GiB, and 4 cores and 5 GiB are kept free for it; its use counts in whole cores"},
	} {
		room, because := harvestable(tc.size, tc.uses, harvest.ReserveFor(tc.size, tc.isolated), tc.isolated)
		if room.String() != tc.room || because != tc.because {
			t.Errorf("%s, %s\nwant %s, %s", room, because, tc.room, tc.because)
		}
	}
}
