package board

import (
	"time"

	"gleaner/cluster"
)

// A Task is what is shown of one.
type Task struct {
	Task    string `json:"task"`
	State   State  `json:"state"`
	Attempt int32  `json:"attempt,omitempty"` // its last run, from 1; 0 before the first
	// Since is when it began to run or to wait, or when it ended.
	Since time.Time `json:"since"`
	// Took is how long its last run took; 0 if it runs or has not run.
	Took   time.Duration    `json:"took,omitempty"`
	On     cluster.ServerID `json:"on,omitempty"`     // where it runs
	Exit   *int             `json:"exit,omitempty"`   // exit code of its last run, if that has ended and had one
	Late   bool             `json:"late,omitempty"`   // its last run took longer than its time limit
	Reason string           `json:"reason,omitempty"` // why its last run has not finished, or why it waits
}

// A Choice is which tasks of a job are asked for.
type Choice struct {
	Stage string // "" for all stages
	State State  // "" for any
	Skip  int    // so many of them are left out, from the first
	Most  int
}
