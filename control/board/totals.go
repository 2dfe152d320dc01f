package board

import (
	"maps"

	"gleaner/cluster"
)

// Totals count what has happened since this board was made; Jobs are those that it
// shows now, by their states.
type Totals struct {
	TasksStarted, TasksFinished, TasksFailed, TasksKilled, TasksNotStarted int
	TasksDropped                                                           int // ended with their job, as by a cancel
	JobsSubmitted                                                          int
	JobsEnded, Jobs                                                        map[State]int
}

// count counts an event. dropped says of a task that it was ended with its job.
func (t *Totals) count(kind cluster.EventKind, dropped bool) {
	if dropped {
		t.TasksDropped++
		return
	}
	switch kind {
	case cluster.TaskStarted:
		t.TasksStarted++
	case cluster.TaskFinished:
		t.TasksFinished++
	case cluster.TaskFailed:
		t.TasksFailed++
	case cluster.TaskKilled:
		t.TasksKilled++
	case cluster.TaskNotStarted:
		t.TasksNotStarted++
	case cluster.JobSubmitted:
		t.JobsSubmitted++
	}
}

// Totals returns the counts.
func (b *Board) Totals() Totals {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.totals
	t.JobsEnded, t.Jobs = maps.Clone(t.JobsEnded), map[State]int{}
	for _, j := range b.jobs {
		t.Jobs[b.state(j)]++
	}
	return t
}
