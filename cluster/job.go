package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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
	// After has the jobs that must have finished before this one starts. If one of
	// them ends otherwise, this one fails.
	After []JobID `json:"after,omitempty"`
	// Time is how long it may take from the start of its first task, in nanoseconds.
	// 0: any time.
	Time time.Duration `json:"time,omitempty"`
	// Priority orders the jobs that wait: higher ones first, by default 0.
	Priority int `json:"priority,omitempty"`
	// User submitted it. The zero User is the one whom gleaner runs as.
	User User `json:"user,omitzero"`
}

// A User is a user of the machine on which a job was submitted.
type User struct {
	Name string `json:"name"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
}

// MaxPriority is the highest priority of a job; the lowest is its negative.
const MaxPriority = 100

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
	// Each has an item for each task, or Array numbers them. At most one is set.
	Each  []string `json:"each,omitempty"`
	Array Array    `json:"array,omitzero"`
	// Processes is how many processes and threads one task may have at once, and
	// Output how much is kept of each of its streams. 0 leaves it to the world.
	Processes int   `json:"processes,omitempty"`
	Output    Bytes `json:"output,omitempty"`
	// Time is how long one run of a task may take, 0 any time, and Grace how long a
	// task that is told to end may take to do so, 0 DefaultGrace. In nanoseconds.
	Time  time.Duration `json:"time,omitempty"`
	Grace time.Duration `json:"grace,omitempty"`
	// Failures is how often one task may fail by itself before its job fails:
	// one more than its retries. 0 means DefaultFailures.
	Failures int `json:"failures,omitempty"`
	// KeepGoing says that the other tasks run on when one has failed too often. The
	// job then fails when they have ended.
	KeepGoing bool `json:"keep_going,omitempty"`
	// Loading is the share of each hardware resource that one task keeps busy
	// (its loading vector, PEVA'16 §3). Nil if not known.
	Loading []float64 `json:"loading,omitempty"`
}

// An Array numbers the tasks of a stage. The zero Array numbers none.
type Array struct {
	First int `json:"first"`
	Step  int `json:"step"`
}

// Item is what a task of the stage works on; false if its tasks have no items.
func (s *Stage) Item(index int32) (string, bool) {
	switch {
	case int(index) < len(s.Each):
		return s.Each[index], true
	case s.Array != Array{}:
		return strconv.Itoa(s.Array.First + int(index)*s.Array.Step), true
	}
	return "", false
}

// CommandOf is the command of a task: its item stands wherever the command of the
// stage has {}. If that is longer than Linux takes, it is ErrLongCommand.
func (s *Stage) CommandOf(index int32) ([]string, error) {
	item, has := s.Item(index)
	if err := s.checkLength(item, has); err != nil {
		return nil, err
	}
	if !has {
		return s.Command, nil
	}
	command := slices.Clone(s.Command)
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "{}", item)
	}
	return command, nil
}

// How long one argument of a command and all together may be, with a zero byte after
// each: more is refused by Linux (MAX_ARG_STRLEN, and a quarter of the usual stack).
const (
	maxArgument  = 128 << 10
	maxArguments = 2 << 20
)

// ErrLongCommand is the error of a command that Linux would refuse.
var ErrLongCommand = errors.New("argument list too long")

// CheckCommand returns ErrLongCommand if the command of the task with the longest
// item is too long.
func (s *Stage) CheckCommand() error {
	item, has := s.Item(int32(s.Tasks - 1)) // the highest number of an array
	for _, other := range s.Each {
		if len(other) > len(item) {
			item = other
		}
	}
	return s.checkLength(item, has)
}

// checkLength computes the length of a command without expanding it: a job file of
// 1 MiB can ask for 100 GiB.
func (s *Stage) checkLength(item string, has bool) error {
	all := 0
	for i, argument := range s.Command {
		length := len(argument) + 1
		if has {
			length += strings.Count(argument, "{}") * (len(item) - len("{}"))
		}
		if length > maxArgument {
			return fmt.Errorf("%w: argument %d has %d bytes, more than %d", ErrLongCommand, i, length-1, maxArgument-1)
		}
		all += length
	}
	if all > maxArguments {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrLongCommand, all, maxArguments)
	}
	return nil
}

// DefaultFailures is how often a task may fail if its stage sets no limit: a task
// that also fails three retries is itself at fault, not the machine.
const DefaultFailures = 4

// MaxFailures is how often one task of the stage may fail.
func (s *Stage) MaxFailures() int { return cmp.Or(s.Failures, DefaultFailures) }

// DefaultGrace is how long a task may take to end if its stage does not say: enough
// to write a checkpoint to a disk that others use too.
const DefaultGrace = 10 * time.Second

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
	ErrLater        = errors.New("comes after itself, or after a later job")
	ErrCycle        = errors.New("comes after itself")
	ErrTooLarge     = errors.New("asks for more than any server has")
)

// Errors of cancelling and removing a job.
var (
	ErrNoJob  = errors.New("no such job")
	ErrEnded  = errors.New("the job has ended")
	ErrGoesOn = errors.New("the job, or one of its tasks, has not ended")
)

// ErrOtherUser is the error of a job whose user is another one than gleaner runs as,
// and whom it cannot run tasks as.
var ErrOtherUser = errors.New("only jobs of its own user are run by this gleaner")

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
	if slices.ContainsFunc(j.After, func(id JobID) bool { return id >= j.ID }) {
		return wrong("", ErrLater, "")
	}
	tasks, at := 0, j.stages()
	for i, s := range j.Stages {
		if at[s.Name] < i {
			return wrong(s.Name, ErrSameName, "")
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
			if _, known := at[name]; !known {
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

// stages are the numbers of the stages by their names, the first of each.
func (j *Job) stages() map[string]int {
	at := make(map[string]int, len(j.Stages))
	for i, s := range j.Stages {
		if _, known := at[s.Name]; !known {
			at[s.Name] = i
		}
	}
	return at
}

// Waves walks the graph breadth first and returns the wave in which each stage
// may run: 0 for stages that come after no other, else one more than the highest
// wave of those it comes after. Stages on a cycle get -1.
func (j *Job) Waves() []int {
	at := j.stages()
	waves, before := make([]int, len(j.Stages)), make([][]int, len(j.Stages))
	for i, s := range j.Stages {
		waves[i] = -1
		for _, name := range s.After {
			before[i] = append(before[i], at[name])
		}
	}
	for range j.Stages {
		moved := false
		for i := range waves {
			if waves[i] >= 0 {
				continue
			}
			if wave, ok := waveAfter(before[i], waves); ok {
				waves[i], moved = wave, true
			}
		}
		if !moved {
			break
		}
	}
	return waves
}

// waveAfter is the wave of a stage that comes after others; false if one of them has none yet.
func waveAfter(before, waves []int) (wave int, ok bool) {
	for _, i := range before {
		if waves[i] < 0 {
			return 0, false
		}
		wave = max(wave, waves[i]+1)
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
