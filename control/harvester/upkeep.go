package harvester

import (
	"context"
	"errors"
	"time"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/history"
)

// upkeep classifies the primary and forgets old jobs, now and every day.
func (h *Harvester) upkeep(ctx context.Context) error {
	days := time.NewTicker(24 * time.Hour)
	defer days.Stop()
	for {
		if err := h.classify(ctx); err != nil {
			return err
		}
		old := time.Now().Add(-h.Keep)
		if err := h.World.Prune(old); err != nil {
			h.Log.Error("not all old jobs could be forgotten; they will be tomorrow", "error", err)
		}
		h.Board.Forget(old)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-days.C:
		}
	}
}

// classify publishes the class of this machine to the core, once there is enough
// history.
func (h *Harvester) classify(ctx context.Context) error {
	w, _, err := h.History.LastWindow(ctx, history.Choice{Tenant: h.Server.Tenant(), Length: history.Month})
	if errors.Is(err, history.ErrEmpty) || errors.Is(err, history.ErrTooFew) {
		return nil
	}
	if err != nil {
		return err
	}
	series, err := h.History.Window(ctx, w)
	if err != nil {
		return err
	}
	for _, s := range series {
		if s.Tenant != h.Server.Tenant() {
			continue
		}
		result := classify.Run(w, []cluster.Series{s}, classify.Options{Seed: 1})
		for _, skipped := range result.Skipped {
			h.Log.Info("the primary is not classified yet", "because", skipped.Reason)
		}
		h.World.Publish(result.Classes)
	}
	return nil
}
