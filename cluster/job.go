package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A JobID numbers one submission of a job.
type JobID int64

func (id JobID) String() string { return fmt.Sprintf("job-%d", int64(id)) }

// A Job is a batch job: stages of equal tasks that form a directed acyclic
// graph. Its name is the same every time it is submitted, so that history has
// how long it took last time.
type Job struct {
	ID     JobID   `json:"id"`
	Name   string  `json:"name"`
	Stages []Stage `json:"stages"`
}

// A Stage is a number of equal tasks, which may start once all tasks of the
// stages it comes after have finished.
type Stage struct {
	Name    string    `json:"name"`
	Tasks   int       `json:"tasks"`
	Request Resources `json:"request"` // what each task is given
	After   []string  `json:"after,omitempty"`
	Command []string  `json:"command,omitempty"`
	Env     []string  `json:"env,omitempty"` // NAME=value
	Dir     string    `json:"dir,omitempty"` // to run in
	// Processes is how many processes and threads one task may have at once, and
	// Output how much is kept of each of its streams. 0 leaves it to the world.
	Processes int   `json:"processes,omitempty"`
	Output    Bytes `json:"output,omitempty"`
	// Failures is how often one task may fail by itself before its job fails:
	// one more than its retries. 0 means DefaultFailures.
	Failures int `json:"failures,omitempty"`
	// Loading is the share of each hardware resource that one task keeps busy
	// (its loading vector, PEVA'16 §3). Nil if not known.
	Loading []float64 `json:"loading,omitempty"`
}

// DefaultFailures is how often a task may fail if its stage sets no limit: a task
// that also fails three retries is itself at fault, not the machine.
const DefaultFailures = 4

// MaxFailures is how often one task of the stage may fail.
func (s *Stage) MaxFailures() int { return cmp.Or(s.Failures, DefaultFailures) }

// A TaskID names one run of one task.
type TaskID struct {
	Job     JobID  `json:"job"`
	Stage   string `json:"stage"`
	Index   int32  `json:"index"`             // from 0
	Attempt int32  `json:"attempt,omitempty"` // 0 for its first run
}

// String writes the task as "job-7/map-3", and its second run as "job-7/map-3#2".
func (t TaskID) String() string {
	s := fmt.Sprintf("%s/%s-%d", t.Job, t.Stage, t.Index)
	if t.Attempt > 0 {
		s += fmt.Sprintf("#%d", t.Attempt+1)
	}
	return s
}

// MaxTasks is how many tasks a job may have. The run of each is kept on disk, and
// one machine starts about a million a day.
const MaxTasks = 1_000_000

// What can be wrong with a job. Validate wraps each with the stage's name.
var (
	ErrNoStages     = errors.New("has no stages")
	ErrSameName     = errors.New("has the same name as another stage")
	ErrNoTasks      = errors.New("has no tasks")
	ErrTooManyTasks = errors.New("makes the job larger than a million tasks")
	ErrNoRequest    = errors.New("asks for no CPU, or for a negative amount")
	ErrUnknownStage = errors.New("comes after a stage that does not exist")
	ErrCycle        = errors.New("comes after itself")
	ErrTooLarge     = errors.New("asks for more than any server has")
)

// Errors of cancelling a job.
var (
	ErrNoJob = errors.New("no such job")
	ErrEnded = errors.New("the job has ended")
)

// A JobError is one mistake in a job: Err is one of the errors above.
type JobError struct {
	Job   string
	Stage string // empty if it is a mistake of the whole job
	Err   error
	More  string // details; may be empty
}

func (e *JobError) Error() string {
	s := fmt.Sprintf("job %q", e.Job)
	if e.Stage != "" {
		s += fmt.Sprintf(": stage %q", e.Stage)
	}
	s += " " + e.Err.Error()
	if e.More != "" {
		s += ": " + e.More
	}
	return s
}

func (e *JobError) Unwrap() error { return e.Err }

// Validate returns the first mistake in j as a *JobError. When sizes of
// servers are given, each task must fit on one of them.
func (j *Job) Validate(sizes ...Resources) error {
	wrong := func(stage string, err error, more string) error {
		return &JobError{Job: j.Name, Stage: stage, Err: err, More: more}
	}
	if len(j.Stages) == 0 {
		return wrong("", ErrNoStages, "")
	}
	tasks := 0
	for i, s := range j.Stages {
		for _, other := range j.Stages[:i] {
			if other.Name == s.Name {
				return wrong(s.Name, ErrSameName, "")
			}
		}
		if s.Tasks <= 0 {
			return wrong(s.Name, ErrNoTasks, "")
		}
		if tasks += min(s.Tasks, MaxTasks+1); tasks > MaxTasks {
			return wrong(s.Name, ErrTooManyTasks, "")
		}
		if s.Request.CPU <= 0 || s.Request.Memory < 0 {
			return wrong(s.Name, ErrNoRequest, "")
		}
		for _, name := range s.After {
			if j.stage(name) < 0 {
				return wrong(s.Name, ErrUnknownStage, name)
			}
		}
		if len(sizes) > 0 && !slices.ContainsFunc(sizes, s.Request.Fits) {
			return wrong(s.Name, ErrTooLarge, s.Request.String()+" a task")
		}
	}
	if waves := j.Waves(); slices.Contains(waves, -1) {
		return wrong(j.Stages[slices.Index(waves, -1)].Name, ErrCycle, "")
	}
	return nil
}

func (j *Job) stage(name string) int {
	return slices.IndexFunc(j.Stages, func(s Stage) bool { return s.Name == name })
}

// Waves walks the graph breadth first and returns the wave in which each stage
// may run: 0 for stages that come after no other, else one more than the highest
// wave of those it comes after. Stages on a cycle get -1.
func (j *Job) Waves() []int {
	waves := make([]int, len(j.Stages))
	for i := range waves {
		waves[i] = -1
	}
	for range j.Stages {
		moved := false
		for i, s := range j.Stages {
			if waves[i] >= 0 {
				continue
			}
			if wave, ok := j.wave(s, waves); ok {
				waves[i], moved = wave, true
			}
		}
		if !moved {
			break
		}
	}
	return waves
}

func (j *Job) wave(s Stage, waves []int) (int, bool) {
	wave := 0
	for _, name := range s.After {
		before := waves[j.stage(name)]
		if before < 0 {
			return 0, false
		}
		wave = max(wave, before+1)
	}
	return wave, true
}

// Width estimates the most resources the job holds at once: those of its
// widest wave (OSDI'16 §4.1, Algorithm 1 line 4).
func (j *Job) Width() Resources {
	var width Resources
	for _, sum := range j.waveSums() {
		width = width.Max(sum)
	}
	return width
}

func (j *Job) waveSums() []Resources {
	sums := make([]Resources, len(j.Stages))
	for i, wave := range j.Waves() {
		s := j.Stages[i]
		sums[wave] = sums[wave].Add(s.Request.Times(s.Tasks))
	}
	return sums
}
