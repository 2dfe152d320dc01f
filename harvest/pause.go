package harvest

import (
	"slices"
	"time"

	"gleaner/cluster"
)

// A task that has failed by itself waits before it is run again, each time twice
// as long: the cause may pass, and retries are few. A task that was killed for
// the primary does not wait.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// A server that lacks what a process needs gets no tasks for a while, each time
// twice as long until one of its tasks ends, which frees files, processes or
// memory. The longest pause is short, because no event says when a full disk has
// space again.
const longestShut = 30 * time.Second

// pauseAfter is how long a task waits after that many failures.
func pauseAfter(failures int32) time.Duration {
	return min(firstPause<<min(failures-1, 20), longestPause)
}

// A paused task waits until a given time to be run again.
type paused struct {
	until time.Time
	job   *job
	stage int
	index int32
}

// pause makes a task that has failed wait.
func (c *Core) pause(j *job, i int, index int32, reason string) {
	st := &j.stages[i]
	t := st.tasks.get(index)
	t.failures++
	p := paused{c.at.Add(pauseAfter(t.failures)), j, i, index}
	at, _ := slices.BinarySearchFunc(c.paused, p.until.Add(1), func(p paused, until time.Time) int { return p.until.Compare(until) })
	c.paused = slices.Insert(c.paused, at, p)
	next := cluster.TaskID{Job: j.spec.ID, Stage: st.spec.Name, Index: index, Attempt: t.attempt + 1}
	c.actions = append(c.actions, cluster.Action{Kind: cluster.DelayTask, Task: next, Pause: pauseAfter(t.failures), Reason: reason})
}

// shut pauses a server that could not start a task.
func (c *Core) shut(s *server) {
	if s.shut {
		return // another task of the same moment
	}
	s.pause = min(max(2*s.pause, firstPause), longestShut)
	s.shut, s.shutUntil = true, c.at.Add(s.pause)
	c.shutServers++
	c.weigh(s)
}

// wake ends the pauses of tasks and servers that are over.
func (c *Core) wake() {
	for len(c.paused) > 0 && !c.paused[0].until.After(c.at) {
		p := c.paused[0]
		c.paused = c.paused[1:]
		if !p.job.ended {
			c.again(p.job, &p.job.stages[p.stage], p.index)
		}
	}
	if c.shutServers == 0 {
		return
	}
	for i := range c.servers {
		if s := &c.servers[i]; s.shut && !s.shutUntil.After(c.at) {
			s.shut = false
			c.shutServers--
			if !s.gone {
				c.weigh(s)
				c.open(s.class)
			}
		}
	}
}
