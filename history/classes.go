package history

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
)

var classesPart = []byte("classes")

// Classes are the classes that were found at a time.
type Classes struct {
	At  time.Time       `json:"at"`
	All []cluster.Class `json:"classes"`
}

// SetClasses keeps the classes in place of those from before.
func (s *Store) SetClasses(ctx context.Context, c Classes) error {
	value, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("history: classes: %w", err)
	}
	return put(ctx, s.classes, "classes", []kv.Record{{Key: kv.Key{Part: classesPart}, Value: value}})
}

// Classes gives the classes that were kept last. The time is zero if none were.
func (s *Store) Classes(ctx context.Context) (Classes, error) {
	var c Classes
	for record, err := range s.classes.Scan(ctx, kv.Range{Part: classesPart}) {
		if err != nil {
			return c, fmt.Errorf("history: classes: %w", err)
		}
		if err := json.Unmarshal(record.Value, &c); err != nil {
			return c, fmt.Errorf("history: damaged classes: %w", err)
		}
	}
	return c, nil
}
