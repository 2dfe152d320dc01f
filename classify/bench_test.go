package classify

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"gleaner/cluster"
)

func BenchmarkClassify(b *testing.B) {
	w := cluster.Window{From: monday, Step: 2 * time.Minute, Len: 21600}
	const tenants = 3000
	series := make([]cluster.Series, tenants)
	for i := range series {
		// Shares as in the datacenters of OSDI'16 Figure 2: most are constant.
		k := kinds[pick(newChance(uint64(i)), 0, 0, 0, 0, 0, 0, 2, 2, 3, 5, 9, 11, 12)]
		series[i] = cluster.Series{Tenant: cluster.TenantID(fmt.Sprintf("t%04d", i)), Servers: 1 + i%50, CPU: generateOver(k, w, uint64(i)).cpu}
	}
	b.Run("3000tenants_x_21600samples", func(b *testing.B) {
		b.SetBytes(tenants * 21600 * 4)
		before := cpuTime()
		for b.Loop() {
			Run(w, series, Options{})
		}
		b.ReportMetric(float64((cpuTime()-before).Milliseconds())/float64(b.N), "cpu-ms/op")
	})
}

// cpuTime is the CPU time of this process, which does not depend on other work on the machine.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano())
}
