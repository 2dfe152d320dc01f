package curator

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/input"
	"gleaner/kv"
)

// A Job is one kind of upkeep, as its owner writes it.
type Job struct {
	Name string
	// Version is raised when Inputs or Reduce change, so that a scan begun by another
	// version of the program is not continued.
	Version int
	Inputs  []Input // at most one for each table
	// Reduce proposes tasks for a key, from the values that were emitted with it. It need not read them all.
	Reduce func(key []byte, values *Values, propose func(task.Task)) error
}

// An Input says what a job does with the records of a table.
type Input struct {
	Table string
	// Filters pass the records that Map gets: those which all filters pass.
	Filters []func(*kv.Record) bool
	// Map emits pairs for a record. An error ends the scan. The record is valid only during the call, and
	// may not be changed. Map and Filters are called by several workers at a time.
	Map func(r *kv.Record, out *Pairs) error
}

// Pairs are what a Map emits.
type Pairs struct {
	to     *shuffle.Sorter
	job    uint16
	source uint8
}

// Emit adds a pair, which is copied.
func (p *Pairs) Emit(key, value []byte) {
	p.to.Add(shuffle.Pair{Job: p.job, Key: key, Source: p.source, Value: value})
}

// Values are what was emitted with a key, in the order of the job's Inputs and then of their bytes.
type Values struct {
	Table string // that the value was emitted for
	Bytes []byte // valid until Next
	group *group
}

// Next moves to the next value, at first to the first, and tells whether there is one.
func (v *Values) Next() bool { return v.group.value(v) }

// check returns an error if the jobs cannot be done on the tables.
func check(jobs []Job, tables map[string]kv.Reader) error {
	seen := map[string]bool{}
	for _, j := range jobs {
		switch {
		case j.Name == "" || seen[j.Name]:
			return fmt.Errorf("curator: every job needs a name of its own, not %q", j.Name)
		case j.Reduce == nil || len(j.Inputs) == 0:
			return fmt.Errorf("curator: job %s needs a table to read and a reduce", j.Name)
		case len(j.Inputs) > math.MaxUint8 || len(jobs) > math.MaxUint16:
			return errors.New("curator: too many jobs or inputs")
		}
		seen[j.Name] = true
		if err := j.checkInputs(tables); err != nil {
			return err
		}
	}
	return nil
}

func (j Job) checkInputs(tables map[string]kv.Reader) error {
	seen := map[string]bool{}
	for _, in := range j.Inputs {
		switch {
		case tables[in.Table] == nil:
			return fmt.Errorf("curator: job %s reads the table %q, which is not there; there are %q", j.Name, in.Table, names(tables))
		case seen[in.Table]:
			return fmt.Errorf("curator: job %s reads the table %s twice", j.Name, in.Table)
		case in.Map == nil:
			return fmt.Errorf("curator: job %s does not map the table %s", j.Name, in.Table)
		}
		seen[in.Table] = true
	}
	return nil
}

// choose gives the jobs of those names, in the order in which they are declared; all if no name is given.
func choose(jobs []Job, names []string) ([]Job, error) {
	for _, name := range names {
		if !slices.ContainsFunc(jobs, func(j Job) bool { return j.Name == name }) {
			return nil, input.Fieldf("task", "there is no %q; there are %s", name, strings.Join(jobNames(jobs), ", "))
		}
	}
	var out []Job
	for _, j := range jobs {
		if len(names) == 0 || slices.Contains(names, j.Name) {
			out = append(out, j)
		}
	}
	return out, nil
}

func (j Job) identity() string { return fmt.Sprintf("%s/%d", j.Name, j.Version) }

func jobNames(jobs []Job) []string {
	var out []string
	for _, j := range jobs {
		out = append(out, j.Name)
	}
	return out
}

// tablesOf lists the tables that the jobs read, sorted.
func tablesOf(jobs []Job) []string {
	var out []string
	for _, j := range jobs {
		for _, in := range j.Inputs {
			out = append(out, in.Table)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
