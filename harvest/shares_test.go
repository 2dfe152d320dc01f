package harvest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

// A sharing plays jobs of several users on one server, second by second.
type sharing struct {
	core    *Core
	at      time.Time
	ends    map[cluster.TaskID]time.Time
	asks    map[cluster.JobID]*cluster.Job
	started map[cluster.JobID]int
	used    map[string]float64 // core-seconds, by user
	got     []cluster.JobID    // whose tasks started in the last step
}

func newSharing(cores int) *sharing {
	s := &sharing{core: New(Options{Policy: stock{}, Rand: rand.New(rand.NewPCG(1, 0))}), at: time.Unix(1e9, 0), ends: map[cluster.TaskID]time.Time{},
		asks: map[cluster.JobID]*cluster.Job{}, started: map[cluster.JobID]int{}, used: map[string]float64{}}
	s.step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s", CPU: cluster.MilliCPU(cores) * cluster.Core, Memory: 1 << 40}})
	return s
}

func (s *sharing) submit(id cluster.JobID, user string, priority, tasks int) {
	job := &cluster.Job{ID: id, Name: fmt.Sprint(id), Priority: priority, User: cluster.User{Name: user},
		Stages: []cluster.Stage{{Name: "a", Tasks: tasks, Request: cluster.Resources{CPU: cluster.Core}}}}
	s.asks[id] = job
	s.step(cluster.Event{Kind: cluster.JobSubmitted, Job: job})
}

func (s *sharing) step(ev cluster.Event) {
	ev.At = s.at
	for _, a := range s.core.Step(ev) {
		if a.Kind == cluster.StartTask {
			s.ends[a.Task] = s.at.Add(time.Duration(5+a.Task.Index%7) * time.Second)
			s.started[a.Task.Job]++
			s.got = append(s.got, a.Task.Job)
		}
	}
}

// second lets a second pass.
func (s *sharing) second() {
	s.at = s.at.Add(time.Second)
	for id := range s.ends {
		s.used[s.asks[id.Job].User.Name]++
	}
	for id, end := range s.ends {
		if !end.After(s.at) {
			delete(s.ends, id)
			s.step(cluster.Event{Kind: cluster.TaskFinished, Task: id, On: "s"})
		}
	}
}

// Users who always have tasks get the same, however many jobs each has submitted, and
// when.
func TestUsersGetEqualShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSharing(rapid.IntRange(2, 8).Draw(t, "cores"))
		jobs := rapid.SliceOfN(rapid.IntRange(1, 5), 2, 4).Draw(t, "jobs of each user")
		id := cluster.JobID(0)
		for user, n := range jobs {
			for range n {
				id++
				s.submit(id, fmt.Sprint("user", user), 0, 100_000)
			}
		}
		for range 1000 {
			s.second()
		}
		least, most := s.used["user0"], s.used["user0"]
		for _, used := range s.used {
			least, most = min(least, used), max(most, used)
		}
		if len(s.used) < len(jobs) || most > 1.1*least+60 {
			t.Fatalf("used core-seconds: %v", s.used)
		}
	})
}

// No task starts while a job of a higher priority waits whose tasks need the same,
// and no core is idle while a task waits.
func TestHigherPrioritiesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cores := rapid.IntRange(1, 4).Draw(t, "cores")
		s := newSharing(cores)
		for id := cluster.JobID(1); id <= 40; id++ {
			s.got = nil
			s.submit(id, rapid.SampledFrom([]string{"ann", "bob", "cid"}).Draw(t, "user"), rapid.IntRange(-2, 2).Draw(t, "priority"), rapid.IntRange(1, 9).Draw(t, "tasks"))
			for range rapid.IntRange(0, 9).Draw(t, "seconds") {
				s.check(t, cores)
				s.got = nil
				s.second()
			}
			s.check(t, cores)
		}
	})
}

func (s *sharing) check(t *rapid.T, cores int) {
	waits := func(id cluster.JobID) bool { return s.started[id] < s.asks[id].Stages[0].Tasks }
	for other := range s.asks {
		if waits(other) && len(s.ends) < cores {
			t.Fatalf("%s waits, and %d of %d cores are idle", other, cores-len(s.ends), cores)
		}
		for _, id := range s.got {
			if waits(other) && s.asks[other].Priority > s.asks[id].Priority {
				t.Fatalf("a task of %s (priority %d) started, and %s (%d) waits", id, s.asks[id].Priority, other, s.asks[other].Priority)
			}
		}
	}
}

// Jobs of one user and one priority start in the same order as if there were no
// users and no priorities.
func TestOneRankIsNoRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, one := newSharing(3), newSharing(3)
		for id := cluster.JobID(1); id <= 20; id++ {
			tasks := rapid.IntRange(1, 9).Draw(t, "tasks")
			plain.submit(id, "", 0, tasks)
			one.submit(id, "ann", 3, tasks)
			for range rapid.IntRange(0, 9).Draw(t, "seconds") {
				plain.second()
				one.second()
			}
		}
		if fmt.Sprint(plain.started) != fmt.Sprint(one.started) {
			t.Fatalf("started without ranks %v, with one %v", plain.started, one.started)
		}
	})
}
