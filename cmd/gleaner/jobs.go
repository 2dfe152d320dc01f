package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/control/board"
	"gleaner/input"
	"gleaner/web"
)

// jobsFlags say which jobs are listed, and in which order.
type jobsFlags struct {
	states []string
	name   string
	user   string
	sort   string
	last   int
}

func newJobs() *cobra.Command {
	var f jobsFlags
	cmd := &cobra.Command{
		Use:   "jobs [NAME]",
		Short: "List jobs, or show one in detail",
		Long: `Jobs lists the jobs of the gleaner that is up, the newest last. With a name or a
number it shows the progress of each stage of that job and its running tasks.`,
		Example: `  gleaner jobs
  gleaner jobs --state running,waiting --sort took
  gleaner jobs wordcount
  gleaner jobs job-7 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return input.Errorf("", "'%s' takes one job at most; see --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runJobs(cmd, args, f) },
	}
	addDataFlag(cmd)
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "only those in one of these states: "+stateNames)
	cmd.Flags().StringVar(&f.name, "name", "", "only those of this name; * stands for any letters")
	cmd.Flags().StringVar(&f.user, "user", "", "only those that this user has submitted, where tasks run as their users")
	cmd.Flags().StringVar(&f.sort, "sort", "submitted", "by submitted, name, state, tasks or took; the largest last")
	cmd.Flags().IntVar(&f.last, "last", 0, "only the last so many of the list; 0: all")
	return cmd
}

// stateNames are the states of jobs and tasks.
const stateNames = "blocked, waiting, running, finished, failed, cancelled"

// checkStates checks the values of --state.
func checkStates(states ...string) error {
	for _, state := range states {
		if state != "" && !slices.Contains(strings.Split(stateNames, ", "), state) {
			return input.Errorf("--state", "%q is none of %s", state, stateNames)
		}
	}
	return nil
}

// order compares jobs by what --sort names; nil if there is no such order.
func (f *jobsFlags) order() func(a, b board.Job) int {
	return map[string]func(a, b board.Job) int{
		"submitted": func(a, b board.Job) int { return cmp.Compare(a.ID, b.ID) },
		"name":      func(a, b board.Job) int { return cmp.Compare(a.Name, b.Name) },
		"state":     func(a, b board.Job) int { return cmp.Compare(a.State, b.State) },
		"tasks":     func(a, b board.Job) int { return cmp.Compare(sum(&a).Tasks, sum(&b).Tasks) },
		"took":      func(a, b board.Job) int { return cmp.Compare(ran(a), ran(b)) },
	}[f.sort]
}

// check finds mistakes in the flags.
func (f *jobsFlags) check() error {
	if err := checkStates(f.states...); err != nil {
		return err
	}
	if f.order() == nil {
		return input.Errorf("--sort", "%q is none of submitted, name, state, tasks and took", f.sort)
	}
	if _, err := path.Match(f.name, ""); err != nil {
		return input.Errorf("--name", "%q is not a pattern: %v", f.name, err)
	}
	if f.last < 0 {
		return input.Errorf("--last", "%d is less than 0", f.last)
	}
	return nil
}

// choose returns the jobs to be listed, in order.
func (f *jobsFlags) choose(all []board.Job) []board.Job {
	all = slices.DeleteFunc(all, func(j board.Job) bool {
		named, _ := path.Match(f.name, j.Name)
		return f.name != "" && !named || f.user != "" && j.User != f.user || len(f.states) > 0 && !slices.Contains(f.states, string(j.State))
	})
	slices.SortStableFunc(all, f.order())
	if f.last > 0 {
		all = all[max(len(all)-f.last, 0):]
	}
	return all
}

func runJobs(cmd *cobra.Command, args []string, f jobsFlags) error {
	if flag, yes := given(cmd, "state", "name", "user", "sort", "last"); yes && len(args) > 0 {
		return input.Errorf(flag, "goes with a list of jobs, not with one job")
	}
	if err := f.check(); err != nil {
		return err
	}
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		j, err := c.job(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if wantJSON(cmd) {
			return printJSON(cmd, j)
		}
		return printJob(cmd.OutOrStdout(), j, c.waitsFor(cmd.Context(), &j))
	}
	var all []board.Job
	if err := c.ask(cmd.Context(), http.MethodGet, "jobs", nil, &all); err != nil {
		return err
	}
	there := len(all)
	all = f.choose(all)
	switch {
	case wantJSON(cmd):
		return printJSON(cmd, all)
	case len(all) == 0 && there > 0:
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "none of %s is such a job\n", counted(there, "job"))
		return err
	}
	var s web.Status
	if slices.ContainsFunc(all, func(j board.Job) bool { return j.Waits() }) {
		if err := c.ask(cmd.Context(), http.MethodGet, "status", nil, &s); err != nil {
			return err
		}
	}
	return printJobs(cmd.OutOrStdout(), all, s)
}

// printJobs prints jobs; by s waiting ones say what they wait for.
func printJobs(out io.Writer, all []board.Job, s web.Status) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no jobs; see 'gleaner run --help'")
		return err
	}
	head := []string{"job", "name", "state", ">tasks", ">running", ">waiting", ">finished", ">killed", "submitted", ">took", "why"}
	users := slices.ContainsFunc(all, func(j board.Job) bool { return j.User != "" })
	if users {
		head = slices.Insert(head, 2, "user")
	}
	t := newTable(head...)
	for _, j := range all {
		n := sum(&j)
		row := []string{j.ID.String(), j.Name, string(j.State), strconv.Itoa(n.Tasks), strconv.Itoa(n.Running), strconv.Itoa(n.Waiting), strconv.Itoa(n.Finished), strconv.Itoa(j.Kills),
			j.Submitted.Local().Format(time.DateTime), took(j), s.Why(&j, time.Local)}
		if users {
			row = slices.Insert(row, 2, cmp.Or(j.User, "-"))
		}
		t.row(row...)
	}
	return t.print(out)
}

// sum adds up the tasks of a job's stages.
func sum(j *board.Job) (all board.Stage) {
	for _, s := range j.Stages {
		all.Tasks, all.Running, all.Waiting, all.Finished = all.Tasks+s.Tasks, all.Running+s.Running, all.Waiting+s.Waiting, all.Finished+s.Finished
	}
	return all
}

// printJob prints one job; why is what it waits for, if it does.
func printJob(out io.Writer, j board.Job, why string) error {
	fmt.Fprintf(out, "%s (%s): %s", j.ID, j.Name, j.State)
	if why = cmp.Or(j.Reason, why); why != "" && why != string(j.State) {
		fmt.Fprintf(out, ": %s", why)
	}
	if j.Paused && j.State == board.Running {
		fmt.Fprint(out, ", paused: no more tasks are started")
	}
	ran := "took " + took(j)
	if j.Started.IsZero() {
		ran = "has not started"
	}
	by := ""
	if j.User != "" {
		by = " by " + j.User
	}
	fmt.Fprintf(out, "\nsubmitted %s%s, %s, %s killed\n\n", j.Submitted.Local().Format(time.DateTime), by, ran, counted(j.Kills, "task"))
	t := newTable("stage", "state", ">tasks", ">running", ">waiting", ">finished", ">failed runs", ">cores", ">memory")
	for _, s := range j.Stages {
		t.row(s.Name, string(s.State), strconv.Itoa(s.Tasks), strconv.Itoa(s.Running), strconv.Itoa(s.Waiting), strconv.Itoa(s.Finished), strconv.Itoa(s.Failures), cores(s.Request), s.Request.Memory.Text())
	}
	if err := t.print(out); err != nil {
		return err
	}
	return errors.Join(printRunning(out, j.Running), printDelayed(out, j.Delayed))
}

func printRunning(out io.Writer, running []board.RunningTask) error {
	if len(running) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	t := newTable("running", ">for", ">slowed down")
	for _, r := range slices.Backward(running) {
		t.row(r.Name, time.Since(r.Since).Round(100*time.Millisecond).String(), slowedDown(r.Dilation))
	}
	return t.print(out)
}

func printDelayed(out io.Writer, delayed []board.Delay) error {
	if len(delayed) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	t := newTable("run again", ">in", "after")
	for _, d := range delayed {
		t.row(d.Name, max(time.Until(d.Until), 0).Round(100*time.Millisecond).String(), d.Reason)
	}
	return t.print(out)
}

// slowedDown writes the predicted slow-down of a task; "-" if its loading is not
// known.
func slowedDown(factor float64) string {
	if factor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", factor)
}
