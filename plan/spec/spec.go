// Package spec reads the three documents of a plan: the application, the hardware
// that can be bought, and the SLA (Madhyastha et al., FAST'12, Section 3 and
// Figure 2).
//
// A document is XML in the paper's form or the same in YAML. Names that are not in
// the paper may have the prefix "x-". Every mistake is found in one pass and reported
// with file, line and attribute.
package spec

import "math"

// Bytes, Seconds and Money are plain numbers; the documents have the units.
type (
	Bytes   = float64
	Seconds = float64
	Money   = float64
)

// An Application is datasets, and tasks that work on them.
type Application struct {
	File     string
	Systems  []System
	Datasets []Dataset
	Tasks    []Task
}

// A System is the storage or file system between tasks and devices; it
// changes what a device delivers and costs memory where it runs.
type System struct {
	Name            string
	MemoryPerServer Bytes // on every server that holds a unit of it
	Rates           []Rates
	Line            int
}

// Rates are what one kind of device delivers through a storage system; NaN: as the
// bare device.
type Rates struct {
	Unit string
	Read
	Write
	Line int
}

// Read says how fast a device reads: size/RateR + GapR seconds a record.
type Read struct {
	RateR float64 // bytes a second
	GapR  Seconds
}

// Write says how fast a device writes.
type Write struct {
	RateW float64
	GapW  Seconds
}

// A Dataset is a collection of records of one kind.
type Dataset struct {
	Name       string
	Size       Bytes
	Persistent bool // must lie on storage that survives without power
	Remote     bool // reached over the network; otherwise local to its tasks
	// Partitioned local data is spread over the tasks' instances and shares
	// units on a server; otherwise every instance has a whole copy and units
	// of its own.
	Partitioned bool
	System      string  // storage system it is kept in; empty for none
	CPUPerOp    Seconds // host CPU a record read or written takes
	CPUPerUnit  float64 // host cores a storage unit keeps busy
	WorkingSet  Bytes   // what a cache must hold; 0 for all of it
	HitRate     float64 // share of the reads that a cache answers; 1 if not given
	Replicas    int     // of every record, on different servers
	Spread      int     // servers that it is on at least; 0: any number
	Line        int
}

// CacheSize is what a cache must hold.
func (d Dataset) CacheSize() Bytes {
	if d.WorkingSet > 0 {
		return d.WorkingSet
	}
	return d.Size
}

// A Task is one function of the application and its execution path.
type Task struct {
	Name        string
	Phase       string
	Memory      Bytes
	PerInstance bool    // Memory is held by every instance, not just by those computing
	Harvest     Seconds // how long its containers run on harvested cores; 0: it may not
	Consumes    Bytes   // of a batch job's input, for one execution; 0: what it reads
	Spread      int     // servers that it runs on at least; 0: any number
	Path        []Op
	Line        int
}

// An Op is one step of an execution path: exactly one of IO, Compute and Call.
type Op struct {
	Probability float64
	Blocking    bool
	IO          *IO
	Compute     Seconds
	Call        *Call
	Line        int
}

// IO reads or writes records of a dataset.
type IO struct {
	Write      bool
	Dataset    int // index into Application.Datasets
	Records    float64
	RecordSize Bytes
	Parallel   bool    // all records are requested at once
	StreamRate float64 // limit of one stream, bytes a second; 0: only that of the device
}

// A Call invokes another task.
type Call struct {
	Task        int // index into Application.Tasks
	Invocations float64
	Parallel    bool
	Inline      bool  // runs inside the caller; otherwise on instances of its own
	MessageSize Bytes // sent over the network for each invocation that is not inline
}

// Hardware is what can be bought.
type Hardware struct {
	File     string
	Currency string
	Years    float64 // that costs are for
	Units    []Unit
	CPU      Price
	Servers  []Server
}

// A Price is what one piece costs: to buy, and to power for its life.
type Price struct {
	Price  Money
	Energy Money
	Power  float64 // watts
}

// Cost is purchase and energy.
func (p Price) Cost() Money { return p.Price + p.Energy }

// A Unit is a kind of storage: one disk, one SSD, one stick of memory.
type Unit struct {
	Name     string
	Capacity Bytes
	Bus      string
	Read
	Write
	Volatile bool
	Price
	Stock int // there are no more; 0 is as many as needed, NoStock none
	Line  int
}

