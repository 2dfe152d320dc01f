package classify

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"gleaner/cluster"
)

func TestAccuracy(t *testing.T) {
	const each = 100
	from := 0
	if v, err := strconv.Atoi(os.Getenv("FROM")); err == nil {
		from = v
	}
	for _, k := range kinds {
		var got [4]int
		wrongPeriod := 0
		for i := range each {
			tr := generate(k, uint64(i+from))
			a := newAnalyst(tr.window)
			s := a.fine.read(tr.window, tr.cpu)
			p, e := a.decide(&a.fine, &s)
			got[p]++
			if p != tr.pattern {
				t.Logf("%s %d: %s: %s: %s", k.name, i, tr.note, p, e.Why())
			} else if p == cluster.Periodic && math.Abs(float64(e.Period)/float64(tr.period)-1) > 0.05 {
				wrongPeriod++
				t.Logf("%s %d: %s: period %s: %s", k.name, i, tr.note, e.Period, e.Why())
			}
		}
		fmt.Printf("%-24s periodic %3d constant %3d unpredictable %3d wrong period %d\n", k.name, got[1], got[2], got[3], wrongPeriod)
	}
}
