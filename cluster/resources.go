package cluster

import (
	"fmt"
	"math"
	"strings"
)

// The sizes that amounts are rounded to and written in.
const (
	Core MilliCPU = 1000
	MB   Bytes    = 1 << 20
	GB   Bytes    = 1 << 30
)

// Resources are an amount of CPU and memory: a server's size, a task's
// request, a use or a rest. A shortage is negative.
type Resources struct {
	CPU    MilliCPU `json:"cpu,omitzero"`
	Memory Bytes    `json:"memory,omitzero"`
}

// Add is r and o together.
func (r Resources) Add(o Resources) Resources {
	return Resources{r.CPU + o.CPU, r.Memory + o.Memory}
}

// Sub is r less o; negative where o is more.
func (r Resources) Sub(o Resources) Resources {
	return Resources{r.CPU - o.CPU, r.Memory - o.Memory}
}

// Times is n times r.
func (r Resources) Times(n int) Resources {
	return Resources{r.CPU * MilliCPU(n), r.Memory * Bytes(n)}
}

// Max is the larger amount of each resource.
func (r Resources) Max(o Resources) Resources {
	return Resources{max(r.CPU, o.CPU), max(r.Memory, o.Memory)}
}

// Min is the smaller amount of each resource.
func (r Resources) Min(o Resources) Resources {
	return Resources{min(r.CPU, o.CPU), min(r.Memory, o.Memory)}
}

// Fits reports whether r fits into room.
func (r Resources) Fits(room Resources) bool {
	return r.CPU <= room.CPU && r.Memory <= room.Memory
}

// RoundUp returns r in whole cores and whole megabytes, the way a primary
// tenant's use is counted (OSDI'16 §5.3).
func (r Resources) RoundUp() Resources { return r.RoundUpTo(Core) }

// RoundUpTo returns r in whole steps of CPU and whole megabytes.
func (r Resources) RoundUpTo(step MilliCPU) Resources {
	return Resources{(r.CPU + step - 1) / step * step, (r.Memory + MB - 1) / MB * MB}
}

// String writes the amounts that are not zero, as "2 cores and 512 MiB".
func (r Resources) String() string {
	var parts []string
	switch {
	case r.CPU == Core:
		parts = append(parts, "1 core")
	case r.CPU != 0:
		parts = append(parts, fmt.Sprintf("%g cores", float64(r.CPU)/float64(Core)))
	}
	if r.Memory != 0 {
		parts = append(parts, r.Memory.Text())
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}

// Text writes a size in the largest unit that fits, to a tenth: "16.2 GiB",
// "512 MiB". It is not called String, because files hold sizes as numbers.
func (b Bytes) Text() string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	v, unit := float64(b), 0
	for math.Abs(v) >= 1023.95 && unit < len(units)-1 { // what would be written as 1024
		v, unit = v/1024, unit+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[unit]
}
