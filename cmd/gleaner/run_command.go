package main

import (
	"cmp"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/jobfile"
	"gleaner/input"
)

// taskFlags are the flags of 'gleaner run' that say how a command is run.
type taskFlags struct {
	name, cpu, memory string
	array, each       string
	retries           int
	keepGoing         bool
	time, grace       time.Duration
}

var taskFlagNames = []string{"name", "cpu", "memory", "array", "each", "retries", "keep-going", "time", "grace"}

func (f *taskFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "name", "", "name of the command's job (default the program's)")
	cmd.Flags().StringVar(&f.cpu, "cpu", "1", "cores for each task of the command")
	cmd.Flags().StringVar(&f.memory, "memory", "512MiB", "memory for each task of the command")
	cmd.Flags().StringVar(&f.array, "array", "", "run the command for each of these numbers, as 1-100 or 0-90:10")
	cmd.Flags().StringVar(&f.each, "each", "", "run the command for each line of this file; - for standard input. Empty lines are left out")
	cmd.Flags().BoolVar(&f.keepGoing, "keep-going", true, "with --array and --each: when a task has failed, run the others all the same; the job then fails at its end")
	cmd.Flags().DurationVar(&f.time, "time", 0, "how long each task of the command may take; 0: any time")
	cmd.Flags().DurationVar(&f.grace, "grace", cluster.DefaultGrace, "how long it may take to end after SIGTERM")
	cmd.Flags().IntVar(&f.retries, "retries", 0, "how often a task of the command that fails is run again")
}

// ofCommand is a job file for a command.
func (f *taskFlags) ofCommand(cmd *cobra.Command, command []string) (string, error) {
	name := cmp.Or(f.name, nameOf(command[0]))
	if err := jobfile.CheckName(name); err != nil {
		return "", input.Errorf("--name", "%v", err)
	}
	st := cluster.Stage{Name: name, Tasks: 1, Command: command, Failures: f.retries + 1, Time: f.time, Grace: f.grace}
	switch {
	case f.retries < 0 || f.retries > jobfile.MaxRetries:
		return "", input.Errorf("--retries", "%d is not between 0 and %d", f.retries, jobfile.MaxRetries)
	case f.time < 0 || f.time > jobfile.MaxTime:
		return "", input.Errorf("--time", "%s is not between 0 and %s", f.time, jobfile.MaxTime)
	case f.grace < time.Millisecond || f.grace > jobfile.MaxGrace:
		return "", input.Errorf("--grace", "%s is not between 1ms and %s", f.grace, jobfile.MaxGrace)
	}
	st.KeepGoing = f.keepGoing && (f.array != "" || f.each != "")
	var err error
	if st.Request.CPU, err = jobfile.ParseCores(f.cpu); err != nil {
		return "", input.Errorf("--cpu", "%q: %v", f.cpu, err)
	}
	if st.Request.Memory, err = jobfile.ParseSize(f.memory); err != nil {
		return "", input.Errorf("--memory", "%q: %v", f.memory, err)
	}
	if st.Request.Memory < jobfile.MinMemory {
		return "", input.Errorf("--memory", "%q: a task needs at least 4MiB, or not even a shell starts", f.memory)
	}
	if err := f.items(cmd, &st); err != nil {
		return "", err
	}
	if err := st.CheckCommand(); err != nil {
		return "", input.Errorf(f.itemFlag(), "%v", err)
	}
	text, err := jobfile.Write(&cluster.Job{Name: name, Stages: []cluster.Stage{st}})
	if errors.Is(err, jobfile.ErrNotText) {
		err = input.Errorf("", "%v", err)
	}
	if err == nil && len(text) > jobfile.MaxBytes {
		err = input.Errorf(f.itemFlag(), "%s make a job file of %d bytes, which may have %d: submit them in parts, as split -l makes them", counted(st.Tasks, "task"), len(text), jobfile.MaxBytes)
	}
	return string(text), err
}

// itemFlag is the flag that gives the tasks their items; "" if they have none.
func (f *taskFlags) itemFlag() string {
	switch {
	case f.array != "":
		return "--array"
	case f.each != "":
		return "--each"
	}
	return ""
}

// items gives a stage the tasks that --array or --each asks for.
func (f *taskFlags) items(cmd *cobra.Command, st *cluster.Stage) (err error) {
	switch {
	case f.array != "" && f.each != "":
		return input.Errorf("--array", "goes without --each")
	case f.array != "":
		if st.Array, st.Tasks, err = jobfile.ParseArray(f.array); err != nil {
			return input.Errorf("--array", "%q: %v", f.array, err)
		}
	case f.each != "":
		if st.Each, err = f.lines(cmd); err == nil && len(st.Each) == 0 {
			err = input.Errorf("--each", "%s has no lines", f.each)
		}
		st.Tasks = len(st.Each)
	}
	return err
}

// lines are the lines of --each that are not empty.
func (f *taskFlags) lines(cmd *cobra.Command) ([]string, error) {
	text, err := readOrStop(cmd, f.each)
	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			all = append(all, line)
		}
	}
	return all, err
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// nameOf is a name for the job of a program.
func nameOf(program string) string {
	name := strings.TrimLeft(notInNames.ReplaceAllString(filepath.Base(program), "-"), ".-")
	if name = name[:min(len(name), 64)]; jobfile.CheckName(name) != nil {
		return "command"
	}
	return name
}
