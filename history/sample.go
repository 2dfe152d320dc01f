package history

import (
	"fmt"
	"math"
	"time"

	"gleaner/cluster"
)

// A Sample is how busy a server was at one moment.
type Sample struct {
	Milli  int64 // when, in Unix milliseconds
	Server cluster.ServerID
	CPU    float32          // of the whole server, 0 to 1
	Mem    float32          // of the whole server, 0 to 1; NaN when not recorded
	Tenant cluster.TenantID // who owns the server; "" when the source does not say
}

// Time is when the sample was taken.
func (s Sample) Time() time.Time { return time.UnixMilli(s.Milli).UTC() }

// Utilisations are kept to a millionth of the server: a percentage with four
// decimals, finer than any counter measures. As integers they compress well,
// and each has a distinct float32.
const million = 1_000_000

// absent is the memory of a sample without one.
const absent = -1

// Tolerance is how far above 1 a share may be and still count as 1. Counters and
// clocks are not read at the same instant, and hypervisors let a machine burst, so
// real recordings overshoot by a few percent. More than that is another unit, such
// as the percentage of one core.
const Tolerance = 0.10

// lastMilli is the first moment after the year 2199. A later time is most likely
// milliseconds given as seconds.
var lastMilli = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

func toMillionths(share float32) int32 {
	if share != share {
		return absent
	}
	return int32(float64(share)*million + 0.5)
}

func fromMillionths(n int32) float32 {
	if n == absent {
		return float32(math.NaN())
	}
	return float32(float64(n) / million)
}

// Clamp gives the share, or 1 if it is above by no more than Tolerance. It reports
// false for any other, and for NaN.
func Clamp(share float64) (float32, bool) {
	if !(share >= 0 && share <= 1+Tolerance) {
		return 0, false
	}
	return float32(min(share, 1)), true
}

// check returns an error for an invalid sample, which a source should have refused.
func (s *Sample) check() error {
	switch {
	case !(s.CPU >= 0 && s.CPU <= 1):
		return fmt.Errorf("history: cpu %v of %q is not between 0 and 1", s.CPU, s.Server)
	case s.Mem < 0 || s.Mem > 1:
		return fmt.Errorf("history: memory %v of %q is not between 0 and 1", s.Mem, s.Server)
	case s.Milli < 0 || s.Milli >= lastMilli:
		return fmt.Errorf("history: time %d ms of %q is not between 1970 and 2199", s.Milli, s.Server)
	case s.Server == "":
		return fmt.Errorf("history: a sample without a server")
	}
	return nil
}
