package history

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"gleaner/kv"
)

// A JobRun is one finished run of a batch job. Jobs keep their name from run to
// run, so that the last one tells how long the next will take (OSDI'16 §4.1).
type JobRun struct {
	Name     string        `json:"-"`
	Start    time.Time     `json:"-"`
	Duration time.Duration `json:"duration_ns"`
}

// AddRun records a run. A second run of the same name and start replaces the first.
func (s *Store) AddRun(ctx context.Context, run JobRun) error {
	if run.Name == "" || run.Duration < 0 || run.Start.Unix() < 0 {
		return fmt.Errorf("history: run of %q at %v for %v cannot be", run.Name, run.Start, run.Duration)
	}
	value, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("history: run of %q: %w", run.Name, err)
	}
	key := kv.Key{Part: []byte(run.Name), Row: binary.BigEndian.AppendUint64(nil, uint64(run.Start.UnixNano()))}
	return put(ctx, s.runs, "runs", []kv.Record{{Key: key, Value: value}})
}

// Runs lists the runs of a job, the oldest first.
func (s *Store) Runs(ctx context.Context, name string) ([]JobRun, error) {
	var all []JobRun
	for record, err := range s.runs.Scan(ctx, kv.Range{Part: []byte(name)}) {
		if err != nil {
			return nil, fmt.Errorf("history: list runs of %q: %w", name, err)
		}
		run := JobRun{Name: name, Start: time.Unix(0, int64(binary.BigEndian.Uint64(record.Key.Row))).UTC()}
		if err := json.Unmarshal(record.Value, &run); err != nil {
			return nil, fmt.Errorf("history: run of %q: %w", name, err)
		}
		all = append(all, run)
	}
	return all, nil
}
