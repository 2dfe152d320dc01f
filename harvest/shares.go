package harvest

import (
	"maps"
	"math"
	"slices"
	"time"

	"gleaner/cluster"
)

// Users share what is harvested: of the waiting jobs of one priority, those of the
// user who has used least of late go first. What was used counts half after an
// hour: an hour ago is recent to people, yesterday is not.
const useHalves = time.Hour

// foreseen is how long a task that has just started counts as used, in advance.
// Otherwise who comes first would get all the room that is free at one moment.
const foreseen = time.Minute

// A user is somebody whose jobs are not all forgotten.
type user struct {
	use  float64 // recent, in core-seconds
	at   time.Time
	held cluster.MilliCPU // by running tasks
	jobs int              // that the core has
}

// hold changes what the user's tasks hold.
func (u *user) hold(more cluster.MilliCPU, at time.Time) {
	u.advance(at)
	u.held += more
}

// advance counts what was used until now.
func (u *user) advance(at time.Time) {
	passed := at.Sub(u.at)
	if u.at.IsZero() || passed < 0 {
		passed = 0
	}
	u.use = faded(u.use, passed) + cores(u.held)*passed.Seconds()
	u.at = at
}

// score is low for who goes first.
func (u *user) score() float64 { return u.use + cores(u.held)*foreseen.Seconds() }

func faded(use float64, passed time.Duration) float64 {
	return use * math.Exp2(-passed.Hours()/useHalves.Hours())
}

func cores(cpu cluster.MilliCPU) float64 { return float64(cpu) / float64(cluster.Core) }

// users are those who have jobs, or have used something of late.
type users struct {
	all    map[cluster.User]*user
	active int // of them, that have jobs
}

func (us *users) get(who cluster.User, at time.Time) *user {
	u := us.all[who]
	if u == nil {
		u = &user{at: at}
		us.all[who] = u
	}
	return u
}

// enter counts one more job of a user.
func (us *users) enter(who cluster.User, at time.Time) *user {
	u := us.get(who, at)
	if u.jobs++; u.jobs == 1 {
		us.active++
	}
	return u
}

// leave counts one job less, and forgets who has used next to nothing of late.
func (us *users) leave(who cluster.User, at time.Time) {
	u := us.all[who]
	if u.jobs--; u.jobs > 0 {
		return
	}
	us.active--
	us.advance(at)
	maps.DeleteFunc(us.all, func(_ cluster.User, u *user) bool { return u.jobs == 0 && u.use < 1 })
}

// recall counts what a user used before this core existed.
func (us *users) recall(who cluster.User, work float64, ended, at time.Time) {
	us.get(who, at).use += faded(work, at.Sub(ended))
}

func (us *users) advance(at time.Time) {
	for _, u := range us.all {
		u.advance(at)
	}
}

// ranked reports whether jobs are served by their rank. Otherwise all ranks are
// equal and the order in which they came in is enough.
func (c *Core) ranked() bool { return c.urgent > 0 || c.users.active > 1 }

// before reports whether a goes before b: by priority, then by what their users have
// used, then by when they came in.
func before(a, b *job) bool {
	switch {
	case a.spec.Priority != b.spec.Priority:
		return a.spec.Priority > b.spec.Priority
	case a.user != b.user && a.user.score() != b.user.score():
		return a.user.score() < b.user.score()
	}
	return a.number < b.number
}

// serveByRank starts waiting tasks in a class one by one, because each changes what
// its user has used. What a job of high rank cannot use is left to the others.
func (c *Core) serveByRank(k int) {
	c.users.advance(c.at)
	c.failed = c.failed[:0]
	stuck := map[*job]bool{}
	for c.tree(k).total > 0 {
		j := c.foremost(k, stuck)
		if j == nil {
			return
		}
		if !j.hopeless(c.failed) && c.placeSome(j, 1) > 0 {
			continue
		}
		stuck[j] = true
		for i := range j.stages {
			if st := &j.stages[i]; st.ready() {
				c.failed = append(c.failed, st.spec.Request)
			}
		}
	}
}

// foremost is the job that goes first of those that wait for a class and are not stuck;
// nil if there is none.
func (c *Core) foremost(k int, stuck map[*job]bool) (first *job) {
	for _, in := range []line{c.classes[k].waiting, c.waiting} {
		for _, j := range in {
			if !stuck[j] && (first == nil || before(j, first)) {
				first = j
			}
		}
	}
	return first
}

// roomless reports whether no class of j has any room.
func (c *Core) roomless(j *job) bool {
	return !slices.ContainsFunc(j.classes, func(k int) bool { return c.tree(k).total > 0 })
}

// openFor lets the classes be served in which tasks of j may run.
func (c *Core) openFor(j *job) {
	in := j.classes
	if j.anywhere {
		in = c.everywhere
	}
	for _, k := range in {
		c.open(k)
	}
}

// keepBack makes a job start no more tasks, or lets it go on.
func (c *Core) keepBack(id cluster.JobID, paused bool) {
	j := c.jobs[id]
	if j == nil || j.ended || j.keptBack == paused {
		return
	}
	j.keptBack = paused
	c.promise(j)
	if !j.awaits {
		c.place(j)
	}
}

// drain makes a server get no more tasks, or some again.
func (c *Core) drain(id cluster.ServerID, drained bool) {
	i, known := c.byID[id]
	if !known {
		return
	}
	s := &c.servers[i]
	if s.drained = drained; !s.gone {
		c.weigh(s)
		c.open(s.class)
	}
}
