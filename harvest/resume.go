package harvest

import (
	"cmp"
	"slices"

	"gleaner/cluster"
)

// resume takes in what happened before this core existed. It restores all jobs,
// with what they hold, before any of them starts a task: otherwise room would be
// given away twice.
func (c *Core) resume(past []cluster.PastJob) {
	type restored struct {
		*job
		runs []cluster.PastRun
	}
	var back []restored
	for i := range past {
		switch p := &past[i]; {
		case c.jobs[p.Job.ID] != nil || p.Job.Validate() != nil:
		case p.Ended.IsZero():
			back = append(back, restored{c.restore(p), p.Runs})
		case p.Reason != "":
			c.broken[p.Job.ID] = true
		case !p.Started.IsZero():
			c.memory.remember(p.Job.Name, JobRun{Took: p.Ended.Sub(p.Started), Work: p.Work})
			c.users.recall(p.Job.User, p.Work, p.Ended, c.at)
		}
	}
	c.rethink()
	for _, j := range back {
		if j.ended || c.endIncomplete(j.job) {
			continue
		} else if j.done() {
			c.end(j.job, "")
		} else if r := j.exhausted(j.runs); r != nil {
			_, st := j.stage(r.Task.Stage)
			c.end(j.job, failedTooOften(j.job, st, r.Task.Index, r.Reason))
		} else {
			c.begin(j.job)
		}
	}
}

// restore rebuilds a job as it was left.
func (c *Core) restore(p *cluster.PastJob) *job {
	j := c.add(p.Job, p.Submitted)
	j.Account, j.keptBack = p.Account, p.Paused
	j.user.use += p.Work
	runs := make([][]cluster.PastRun, len(j.stages))
	for _, r := range p.Runs {
		if i, st := j.stage(r.Task.Stage); st != nil && int(r.Task.Index) < st.spec.Tasks {
			runs[i] = append(runs[i], r)
		}
	}
	order := make([]int, len(j.stages))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(j.stages[a].wave, j.stages[b].wave) })
	for _, i := range order { // a stage is open once those it waits for are restored
		if st := &j.stages[i]; st.waitsFor == 0 {
			c.restoreStage(j, i, p.Finished(st.spec.Name), runs[i])
		}
	}
	return j
}

// restoreStage rebuilds an open stage's tasks as they were left. Those that do
// not run wait to be run, also those before the last that never ran.
func (c *Core) restoreStage(j *job, i int, finished cluster.Indices, runs []cluster.PastRun) {
	st := &j.stages[i]
	st.next = min(finished.End(), int32(st.spec.Tasks))
	last := make(map[int32]*cluster.PastRun, len(runs))
	for k := range runs {
		index := runs[k].Task.Index
		last[index] = &runs[k]
		st.next = max(st.next, index+1)
	}
	done := 0
	for index := st.next - 1; index >= 0; index-- { // again is taken from its end
		r := last[index]
		switch {
		case finished.Has(index):
			done++
			j.unstarted--
		case r != nil && st.spec.KeepGoing && r.Failures >= st.spec.MaxFailures():
			j.firstLost = "" // the first comes last
			j.giveUp(i, failedTooOften(j, st, index, r.Reason))
			done++
			j.unstarted--
		case r != nil:
			c.restoreTask(j, st, r)
		default:
			st.again = append(st.again, index)
		}
	}
	for range done {
		j.finished(i)
	}
}

func (c *Core) restoreTask(j *job, st *stage, r *cluster.PastRun) {
	t := st.tasks.hold(r.Task.Index)
	t.attempt, t.failures, t.since = r.Task.Attempt, int32(r.Failures), r.Since
	if on, known := c.byID[r.On]; r.State == cluster.Running && known && !c.servers[on].gone {
		t.server = int32(on)
		c.hold(j, &c.servers[on], st.spec)
		j.running++
		j.unstarted--
	} else {
		t.attempt++
		st.again = append(st.again, r.Task.Index)
	}
}

// exhausted finds a task that has failed too often before its core could end
// the job.
func (j *job) exhausted(runs []cluster.PastRun) *cluster.PastRun {
	for i := range runs {
		if _, st := j.stage(runs[i].Task.Stage); st != nil && !st.spec.KeepGoing && runs[i].Failures >= st.spec.MaxFailures() {
			return &runs[i]
		}
	}
	return nil
}
