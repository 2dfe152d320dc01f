package cluster

import (
	"errors"
	"fmt"
	"time"
)

// An EventKind says what happened.
type EventKind uint8

// The events. The comment lists the fields of Event that are set.
const (
	UnknownEvent     EventKind = iota
	ServerJoined               // Server
	ServerLeft                 // On
	UseReported                // Use, of any number of servers
	ClassesPublished           // Classes
	JobSubmitted               // Job
	JobCancelled               // ID
	TaskStarted                // Task, On, Request
	TaskFinished               // Task, On
	TaskFailed                 // Task, On, Reason
	TaskKilled                 // Task, On, Reason
	Resumed                    // Past: what happened before gleaner last stopped
	TaskNotStarted             // Task, On, Reason: the server lacks what a process needs
	DataServerJoined           // On, DataServer. Its disks follow
	DataServerLeft             // On, Reason. Its disks leave with it
	DiskJoined                 // On, Disk
	DiskLeft                   // On, Disk, Reason
	DataReported               // Data, of any number of data servers
	ServerReimaged             // On, Reason: all data on its disks is lost
	JobPaused                  // ID: none of its tasks is started; those that run go on
	JobContinued               // ID: that is over
	ServerDrained              // On: no task is started there; those that run go on
	ServerOpened               // On: that is over
)

var eventNames = []string{"unknown", "server joined", "server left", "use reported", "classes published", "job submitted",
	"job cancelled", "task started", "task finished", "task failed", "task killed", "resumed", "task not started",
	"data server joined", "data server left", "disk joined", "disk left", "data reported", "server reimaged",
	"job paused", "job continued", "server drained", "server opened"}

func (k EventKind) String() string { return nameOf(eventNames, int(k)) }

// MarshalText writes the kind by name.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a kind by name.
func (k *EventKind) UnmarshalText(text []byte) error {
	i, err := numberOf(eventNames, text, "event")
	*k = EventKind(i)
	return err
}

// An Event is something that happened in a world, as plain data. The list of all
// events can be recorded and played again.
type Event struct {
	At      time.Time `json:"at"`
	Kind    EventKind `json:"event"`
	Server  *Server   `json:"server,omitempty"`
	On      ServerID  `json:"on,omitempty"`
	Use     []Use     `json:"use,omitempty"`
	Classes []Class   `json:"classes,omitempty"`
	Job     *Job      `json:"job,omitempty"`
	ID      JobID     `json:"id,omitempty"`
	Task    TaskID    `json:"task,omitzero"`
	Request Resources `json:"request,omitzero"`
	Reason  string    `json:"reason,omitempty"`
	Past    []PastJob `json:"past,omitempty"`

	DataServer *DataServer `json:"data_server,omitempty"`
	Disk       *Disk       `json:"disk,omitempty"`
	Data       []DataUse   `json:"data,omitempty"`
}

// Check reports what is wrong with an event that was read.
func (ev *Event) Check() error {
	switch {
	case ev.Kind == ServerJoined && ev.Server == nil:
		return errors.New("the event lacks its server")
	case ev.Kind == ServerJoined && (ev.Server.CPU < 0 || ev.Server.Memory < 0):
		return errors.New("a server's size is below zero")
	case ev.Kind == JobSubmitted && ev.Job == nil:
		return errors.New("the event lacks its job")
	case ev.Task.Index < 0 || ev.Task.Attempt < 0:
		return errors.New("a task is numbered below zero")
	case ev.Kind == DataServerJoined && ev.DataServer == nil:
		return errors.New("the event lacks its data server")
	case ev.Kind == DiskJoined || ev.Kind == DiskLeft:
		return checkDisk(ev.Disk)
	case ev.Kind == DataReported:
		return checkData(ev.Data)
	}
	for _, p := range ev.Past {
		if p.Job == nil {
			return errors.New("a job of the past is missing")
		}
		for _, s := range p.Stages {
			if !s.Finished.ordered() {
				return fmt.Errorf("the finished tasks of %s/%s are not in order", p.Job.ID, s.Name)
			}
		}
	}
	return nil
}

// A Use is what the primary tenant of a server uses now, as measured.
type Use struct {
	On      ServerID  `json:"on"`
	Primary Resources `json:"primary"`
}

// An ActionKind says what is to be done.
type ActionKind uint8

// The actions. The comment lists the fields of Action that are set.
const (
	UnknownAction ActionKind = iota
	StartTask                // Task, On, Request
	KillTask                 // Task, On, Reason, and Gently
	FinishJob                // ID, Account, and Reason when it failed or was Cancelled
	DelayTask                // Task: its next run; Pause; Reason: why the last run failed. There is nothing to carry out
	GiveUpTask               // Task: its last run; Reason: why that failed. It is not run again, and its job goes on. There is nothing to carry out
)

var actionNames = []string{"unknown", "start task", "kill task", "finish job", "delay task", "give up task"}

func (k ActionKind) String() string { return nameOf(actionNames, int(k)) }

// MarshalText writes the kind by name.
func (k ActionKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a kind by name.
func (k *ActionKind) UnmarshalText(text []byte) error {
	i, err := numberOf(actionNames, text, "action")
	*k = ActionKind(i)
	return err
}

// An Action is a decision, as plain data; a world carries it out and reports
// the outcome as an event.
type Action struct {
	Kind    ActionKind `json:"action"`
	Task    TaskID     `json:"task,omitzero"`
	On      ServerID   `json:"on,omitempty"`
	Request Resources  `json:"request,omitzero"`
	ID      JobID      `json:"id,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	// Cancelled says that the user cancelled the job.
	Cancelled bool    `json:"cancelled,omitempty"`
	Account   Account `json:"account,omitzero"`
	// Gently says that nobody needs what the task holds at once: it may have all of
	// its grace time to end.
	Gently bool `json:"gently,omitempty"`
	// Pause is how long a task waits before it may start, in nanoseconds.
	Pause time.Duration `json:"pause,omitempty"`
}

// Equal reports whether two actions decide the same. Accounts are reports, not
// decisions: their times need the monotonic clock, which a recording lacks. Older
// recordings do not have Gently.
func (a Action) Equal(b Action) bool {
	a.Account, a.Gently = b.Account, b.Gently
	return a == b
}

// String writes the action as one line, as "kill job-7/map-3 on s1: reserve short by 2 cores".
func (a Action) String() string {
	var s string
	switch a.Kind {
	case StartTask:
		s = fmt.Sprintf("start %s on %s", a.Task, a.On)
	case KillTask:
		s = fmt.Sprintf("kill %s on %s", a.Task, a.On)
	case FinishJob:
		s = fmt.Sprintf("finish %s", a.ID)
	case DelayTask:
		s = fmt.Sprintf("delay %s by %s", a.Task, a.Pause)
	case GiveUpTask:
		s = fmt.Sprintf("give up %s", a.Task)
	default:
		s = a.Kind.String()
	}
	if a.Reason != "" {
		s += ": " + a.Reason
	}
	return s
}

func nameOf(names []string, i int) string {
	if i >= len(names) {
		i = 0
	}
	return names[i]
}

func numberOf(names []string, text []byte, what string) (int, error) {
	for i, name := range names {
		if i > 0 && name == string(text) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("cluster: unknown %s %q", what, text)
}
