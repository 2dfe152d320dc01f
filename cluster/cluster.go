// Package cluster names the things every other room talks about: servers,
// the tenants that own them, the classes those tenants fall into, and the
// amounts of CPU, memory and disk they have.
//
// It holds plain data and the arithmetic on it, and imports nothing of ours.
package cluster

import (
	"fmt"
	"time"
)

// A ServerID names one server, uniquely in the cluster.
type ServerID string

// A TenantID names a primary tenant: the service that owns a group of servers.
// Where environment and machine function are known it is "environment/function".
type TenantID string

// TenantOf names the tenant of an environment and a machine function
// (OSDI'16 §3.1: a primary tenant is that pair). Neither contains "/". An
// environment without functions is one tenant.
func TenantOf(environment, function string) TenantID {
	if function == "" {
		return TenantID(environment)
	}
	return TenantID(environment + "/" + function)
}

// MilliCPU counts thousandths of a core.
type MilliCPU int64

// Bytes counts bytes of memory or disk.
type Bytes int64

// A Server is one machine and the tenant that owns it.
type Server struct {
	ID          ServerID
	Environment string // a collection of servers that belong together, as "search index"
	Function    string // what this one does there, as "ranking"
	Rack        string
	CPU         MilliCPU
	Memory      Bytes
	Disk        Bytes
}

// Tenant names the tenant that owns s. A server without environment and
// function is a tenant of its own.
func (s Server) Tenant() TenantID {
	if s.Environment == "" && s.Function == "" {
		return TenantID(s.ID)
	}
	return TenantOf(s.Environment, s.Function)
}

// Size is the CPU and memory of s.
func (s Server) Size() Resources { return Resources{s.CPU, s.Memory} }

// A Pattern is how a tenant's utilisation changes over time (OSDI'16 §3.2).
type Pattern uint8

// The patterns. The zero value means that nothing is known yet.
const (
	UnknownPattern Pattern = iota
	Periodic
	Constant
	Unpredictable
)

// Patterns lists the three patterns in the order they are always shown.
var Patterns = [...]Pattern{Periodic, Constant, Unpredictable}

func (p Pattern) String() string {
	switch p {
	case Periodic:
		return "periodic"
	case Constant:
		return "constant"
	case Unpredictable:
		return "unpredictable"
	}
	return "unknown"
}

// MarshalText writes the pattern by name.
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a pattern by name.
func (p *Pattern) UnmarshalText(text []byte) error {
	for _, q := range Patterns {
		if q.String() == string(text) {
			*p = q
			return nil
		}
	}
	return fmt.Errorf("cluster: unknown pattern %q", text)
}

// A Class is a group of tenants with similar utilisation.
type Class struct {
	ID      string // stable for one input and seed, as "periodic-3"
	Pattern Pattern
	Tenants []TenantID
	Servers int
	Mean    float64       // average utilisation, 0 to 1
	Peak    float64       // highest utilisation to expect, 0 to 1
	Period  time.Duration // of a periodic class; 0 otherwise
}

// A Window is an even grid of sample times: From, From+Step, … Len of them.
type Window struct {
	From time.Time
	Step time.Duration
	Len  int
}

// To is the end of the window, one step after its last slot begins.
func (w Window) To() time.Time { return w.From.Add(time.Duration(w.Len) * w.Step) }

// Until is the part of w whose slots end by t.
func (w Window) Until(t time.Time) Window {
	w.Len = min(max(int(t.Sub(w.From)/w.Step), 0), w.Len)
	return w
}

// WindowBefore is the grid of the given length that ends at to, and does not
// begin long before the first sample.
func WindowBefore(to, first time.Time, length, step time.Duration) Window {
	from := to.Add(-length.Truncate(step))
	if begin := first.Truncate(step); from.Before(begin) {
		from = begin
	}
	return Window{From: from, Step: step, Len: int(to.Sub(from) / step)}
}

// A Series is the utilisation of a tenant's average server over a window
// (OSDI'16 §3.2): one value a slot, 0 to 1, NaN where nothing was recorded.
type Series struct {
	Tenant  TenantID
	Servers int
	CPU     []float32
}

// A Reimage is the event that a server's disk is wiped and set up again, which
// destroys everything on it.
type Reimage struct {
	At     time.Time
	Server ServerID
	Cause  string
}
