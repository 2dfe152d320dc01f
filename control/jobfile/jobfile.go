// Package jobfile reads job files: YAML that describes a batch job as a graph
// of stages (docs/formats/job.md). It is strict: anything unknown is a mistake,
// reported with its line.
package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gleaner/cluster"
	"gleaner/input"
	"gleaner/input/mapping"
)

// Limits of a job file, in addition to cluster.MaxTasks. They are far above what
// one machine or cluster runs.
const (
	MaxBytes   = 1 << 20
	maxStages  = 1000
	maxCores   = 1_000_000
	MaxRetries = 1000
	maxProcs   = 4_194_304 // the highest process ID of Linux
	MaxTime    = 10_000 * time.Hour
	MaxGrace   = 10 * time.Minute
)

// MinMemory is the least a task may ask for. A shell with a pipeline of two
// needs 1 MiB in a control group of its own (the kernel's process tables and
// stacks count too); a process with less than 8 KiB cannot even be killed. Four
// times the 1 MiB leaves room for larger pages and shells.
const MinMemory = 4 << 20

// names are the allowed names of jobs and stages: they become parts of file names.
var names = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// numbers are how jobs are called by their number.
var numbers = regexp.MustCompile(`^(job-)?[0-9]+$`)

// CheckName finds what is wrong with the name of a job.
func CheckName(text string) error {
	switch {
	case !names.MatchString(text):
		return fmt.Errorf("%q is not a name: letters, digits, '.', '-' and '_', at most 64", text)
	case numbers.MatchString(text):
		return fmt.Errorf("%q is what the job of that number is called: a name needs a letter", text)
	}
	return nil
}

// Read reads a job file; name is what it is called in errors. When sizes of
// servers are given, each task must fit on one of them.
func Read(name string, r io.Reader, sizes ...cluster.Resources) (*cluster.Job, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("jobfile: read %s: %w", name, err)
	}
	if len(text) > MaxBytes {
		return nil, input.Errorf(name, "larger than a job file may be: %d bytes", MaxBytes)
	}
	doc, err := mapping.Document(name, text)
	if err != nil {
		return nil, err
	}
	if doc == nil {
		return nil, input.Errorf(name, "an empty file")
	}
	f := file{File: mapping.File(name), lines: map[string]int{}}
	job, err := f.job(doc)
	if err != nil {
		return nil, err
	}
	var wrong *cluster.JobError
	if err := job.Validate(sizes...); errors.As(err, &wrong) {
		return nil, &input.Error{Where: name, Line: f.lines[wrong.Stage], Msg: wrong.Error(), Err: wrong}
	} else if err != nil {
		return nil, err
	}
	return job, nil
}

// A file is a job file that is being read.
type file struct {
	mapping.File
	lines map[string]int // of each stage
	tasks int            // of the stages so far
}

func (f *file) job(n *yaml.Node) (*cluster.Job, error) {
	job := &cluster.Job{}
	f.lines[""] = n.Line
	err := f.Fields(n, "the job", []string{"name", "stages"}, func(field string, value *yaml.Node) (_ bool, err error) {
		switch field {
		case "name":
			if job.Name, err = f.called(value); err == nil && CheckName(job.Name) != nil {
				err = f.Wrong(value, "%v", CheckName(job.Name))
			}
		case "time":
			job.Time, err = f.time(value, field, MaxTime)
		case "priority":
			job.Priority, err = f.priority(value)
		case "stages":
			f.lines[""] = value.Line
			job.Stages, err = f.stages(value)
		default:
			return false, nil
		}
		return true, err
	})
	return job, err
}

func (f *file) stages(n *yaml.Node) ([]cluster.Stage, error) {
	items, err := f.List(n, "stages")
	if err != nil {
		return nil, err
	}
	if len(items) > maxStages {
		return nil, f.Wrong(n, "%d stages are more than %d", len(items), maxStages)
	}
	var all []cluster.Stage
	for _, item := range items {
		st, err := f.stage(item)
		if err != nil {
			return nil, err
		}
		if f.lines[st.Name] != 0 {
			return nil, f.Wrong(item, "stage %q has the same name as the one on line %d", st.Name, f.lines[st.Name])
		}
		f.lines[st.Name] = item.Line
		all = append(all, st)
	}
	return all, nil
}

