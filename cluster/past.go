package cluster

import "time"

// A PastJob is a job that was submitted before a world was last left, with
// what became of it. Together they are all that a core must be told to go on
// where its predecessor stopped.
type PastJob struct {
	Job       *Job      `json:"job"`
	Submitted time.Time `json:"submitted"`
	Account
	Ended     time.Time `json:"ended,omitzero"`      // zero when it has not
	Reason    string    `json:"reason,omitempty"`    // why it ended, when it did not run to its end
	Cancelled bool      `json:"cancelled,omitempty"` // its user wanted it to end
	// Stages has what became of those that were ever begun.
	Stages []PastStage `json:"stages,omitempty"`
	// Runs has, for a job that has not ended, the last run of every task that
	// was ever started and has not finished.
	Runs []Run `json:"runs,omitempty"`
}

// An Account is what a job has come to. The core keeps it, and a world that
// outlives the core writes down what the core says when the job ends.
type Account struct {
	Started time.Time `json:"started,omitzero"` // its first task; zero when none has
	Work    float64   `json:"work,omitempty"`   // of its finished tasks, in core-seconds
	Kills   int       `json:"kills,omitempty"`
}

// Finished gives the tasks of a stage that have finished.
func (p *PastJob) Finished(stage string) Indices {
	for _, s := range p.Stages {
		if s.Name == stage {
			return s.Finished
		}
	}
	return nil
}

// A PastStage is what became of the tasks of a stage, all together.
type PastStage struct {
	Name     string  `json:"name"`
	Finished Indices `json:"finished,omitempty"`
	Failures int     `json:"failures,omitempty"` // of its tasks, also of those that finished
}

// A Run is what became of one run of a task that has not finished.
type Run struct {
	Task     TaskID    `json:"task"`
	On       ServerID  `json:"on"`
	State    RunState  `json:"state"`
	Since    time.Time `json:"since"`
	Failures int       `json:"failures,omitempty"` // of this task, in all its runs
	Reason   string    `json:"reason,omitempty"`   // of the last failure
}

// A Spent tells what a run of a task that has ended did with its time.
type Spent struct {
	Start time.Time
	Took  time.Duration
	CPU   time.Duration // on cores
	// Waited and Stalled are how long it was held up for a core and for the
	// disk; negative where the kernel does not tell.
	Waited, Stalled time.Duration
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
