package history

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gleaner/kv"
)

// A TaskRun is one finished run of a task: what it used, and what others used
// meanwhile. Stage is "job/stage", with the names that stay the same every time
// the job runs.
type TaskRun struct {
	Stage  string        `json:"-"`
	Start  time.Time     `json:"-"`
	Took   time.Duration `json:"took_ns"`
	Used   []float64     `json:"used"`   // of each resource, the share of time that the task used it
	Beside []float64     `json:"beside"` // of each resource, the share that others used meanwhile
}

// KeptTaskRuns is how many runs of a stage are kept to learn from.
const KeptTaskRuns = 20

// AddTaskRun records a run and deletes all but the newest runs of its stage.
func (s *Store) AddTaskRun(ctx context.Context, run TaskRun) error {
	if run.Stage == "" || run.Took < 0 || run.Start.Unix() < 0 {
		return fmt.Errorf("history: run of %q at %v for %v cannot be", run.Stage, run.Start, run.Took)
	}
	value, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("history: run of %q: %w", run.Stage, err)
	}
	return addRun(ctx, s.tasks, run.Stage, run.Start, value, KeptTaskRuns)
}

// addRun records a run of something and deletes all but its newest.
func addRun(ctx context.Context, table kv.LooseTable, of string, at time.Time, value []byte, kept int) error {
	part := []byte(of)
	key := kv.Key{Part: part, Row: binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano()))}
	if err := put(ctx, table, "runs", []kv.Record{{Key: key, Value: value}}); err != nil {
		return err
	}
	var all []kv.Key
	for record, err := range table.Scan(ctx, kv.Range{Part: part}) {
		if err != nil {
			return fmt.Errorf("history: list runs of %q: %w", of, err)
		}
		all = append(all, kv.Key{Part: part, Row: slices.Clone(record.Key.Row)})
	}
	return drop(ctx, table, all[:max(0, len(all)-kept)])
}

// TaskRuns lists all runs of tasks that are kept; those of a stage come
// together, the oldest first.
func (s *Store) TaskRuns(ctx context.Context) ([]TaskRun, error) {
	var all []TaskRun
	err := eachRun(ctx, s.tasks, func(of string, at time.Time, value []byte) error {
		run := TaskRun{Stage: of, Start: at}
		err := json.Unmarshal(value, &run)
		all = append(all, run)
		return err
	})
	return all, err
}

// eachRun visits the runs that a table keeps; those of one thing come together, the oldest first.
func eachRun(ctx context.Context, table kv.LooseTable, visit func(of string, at time.Time, value []byte) error) error {
	for record, err := range table.Scan(ctx, kv.Range{}) {
		if err != nil {
			return fmt.Errorf("history: list runs: %w", err)
		}
		of := string(record.Key.Part)
		if len(record.Key.Row) != 8 {
			return fmt.Errorf("history: damaged run of %q", of)
		}
		if err := visit(of, time.Unix(0, int64(binary.BigEndian.Uint64(record.Key.Row))).UTC(), record.Value); err != nil {
			return fmt.Errorf("history: damaged run of %q: %w", of, err)
		}
	}
	return nil
}
