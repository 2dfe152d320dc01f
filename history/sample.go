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

// Utilisations are kept to a millionth of the server: a percent with four
// decimals, well below what any counter resolves. As integers they compress,
// and every one of them has a float32 of its own.
const million = 1_000_000

// absent stands for a memory that was not recorded.
const absent = -1

// Tolerance is the share above 1 that is still taken for a full server.
// Counters and clocks are read one after the other, and hypervisors let a
// machine burst, so real recordings overshoot by a few percent; such a value
// counts as 1. More than that is not an overshoot but another unit, such as the
// percent of one core.
const Tolerance = 0.10

// lastMilli is the first moment after the year 2199. Anything beyond is
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

// Clamp takes a utilisation within Tolerance of 0 to 1 for the nearest in
// range. It reports false for any other, and for NaN.
func Clamp(share float64) (float32, bool) {
	if !(share >= 0 && share <= 1+Tolerance) {
		return 0, false
	}
	return float32(min(share, 1)), true
}

// check refuses a sample no source should have let through.
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
