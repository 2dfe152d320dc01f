package board

import (
	"time"

	"gleaner/cluster"
)

// A State says how far a job or a stage has come.
type State string

// The states. A stage that was not finished when its job ended is in the
// state of the job if a task of it has failed, and else cancelled.
const (
	Blocked   State = "blocked" // it comes after stages, or jobs, that have not finished
	Waiting   State = "waiting" // tasks may start, and none runs
	Running   State = "running"
	Finished  State = "finished"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// States are all of them.
var States = []State{Blocked, Waiting, Running, Finished, Failed, Cancelled}

// A Job is what is shown of one.
type Job struct {
	ID        cluster.JobID   `json:"id"`
	Name      string          `json:"name"`
	State     State           `json:"state"`
	Submitted time.Time       `json:"submitted"`
	Started   time.Time       `json:"started,omitzero"`
	Ended     time.Time       `json:"ended,omitzero"`
	Reason    string          `json:"reason,omitempty"` // why it did not finish
	After     []cluster.JobID `json:"after,omitempty"`  // jobs that must have finished before it starts
	Priority  int             `json:"priority,omitempty"`
	User      string          `json:"user,omitempty"`   // who submitted it; "" for the one whom gleaner runs as
	UID       uint32          `json:"-"`                // of User
	Paused    bool            `json:"paused,omitempty"` // none of its tasks is started
	Kills     int             `json:"kills"`            // of its tasks
	Stages    []Stage         `json:"stages"`
	Running   []RunningTask   `json:"running"` // the oldest first
	Delayed   []Delay         `json:"delayed,omitempty"`

	gaveUp map[cluster.TaskID]bool // by their first runs
}

// A Delay is a task that has failed and waits before it is run again.
type Delay struct {
	Task   cluster.TaskID `json:"-"` // its next run
	Name   string         `json:"task"`
	Until  time.Time      `json:"until"`
	Reason string         `json:"reason"` // why it failed
}

// A Stage is what is shown of one.
type Stage struct {
	Name     string            `json:"name"`
	State    State             `json:"state"`
	After    []string          `json:"after,omitempty"`
	Request  cluster.Resources `json:"request"`
	Tasks    int               `json:"tasks"`
	Running  int               `json:"running"`
	Waiting  int               `json:"waiting"` // tasks that may start and do not run
	Finished int               `json:"finished"`
	Failures int               `json:"failures"`          // of its tasks, that were or will be retried
	GaveUp   int               `json:"gave_up,omitempty"` // tasks that have failed too often, while the others go on
	// Loading is the share of a task's time on a core and on the disk, as
	// learned from earlier runs; nil if there were none.
	Loading []float64 `json:"loading,omitempty"`
}

// A RunningTask is a task that runs.
type RunningTask struct {
	Task    cluster.TaskID    `json:"-"`
	On      cluster.ServerID  `json:"-"`
	Name    string            `json:"task"`
	Since   time.Time         `json:"since"`
	Request cluster.Resources `json:"request"`
	// Dilation is the predicted slow-down by all that runs now; 0 if its loading
	// is not known.
	Dilation float64 `json:"dilation,omitempty"`
}

// A Kill is a task that was killed.
type Kill struct {
	At     time.Time `json:"at"`
	Task   string    `json:"task"`
	Reason string    `json:"reason"`
}

// A Class is what history says of the server's primary.
type Class struct {
	Pattern     cluster.Pattern `json:"pattern"`
	Mean        float64         `json:"mean"` // 0 to 1
	Peak        float64         `json:"peak"`
	PeriodHours float64         `json:"period_hours,omitempty"`
}

// A Shortage is a part of gleaner that waits for files, memory, processes or
// room on the disk.
type Shortage struct {
	Of      string    `json:"of"`
	Since   time.Time `json:"since"`
	Because string    `json:"because"`
}

// A Usage is who uses what of a server, or of all of them together.
type Usage struct {
	At      time.Time         `json:"at"`     // of the last sample
	Server  cluster.ServerID  `json:"server"` // "" for several
	Size    cluster.Resources `json:"size"`
	Reserve cluster.Resources `json:"reserve"`           // kept free for the primary
	Primary cluster.Resources `json:"primary"`           // used by everything that is not a harvested task
	Counted cluster.Resources `json:"counted"`           // Primary as it is counted: rounded up
	Held    cluster.Resources `json:"held"`              // requests of the running tasks
	Class   *Class            `json:"class,omitempty"`   // once there is enough history
	Running int               `json:"running"`           // tasks
	Drained bool              `json:"drained,omitempty"` // no task is started there
	Unaware bool              `json:"unaware,omitempty"` // its primary is not heeded: nothing is kept free
}

func (u *Usage) add(more Usage) {
	if more.At.After(u.At) {
		u.At = more.At
	}
	u.Size, u.Reserve, u.Held = u.Size.Add(more.Size), u.Reserve.Add(more.Reserve), u.Held.Add(more.Held)
	u.Primary, u.Counted = u.Primary.Add(more.Primary), u.Counted.Add(more.Counted)
	u.Running += more.Running
	u.Unaware = u.Unaware || more.Unaware
}

// A Status summarises all servers and jobs.
type Status struct {
	Usage
	Waiting int    `json:"waiting"` // tasks that may start
	Blocked int    `json:"blocked"` // tasks that come after stages which have not finished
	Jobs    int    `json:"jobs"`    // that have not ended
	Kills   int    `json:"kills"`   // since this process started
	Last    []Kill `json:"last_kills"`
	// Dilation is the average of the running tasks whose loading is known; 0 if
	// there are none.
	Dilation float64    `json:"dilation,omitempty"`
	Short    []Shortage `json:"short,omitempty"`   // what waits for room
	Servers  []Usage    `json:"servers,omitempty"` // each of them, if there are several
}
