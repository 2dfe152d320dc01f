package cluster

import "time"

// A PastJob is a job that was submitted before gleaner last stopped, with its
// outcome so far. A new core needs nothing but these to continue where its
// predecessor stopped.
type PastJob struct {
	Job       *Job      `json:"job"`
	Submitted time.Time `json:"submitted"`
	Account
	Ended     time.Time `json:"ended,omitzero"`      // zero if it has not
	Reason    string    `json:"reason,omitempty"`    // why it ended, if it did not finish
	Cancelled bool      `json:"cancelled,omitempty"` // by its user
	Paused    bool      `json:"paused,omitempty"`    // by its user
	// Stages has the stages that were ever started.
	Stages []PastStage `json:"stages,omitempty"`
	// Runs has the last run of every task that was started and has not
	// finished; empty once the job has ended.
	Runs []PastRun `json:"runs,omitempty"`
}

// An Account sums up a job. The core keeps it; a world that outlives the core
// stores it when the job ends.
type Account struct {
	Started time.Time `json:"started,omitzero"` // start of its first task; zero if none has started
	Work    float64   `json:"work,omitempty"`   // of its finished tasks, in core-seconds
	Kills   int       `json:"kills,omitempty"`
}

// Finished returns the tasks of a stage that have finished.
func (p *PastJob) Finished(stage string) Indices {
	for _, s := range p.Stages {
		if s.Name == stage {
			return s.Finished
		}
	}
	return nil
}

// A PastStage sums up the tasks of a stage.
type PastStage struct {
	Name     string  `json:"name"`
	Finished Indices `json:"finished,omitempty"`
	Failures int     `json:"failures,omitempty"` // of its tasks, also of those that finished
}

// A PastRun is the last run of a task that has not finished.
type PastRun struct {
	Task     TaskID    `json:"task"`
	On       ServerID  `json:"on"`
	State    RunState  `json:"state"`
	Since    time.Time `json:"since"`
	Failures int       `json:"failures,omitempty"` // in all runs of this task
	Reason   string    `json:"reason,omitempty"`   // of the last failure
}

// A Spent is how a run of a task that has ended spent its time.
type Spent struct {
	Start time.Time
	Took  time.Duration
	CPU   time.Duration // on cores
	// Waited and Stalled are how long it waited for a core and for the disk;
	// negative if the kernel does not report it.
	Waited, Stalled time.Duration
}

// An Outcome is how a run of a task has ended.
type Outcome struct {
	Started, Ended time.Time
	Finished       bool   // it has succeeded
	Killed         bool   // and has not failed by itself
	Late           bool   // it took longer than its time limit
	Exit           *int   // its exit code, 128 and the number of a signal that ended it; nil if it has none
	Reason         string // why it has not finished
}

// A RunState says whether a task still runs.
type RunState uint8

// The states of a run.
const (
	UnknownRun RunState = iota
	Running
	Stopped // killed, failed or lost: to be run again
)

var runStates = []string{"unknown", "running", "stopped"}

func (s RunState) String() string { return nameOf(runStates, int(s)) }

// MarshalText writes the state by name.
func (s RunState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state by name.
func (s *RunState) UnmarshalText(text []byte) error {
	i, err := numberOf(runStates, text, "state of a run")
	*s = RunState(i)
	return err
}
