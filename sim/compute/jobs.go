package compute

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gleaner/cluster"
)

// A Query is a kind of batch job: a graph of stages, and how long one task of
// each takes on a server of its own.
type Query struct {
	Name   string
	Stages []cluster.Stage
	Takes  []time.Duration // of each stage
}

// An Arrival is one job that comes in.
type Arrival struct {
	At    time.Duration // since the window began
	Job   *cluster.Job
	Takes []time.Duration // one task of each stage, on average
}

// Task returns how long a task takes and its loading. Tasks of a stage differ by
// up to a fifth either way; a task is the same in every run, under every policy.
func (a *Arrival) Task(id cluster.TaskID) (time.Duration, []float64) {
	for i := range a.Job.Stages {
		if a.Job.Stages[i].Name == id.Stage {
			return time.Duration(float64(a.Takes[i]) * (0.8 + 0.4*unit(id, i))), a.Job.Stages[i].Loading
		}
	}
	return 0, nil
}

// unit is a number from 0 to 1 that belongs to a task.
func unit(id cluster.TaskID, stage int) float64 {
	x := uint64(id.Job)<<32 ^ uint64(stage)<<24 ^ uint64(id.Index)
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// container is what each task is given: a core and two gigabytes.
var container = cluster.Resources{CPU: cluster.Core, Memory: 2 * cluster.GB}

const (
	queries      = 52 // that the paper takes from TPC-DS (OSDI'16 §6.1)
	shortest     = 45 * time.Second
	longest      = 2400 * time.Second
	narrowest    = 8
	widest       = 469 // query 19, the paper's Figure 7
	meanBetween  = 300 * time.Second
	goldenRatio  = 0.6180339887498949
	silverRatio  = 0.4142135623730951
	mostMaps     = 4
	mostReducers = 4
)

// Queries are 52 kinds of jobs like the paper's queries of TPC-DS. The paper
// has their number, the thresholds that divide them into short, medium and
// long (173 s and 433 s), the width of one (469) and their mean time on a
// loaded cluster (938 s). These have lengths, alone, from 45 s to 40 min and
// widths from 8 to 469, each spread evenly over the orders of magnitude and
// independent of one another, so that a third is short and two fifths long.
func Queries() []Query {
	out := make([]Query, queries)
	for i := range out {
		length := between(float64(shortest), float64(longest), float64(i)/(queries-1))
		width := between(narrowest, widest, math.Mod(float64(i+1)*goldenRatio, 1))
		shape := math.Mod(float64(i+1)*silverRatio, 1)
		out[i] = query(fmt.Sprintf("query%02d", i+1), time.Duration(length), int(width), 1+int(shape*mostMaps), 1+i%mostReducers)
	}
	out[18] = figure7(time.Duration(between(float64(shortest), float64(longest), 18.0/(queries-1))))
	return out
}

// between goes from low to high in equal factors as x goes from 0 to 1.
func between(low, high, x float64) float64 { return low * math.Pow(high/low, x) }

// query scans with some map stages side by side, then reduces in a chain that
// narrows by half at each step; the maps take half of its time.
func query(name string, length time.Duration, width, maps, reducers int) Query {
	q := Query{Name: name}
	var before []string
	for m := range maps {
		before = append(before, q.add(fmt.Sprintf("map%d", m+1), max(width*(m+1)/maps-width*m/maps, 1), length/2, nil))
	}
	for r := range reducers {
		width /= 2
		name := q.add(fmt.Sprintf("reduce%d", r+1), max(width, 1), length/2/time.Duration(reducers), before)
		before = []string{name}
	}
	return q
}

// figure7 has the shape and the width of query 19 (OSDI'16 Figure 7): tables
// of very different sizes are scanned at once, then joined one by one.
func figure7(length time.Duration) Query {
	q := Query{Name: "query19"}
	step := length / 6
	dates := q.add("dates", 1, step, nil)
	items := q.add("items", 3, step, nil)
	customers := q.add("customers", 15, 2*step, nil)
	addresses := q.add("addresses", 8, step, nil)
	stores := q.add("stores", 1, step, nil)
	sales := q.add("sales", 441, 2*step, nil)
	joined := q.add("join-dates", 120, step, []string{dates, sales})
	joined = q.add("join-items", 60, step, []string{joined, items})
	joined = q.add("join-customers", 40, step, []string{joined, customers, addresses, stores})
	q.add("top", 1, step, []string{joined})
	return q
}

func (q *Query) add(name string, tasks int, takes time.Duration, after []string) string {
	q.Stages = append(q.Stages, cluster.Stage{Name: name, Tasks: tasks, Request: container, After: after})
	q.Takes = append(q.Takes, takes)
	return name
}

// work is the core-seconds of a query.
func (q *Query) work() float64 {
	sum := 0.0
	for i, s := range q.Stages {
		sum += float64(s.Tasks) * q.Takes[i].Seconds() * float64(s.Request.CPU) / float64(cluster.Core)
	}
	return sum
}

// A Workload says how much batch work arrives.
type Workload struct {
	Queries []Query
	Stretch float64 // lengths are multiplied by it; 0: not
	Load    float64 // mean share of all cores that the work would keep busy: widths are multiplied to reach it; 0: not
	Cores   float64 // of the datacenter
}

// Arrivals draws jobs for a window of that length: queries in random order, at
// times with exponential gaps of 300 s on average (a Poisson process).
func (l Workload) Arrivals(length time.Duration, r *rand.Rand) []Arrival {
	if l.Stretch == 0 {
		l.Stretch = 1
	}
	widen := 1.0
	if l.Load > 0 {
		mean := 0.0
		for i := range l.Queries {
			mean += l.Queries[i].work() / float64(len(l.Queries))
		}
		widen = l.Load * l.Cores * meanBetween.Seconds() / (mean * l.Stretch)
	}
	var out []Arrival
	for at := gap(r); at < length; at += gap(r) {
		out = append(out, l.arrival(at, cluster.JobID(len(out)+1), &l.Queries[r.IntN(len(l.Queries))], widen))
	}
	return out
}

func gap(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(meanBetween)) }

func (l Workload) arrival(at time.Duration, id cluster.JobID, q *Query, widen float64) Arrival {
	a := Arrival{At: at, Job: &cluster.Job{ID: id, Name: q.Name, Stages: make([]cluster.Stage, len(q.Stages))}, Takes: make([]time.Duration, len(q.Stages))}
	for i, s := range q.Stages {
		s.Tasks = max(int(float64(s.Tasks)*widen+0.5), 1)
		a.Job.Stages[i] = s
		a.Takes[i] = time.Duration(float64(q.Takes[i]) * l.Stretch)
	}
	return a
}
