package colocation

import (
	"cmp"
	"math/rand/v2"
	"slices"
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

// arrivals draws jobs of all shapes in turn, with the given number of tasks in their
// first two stages together. They come at random (OSDI'16 §6.1: a Poisson process
// with a given number of jobs), the first at once.
func arrivals(shapes []shape, tasks int, length time.Duration, r *rand.Rand) []arrival {
	all := []arrival{{0, shapes[0]}}
	for n := shapes[0].first + shapes[0].width; n < tasks; {
		s := shapes[len(all)%len(shapes)]
		all = append(all, arrival{time.Duration(r.Int64N(int64(length))), s})
		n += s.first + s.width
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return all
}

// A kit is what all jobs have in common.
type kit struct {
	program string // this program's file
	request cluster.Resources
	rows    int // of a table that is scanned
	mb      int // of a table that is copied
}

// job makes a job whose tasks write their results to dir.
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
