package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// A JobRun is how long a finished run of a job took, for worlds that forget jobs. Name is the
// one that stays the same every time the job runs.
type JobRun struct {
	Name  string        `json:"-"`
	Ended time.Time     `json:"-"`
	Took  time.Duration `json:"took_ns"`
	Work  float64       `json:"work"` // of its tasks, in core-seconds
}

// keptJobRuns is how many runs of a job are kept.
const keptJobRuns = 20

// AddJobRun records a run and deletes all but the newest runs of its job.
func (s *Store) AddJobRun(ctx context.Context, run JobRun) error {
	if run.Name == "" || run.Took < 0 || run.Ended.Unix() < 0 {
		return fmt.Errorf("history: run of %q that ended at %v after %v cannot be", run.Name, run.Ended, run.Took)
	}
	value, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("history: run of %q: %w", run.Name, err)
	}
	return addRun(ctx, s.jobs, run.Name, run.Ended, value, keptJobRuns)
}

// JobRuns lists all runs of jobs that are kept, by their end.
func (s *Store) JobRuns(ctx context.Context) ([]JobRun, error) {
	var all []JobRun
	err := eachRun(ctx, s.jobs, func(of string, at time.Time, value []byte) error {
		run := JobRun{Name: of, Ended: at}
		err := json.Unmarshal(value, &run)
		all = append(all, run)
		return err
	})
	slices.SortStableFunc(all, func(a, b JobRun) int { return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.Name, b.Name)) })
	return all, err
}