// A Server is a chassis with its buses, sockets and network.
type Server struct {
	Name string
	CPUs int
	BW   float64 // network, bytes a second in and out together
	Price
	Buses []Bus
	// What it needs for itself, before any task or dataset.
	BootCPUs   float64 // cores
	Speed      float64 // of one of its cores; CPUs counts cores of speed 1
	BootMemory Bytes
	Stock      int      // there are no more; 0 is as many as needed, NoStock none
	RackUnits  float64  // of height
	Unsaid     []string // power and rack_units, if they are not given
	// Rent is what it costs rented by the hour, for all hours of the years; 0: it is bought, or
	// paid for all hours. A rented server comes with its CPUs and its memory.
	Rent   Money
	Memory Bytes
	Line   int
}

// Rented reports whether a server can be rented by the hour.
func (s Server) Rented() bool { return s.Rent > 0 }

// Pace is the speed of a server's cores, as far as it counts: faster ones are as many more.
func (s Server) Pace() float64 {
	if s.Speed == 0 {
		return 1
	}
	return min(1, s.Speed)
}

// RentFor is what it costs for some hours of every day.
func (s Server) RentFor(hours int) Money { return (s.Rent + s.Energy) * float64(hours) / DayHours }

// A Bus is an I/O controller of a server.
type Bus struct {
	Name  string
	Slots int
	BW    float64 // bytes a second
}

// An SLA is what must be achieved: rates of requests, or a job within a time.
type SLA struct {
	File    string
	Rates   []Rate
	Day     []Level // hours with different rates; none if these stay the same
	Job     *Job
	Targets Targets
	Survive int // servers that may fail while the rest is met
	Zones   Zones
	Budget  Budget
	Least   int // servers of a plan
}

// A Rate is how often a second a task's execution path must run.
type Rate struct {
	Task      int
	PerSecond float64   // at the busiest time of the day
	Levels    []float64 // by level of the day; none if it has none
	Latency   Seconds   // of an execution, at most; 0 is any
	// Percentile is the share of executions that must take no longer than Latency.
	Percentile float64
	Line       int
}

// A Job is a batch of input and the time it may take, phase after phase.
type Job struct {
	Bytes   Bytes   // of input, or
	Records float64 // records of input
	Time    Seconds
	Start   float64 // hours since Monday midnight UTC, or AnyTime; matters to harvested capacity
	Line    int
}

// Scaled is the SLA at k times the load: k times every rate, or the job in a
// k-th of its time.
func (s SLA) Scaled(k float64) SLA {
	out := s
	out.Rates = nil
	for _, r := range s.Rates {
		out.Rates = append(out.Rates, r.Times(k))
	}
	if s.Job != nil {
		job := *s.Job
		job.Time /= k
		out.Job = &job
	}
	return out
}

// Memory is the index of the unit that server memory is bought in: the volatile one
// with the lowest cost per byte; -1 if there is none.
func (h Hardware) Memory() int {
	best, at := math.Inf(1), -1
	for i, u := range h.Units {
		if cost := u.Cost() / u.Capacity; u.Volatile && cost < best {
			best, at = cost, i
		}
	}
	return at
}

// Server is the type of server named, or nil.
func (h Hardware) Server(name string) *Server {
	for i := range h.Servers {
		if h.Servers[i].Name == name {
			return &h.Servers[i]
		}
	}
	return nil
}

// Through is what unit u delivers through a storage system.
func (a Application) Through(system string, u Unit) (Read, Write) {
	for _, s := range a.Systems {
		if s.Name != system {
			continue
		}
		for _, r := range s.Rates {
			if r.Unit == u.Name {
				return Read{or(r.RateR, u.RateR), or(r.GapR, u.GapR)}, Write{or(r.RateW, u.RateW), or(r.GapW, u.GapW)}
			}
		}
	}
	return u.Read, u.Write
}

func or(given, otherwise float64) float64 {
	if math.IsNaN(given) {
		return otherwise
	}
	return given
}

// SystemOf is the storage system named, or nil.
func (a Application) SystemOf(name string) *System {
	for i := range a.Systems {
		if a.Systems[i].Name == name {
			return &a.Systems[i]
		}
	}
	return nil
}

// Phases are the phases of the application in the order they first appear.
func (a Application) Phases() []string {
	var out []string
	seen := map[string]bool{}
	for _, t := range a.Tasks {
		if !seen[t.Phase] {
			seen[t.Phase] = true
			out = append(out, t.Phase)
		}
	}
	return out
}