func (f *file) stage(n *yaml.Node) (cluster.Stage, error) {
	st := cluster.Stage{Tasks: 1}
	var command *yaml.Node
	counted := "" // the field that says how many tasks there are
	count := func(value *yaml.Node, field string, tasks int) error {
		if counted != "" {
			return f.Wrong(value, "%s and %s both say how many tasks there are", counted, field)
		}
		counted, st.Tasks = field, tasks
		if f.tasks += tasks; f.tasks > cluster.MaxTasks {
			return f.Wrong(value, "%s: with these %d the job has %d, more than %d", field, tasks, f.tasks, cluster.MaxTasks)
		}
		return nil
	}
	err := f.Fields(n, "the stage", []string{"name", "cpu", "memory", "command"}, func(field string, value *yaml.Node) (_ bool, err error) {
		switch field {
		case "name":
			st.Name, err = f.called(value)
		case "tasks":
			var tasks int
			if tasks, err = f.Count(value, field, 1, cluster.MaxTasks); err == nil {
				err = count(value, field, tasks)
			}
		case "each":
			if st.Each, err = f.Texts(value, field); err == nil && len(st.Each) == 0 {
				err = f.Wrong(value, "each has no items")
			} else if err == nil {
				err = count(value, field, len(st.Each))
			}
		case "array":
			var tasks int
			if st.Array, tasks, err = f.array(value); err == nil {
				err = count(value, field, tasks)
			}
		case "cpu":
			st.Request.CPU, err = f.cores(value)
		case "memory":
			if st.Request.Memory, err = f.size(value, "memory"); err == nil && st.Request.Memory < MinMemory {
				err = f.Wrong(value, "memory is %q: a task needs at least 4MiB, or not even a shell starts", value.Value)
			}
		case "processes":
			st.Processes, err = f.Count(value, "processes", 2, maxProcs)
		case "output":
			st.Output, err = f.size(value, "output")
		case "time":
			st.Time, err = f.time(value, field, MaxTime)
		case "grace":
			st.Grace, err = f.time(value, field, MaxGrace)
		case "command":
			command = value
			st.Command, err = f.Texts(value, "command")
			if err == nil && (len(st.Command) == 0 || st.Command[0] == "") {
				err = f.Wrong(value, "the command is empty")
			}
		case "after":
			st.After, err = f.Texts(value, "after")
		case "env":
			st.Env, err = f.env(value)
		case "dir":
			st.Dir, err = f.Text(value, "dir")
		case "retries":
			st.Failures, err = f.Count(value, "retries", 0, MaxRetries)
			st.Failures++
		case "keep_going":
			if value.Value != "true" && value.Value != "false" || value.Kind != yaml.ScalarNode {
				err = f.Wrong(value, "keep_going is %q, neither true nor false", value.Value)
			}
			st.KeepGoing = value.Value == "true"
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return st, err
	}
	if err := st.CheckCommand(); err != nil {
		return st, f.Wrong(command, "command: %v", err)
	}
	return st, nil
}

func (f *file) called(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || !names.MatchString(n.Value) {
		return "", f.Wrong(n, "%q is not a name: letters, digits, '.', '-' and '_', at most 64", n.Value)
	}
	return n.Value, nil
}

func (f *file) env(n *yaml.Node) ([]string, error) {
	var all []string
	err := f.Fields(n, "env", nil, func(name string, value *yaml.Node) (bool, error) {
		text, err := f.Text(value, "the value of "+name)
		if err == nil && (name == "" || strings.ContainsAny(name, "=\x00")) {
			err = f.Wrong(value, "%q cannot be the name of a variable", name)
		}
		all = append(all, name+"="+text)
		return true, err
	})
	return all, err
}

func (f *file) priority(n *yaml.Node) (int, error) {
	priority, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || priority < -cluster.MaxPriority || priority > cluster.MaxPriority {
		return 0, f.Wrong(n, "priority is %q, not a whole number between %d and %d", n.Value, -cluster.MaxPriority, cluster.MaxPriority)
	}
	return priority, nil
}

func (f *file) cores(n *yaml.Node) (cluster.MilliCPU, error) {
	cores, err := ParseCores(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return 0, f.Wrong(n, "cpu is %q: %v", n.Value, err)
	}
	return cores, nil
}

func (f *file) array(n *yaml.Node) (cluster.Array, int, error) {
	array, tasks, err := ParseArray(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return array, 0, f.Wrong(n, "array is %q: %v", n.Value, err)
	}
	return array, tasks, nil
}

func (f *file) size(n *yaml.Node, field string) (cluster.Bytes, error) {
	size, err := ParseSize(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || size == 0 {
		if err == nil {
			err = errors.New("must be more than 0")
		}
		return 0, f.Wrong(n, "%s is %q: %v", field, n.Value, err)
	}
	return size, nil
}

func (f *file) time(n *yaml.Node, field string, most time.Duration) (time.Duration, error) {
	d, err := input.ParseLength(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil:
		return 0, f.Wrong(n, "%s is %q: must be a length of time, as 90s, 1h30m or 2d", field, n.Value)
	case d < time.Millisecond || d > most:
		return 0, f.Wrong(n, "%s is %s, not between 1ms and %s", field, d, most)
	}
	return d, nil
}

// ParseCores reads a number of cores, as "2" or "0.25". A thousandth of a core
// is the smallest amount.
func ParseCores(text string) (cluster.MilliCPU, error) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(v):
		return 0, errors.New("must be a number of cores")
	case v <= 0:
		return 0, errors.New("must be more than 0")
	case v > maxCores:
		return 0, fmt.Errorf("more than %d", maxCores)
	}
	return max(1, cluster.MilliCPU(math.Round(v*float64(cluster.Core)))), nil
}

// arrays are ranges of numbers, with a step.
var arrays = regexp.MustCompile(`^([0-9]{1,9})-([0-9]{1,9})(?::([0-9]{1,9}))?$`)

// ParseArray reads the numbers of tasks, as "1-100" or "0-90:10", and counts them.
func ParseArray(text string) (array cluster.Array, tasks int, err error) {
	m := arrays.FindStringSubmatch(text)
	if m == nil {
		return array, 0, errors.New("must be the first and the last number, as 1-100, or with a step, as 0-90:10")
	}
	if len(m[1]) > 1 && m[1][0] == '0' {
		return array, 0, errors.New("numbers are given to tasks without zeros before them; a command may add them, as printf %03d does")
	}
	first, _ := strconv.Atoi(m[1]) // nine digits at most
	last, _ := strconv.Atoi(m[2])
	step, _ := strconv.Atoi(cmp.Or(m[3], "1"))
	switch {
	case last < first:
		return array, 0, fmt.Errorf("%d is less than %d", last, first)
	case step == 0:
		return array, 0, errors.New("the step must be more than 0")
	}
	tasks = (last-first)/step + 1
	if tasks > cluster.MaxTasks {
		return array, 0, fmt.Errorf("%d tasks are more than %d", tasks, cluster.MaxTasks)
	}
	return cluster.Array{First: first, Step: step}, tasks, nil
}

// units are what a size may be given in.
var units = []struct {
	name string
	size float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseSize reads a size, as "16MiB", "2GB" or "1.5 GiB".
func ParseSize(text string) (cluster.Bytes, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		switch {
		case err != nil || math.IsNaN(v):
			return 0, errors.New("must be a size, as 16MiB or 2GB")
		case v < 0:
			return 0, errors.New("must not be negative")
		case v*u.size > math.MaxInt64/2:
			return 0, errors.New("too large")
		}
		return cluster.Bytes(v * u.size), nil
	}
	return 0, errors.New("must be a size with its unit, as 16MiB or 2GB")
}
