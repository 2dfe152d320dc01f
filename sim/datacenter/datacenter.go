// Package datacenter makes datacenters to simulate: servers and the tenants
// that own them, their CPU utilisation slot by slot, and the reimages of their
// disks. It generates them from the profiles of DC-0 to DC-9 (OSDI'16 §3), or
// takes them from a recorded history.
//
// The same seed gives the same datacenter on any machine and any number of cores.
package datacenter

import (
	"fmt"
	"math"
	"time"

	"gleaner/cluster"
)

// Slot is the step of a generated utilisation (OSDI'16 §3.2: every two minutes).
const Slot = 2 * time.Minute

// Month is a twelfth of a year of 365 days: the unit of reimage rates.
const Month = 365 * 24 * time.Hour / 12

// A Datacenter is its servers, the load of their primary tenants, and when their
// disks are reimaged. Servers and tenants are identified by their index.
type Datacenter struct {
	Name     string
	Servers  []cluster.Server
	Tenants  []Tenant
	Owner    []int32        // the tenant of each server
	Window   cluster.Window // of the utilisation
	Now      time.Time      // end of the past: before it is for learning, after it is simulated
	Reimages []Reimage      // in order of time, the past's and the future's

	series  [][]uint16 // recorded of each server, or generated for each tenant: one value a slot, full scale is 100%
	follows []int32    // the series of each server
	share   []float32  // of each server: its load relative to its series
	noise   float32    // of each server in each slot, relative to its load
	seed    uint64
	scaling *Scaling
	known   map[cluster.TenantID]int32 // the tenants of a recorded history
}

// A Tenant is a primary tenant: the servers of one environment that do one thing.
type Tenant struct {
	ID          cluster.TenantID
	Environment string
	Function    string
	Pattern     cluster.Pattern // as generated; UnknownPattern for a recorded history
	Servers     []int32
	Born        time.Time // when it took over its servers; zero if that is not known
}

// A Reimage is one server's disks being reformatted.
type Reimage struct {
	At     time.Time
	Server int32
	Cause  Cause
}

// A Cause is why disks were reimaged (OSDI'16 §3.3).
type Cause uint8

// The causes.
const (
	UnknownCause Cause = iota
	Redeploy           // an engineer redeploys a tenant, or starts it from scratch
	Repurpose          // an environment's servers get another owner
	Resilience         // the management system tests that the service survives it
	Maintenance        // disks were tested or replaced
)

func (c Cause) String() string {
	switch c {
	case Redeploy:
		return "redeploy"
	case Repurpose:
		return "repurpose"
	case Resilience:
		return "resilience"
	case Maintenance:
		return "maintenance"
	}
	return "unknown"
}

// CPU returns a server's utilisation by its primary tenant in a slot of the
// window, 0 to 1, scaled if the datacenter is (see Scaled).
func (d *Datacenter) CPU(server, slot int) float32 {
	u := float32(d.series[d.follows[server]][slot]) * (1.0 / math.MaxUint16) * d.share[server]
	if d.noise > 0 {
		u *= 1 + d.noise*jitter(d.seed, server, slot)
	}
	if d.scaling != nil {
		return d.scaling.Of(u)
	}
	return min(u, 1)
}

// SlotAt returns the slot that holds t; it may lie outside the window.
func (d *Datacenter) SlotAt(t time.Time) int {
	return int(math.Floor(float64(t.Sub(d.Window.From)) / float64(d.Window.Step)))
}

// Series returns what was recorded of every tenant between two slots: the
// utilisation of its average server (OSDI'16 §3.2).
func (d *Datacenter) Series(from, to int) []cluster.Series {
	out := make([]cluster.Series, len(d.Tenants))
	for i := range d.Tenants {
		out[i] = cluster.Series{Tenant: d.Tenants[i].ID, Servers: len(d.Tenants[i].Servers), CPU: d.averageServer(i, from, to)}
	}
	return out
}

func (d *Datacenter) averageServer(tenant, from, to int) []float32 {
	servers := d.Tenants[tenant].Servers
	cpu := make([]float32, to-from)
	for _, s := range servers {
		for i := range cpu {
			cpu[i] += d.CPU(int(s), from+i)
		}
	}
	for i := range cpu {
		cpu[i] /= float32(len(servers))
	}
	return cpu
}

// Peaks returns the highest utilisation of every tenant's average server between
// two slots; 0 if there are none.
func (d *Datacenter) Peaks(from, to int) []float64 {
	peaks := make([]float64, len(d.Tenants))
	for i := range d.Tenants {
		for _, u := range d.averageServer(i, from, to) {
			peaks[i] = max(peaks[i], float64(u))
		}
	}
	return peaks
}

// ReimageRates returns the reimages per server and month of every tenant between
// two times, counting from the tenant's birth.
func (d *Datacenter) ReimageRates(from, to time.Time) []float64 {
	rates := make([]float64, len(d.Tenants))
	for _, r := range d.Reimages {
		if !r.At.Before(from) && r.At.Before(to) {
			rates[d.Owner[r.Server]]++
		}
	}
	for i, t := range d.Tenants {
		since := from
		if t.Born.After(since) {
			since = t.Born
		}
		months := max(float64(to.Sub(since))/float64(Month), 1)
		rates[i] /= months * float64(len(t.Servers))
	}
	return rates
}

// New makes a datacenter of a recorded history over the window, without servers
// yet; see Add. The past ends at now.
func New(name string, window cluster.Window, now time.Time) *Datacenter {
	return &Datacenter{Name: name, Window: window, Now: now, known: map[cluster.TenantID]int32{}}
}

// Add adds a server and its own use over the window. A gap (NaN) repeats the value
// before it; before its first value a server is idle.
func (d *Datacenter) Add(s cluster.Server, cpu []float32) {
	if len(cpu) != d.Window.Len {
		panic(fmt.Sprintf("datacenter: server %s has %d slots of history, not %d", s.ID, len(cpu), d.Window.Len))
	}
	id := s.Tenant()
	t, ok := d.known[id]
	if !ok {
		t = int32(len(d.Tenants))
		d.known[id] = t
		d.Tenants = append(d.Tenants, Tenant{ID: id, Environment: s.Environment, Function: s.Function})
	}
	i := int32(len(d.Servers))
	d.Servers = append(d.Servers, s)
	d.Owner = append(d.Owner, t)
	d.Tenants[t].Servers = append(d.Tenants[t].Servers, i)
	d.series = append(d.series, encode(cpu))
	d.follows = append(d.follows, i)
	d.share = append(d.share, 1)
}

func encode(cpu []float32) []uint16 {
	out := make([]uint16, len(cpu))
	last := float32(0)
	for i, u := range cpu {
		if u == u { // not NaN
			last = u
		}
		out[i] = uint16(min(max(last, 0), 1)*math.MaxUint16 + 0.5)
	}
	return out
}

// jitter is the noise, between -1 and 1, of a server in a slot; it is the same at
// every call.
func jitter(seed uint64, server, slot int) float32 {
	x := seed ^ uint64(server)<<32 ^ uint64(slot)
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float32(int32(x>>32)) * (1.0 / (1 << 31))
}
