package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/history"
	"gleaner/history/prometheus"
	"gleaner/kube"
)

const (
	day = 24 * time.Hour
	// kept is how much history is kept: twice what classes are found in.
	kept = 2 * history.Month
	// soon is when upkeep that failed is tried again.
	soon = 10 * time.Minute
)

// A keeper finds the classes once a day, whoever led the day before.
type keeper struct {
	world *kube.World
	store *history.Store
	ask   *prometheus.Query // nil: the agents' samples are the history
	log   *slog.Logger
}

// keep has the nodes' classes known until ctx is done: those of the last day at once.
func (k *keeper) keep(ctx context.Context) error {
	for {
		if err := k.world.FindTenants(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("whom nodes belong to is not known", "because", err)
		}
		found, err := k.store.Classes(ctx)
		if err != nil {
			k.log.Error("the classes of the last day cannot be read", "because", err)
		}
		wait := day - time.Since(found.At)
		if err == nil && 0 < wait && wait <= day {
			k.world.Publish(found.All)
		} else if wait, err = day, k.refresh(ctx); err != nil && ctx.Err() == nil {
			k.log.Error("classes are not found; it is tried again", "because", err)
			wait = soon
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// refresh finds the classes in the last month, publishes and keeps them, and forgets what is
// too old. Without enough history there are none, and nothing is kept.
func (k *keeper) refresh(ctx context.Context) error {
	if k.ask != nil {
		if err := k.read(ctx); err != nil {
			return err
		}
	}
	w, _, err := k.store.LastWindow(ctx, history.Choice{Length: history.Month})
	if errors.Is(err, history.ErrEmpty) || errors.Is(err, history.ErrTooFew) {
		k.log.Info("there is no history yet to find classes in")
		return nil
	}
	if err != nil {
		return err
	}
	series, err := k.store.Window(ctx, w)
	if err != nil {
		return err
	}
	result := classify.Run(w, series, classify.Options{Seed: 1})
	k.log.Info("classes were found", "classes", len(result.Classes), "tenants", len(result.Tenants), "skipped", len(result.Skipped), "from", w.From, "to", w.To())
	k.world.Publish(result.Classes)
	if err := k.store.SetClasses(ctx, history.Classes{At: time.Now(), All: result.Classes}); err != nil {
		return err
	}
	return k.store.RemoveBefore(ctx, time.Now().Add(-kept))
}

// read imports what Prometheus has of the nodes since the last time, at most of a month.
func (k *keeper) read(ctx context.Context) error {
	q := *k.ask
	q.To = time.Now().Truncate(q.Step)
	q.From = q.To.Add(-history.Month)
	known, err := k.store.Summaries(ctx)
	if err != nil {
		return err
	}
	for _, s := range known {
		if s.Samples > 0 && s.Last.After(q.From) && !s.Last.After(q.To) {
			q.From = s.Last.Truncate(q.Step)
		}
	}
	tenants := map[cluster.ServerID]cluster.TenantID{}
	for _, s := range k.world.Servers() {
		tenants[s.ID] = s.Tenant()
	}
	return k.store.Import(ctx, func(im *history.Import) error {
		_, err := prometheus.Read(ctx, q, func(time.Duration) {}, func(s history.Sample) error {
			s.Tenant = tenants[s.Server]
			if s.Tenant == "" {
				return nil // no node of this cluster
			}
			return im.Add(ctx, s)
		})
		if err != nil {
			return fmt.Errorf("controller: %w", err)
		}
		return nil
	})
}
