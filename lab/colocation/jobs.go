package colocation

import (
	"math/rand/v2"
	"strconv"
	"time"

	"gleaner/cluster"
)

// A shape is a kind of job; its name is the same every time it comes.
type shape struct {
	name         string
	first, width int  // tasks of its first stage and of its second
	disk         bool // it harvests the disk
}

// queries are jobs that compute, small, medium and large.
var queries = []shape{{"query-small", 1, 1, false}, {"query-medium", 2, 1, false}, {"query-large", 4, 2, false}}

// copies are jobs that write tables to the disk and read them back.
var copies = []shape{{"copy-small", 1, 1, true}, {"copy-large", 4, 4, true}}

// An arrival is a job that is submitted.
type arrival struct {
	at time.Duration
	shape
}

// arrivals draws jobs of all shapes, which come at random (OSDI'16 §6.1:
// Poisson), at such a rate that the tasks of their first two stages are tasks.
func arrivals(shapes []shape, tasks float64, length time.Duration, r *rand.Rand) []arrival {
	mean := 0.0
	for _, s := range shapes {
		mean += float64(s.first+s.width) / float64(len(shapes))
	}
	gap := float64(length) * mean / tasks
	var all []arrival
	for at := r.ExpFloat64() * gap / 2; at < float64(length); at += r.ExpFloat64() * gap {
		all = append(all, arrival{time.Duration(at), shapes[len(all)%len(shapes)]})
	}
	return all
}

// A kit is what jobs are made with.
type kit struct {
	program string // this one
	request cluster.Resources
	rows    int // of a table that is scanned
	mb      int // of a table that is copied
}

// job makes one whose tasks leave what they find in dir.
func (k kit) job(s shape, dir string) *cluster.Job {
	stage := func(name string, tasks int, after ...string) cluster.Stage {
		return cluster.Stage{
			Name: name, Tasks: tasks, Request: k.request, After: after,
			Command: []string{k.program, "lab", "batch", name, dir, "--rows", strconv.Itoa(k.rows), "--mb", strconv.Itoa(k.mb)},
			Env:     []string{"GOMAXPROCS=1"},
		}
	}
	if s.disk {
		return &cluster.Job{Name: s.name, Stages: []cluster.Stage{stage("write", s.first), stage("read", s.width, "write")}}
	}
	return &cluster.Job{Name: s.name, Stages: []cluster.Stage{stage("scan", s.first), stage("join", s.width, "scan"), stage("top", 1, "join")}}
}
