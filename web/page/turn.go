package page

import (
	"context"
	"sync"
)

// A Turn is had by one at a time; the others wait in the order in which they came.
type Turn struct {
	once sync.Once
	had  chan struct{}
}

// Take waits for the turn, which is given back by Give. It fails if ctx is done before.
func (t *Turn) Take(ctx context.Context) error {
	t.once.Do(func() { t.had = make(chan struct{}, 1) })
	select {
	case t.had <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Give lets the next one have it.
func (t *Turn) Give() { <-t.had }
