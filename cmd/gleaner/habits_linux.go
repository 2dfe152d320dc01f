package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/history"
	"gleaner/kv"
)

// learnHabits has a front place replicas by what the history in its store says of the tenants, now and every day, until ctx ends.
func learnHabits(ctx context.Context, f *fabric.Front, store kv.Store, log *slog.Logger) {
	days := time.NewTicker(24 * time.Hour)
	defer days.Stop()
	for {
		known, err := habits(ctx, store)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("the history says nothing of where replicas are safe", "error", err)
		case len(known) > 0:
			f.Learn(known)
			log.Info("replicas are placed by the history", "names", len(known))
		}
		select {
		case <-ctx.Done():
			return
		case <-days.C:
		}
	}
}

// habits gives what the history says of each tenant, and of each server's tenant by the server's name: a data server need not say
// whose it is.
func habits(ctx context.Context, store kv.Store) (map[cluster.TenantID]fabric.Habit, error) {
	past, err := history.Open(ctx, store, time.Now)
	if err != nil {
		return nil, err
	}
	report, err := reimagesIn(ctx, past)
	if err != nil {
		return nil, err
	}
	known := map[cluster.TenantID]fabric.Habit{}
	for _, t := range report.Tenants {
		known[t.ID] = fabric.Habit{Reimages: t.PerMonth}
	}
	if err := addUse(ctx, past, known); err != nil {
		return nil, err
	}
	for _, s := range report.Servers {
		known[cluster.TenantID(s.ID)] = known[s.Tenant]
	}
	return known, nil
}

// addUse adds how much tenants used their servers in the last month of the history: nothing if it has too little.
func addUse(ctx context.Context, past *history.Store, known map[cluster.TenantID]fabric.Habit) error {
	w, _, err := past.LastWindow(ctx, history.Choice{Length: history.Month})
	if errors.Is(err, history.ErrEmpty) || errors.Is(err, history.ErrTooFew) {
		return nil
	}
	if err != nil {
		return err
	}
	series, err := past.Window(ctx, w)
	if err != nil {
		return err
	}
	for _, t := range classify.Run(w, series, classify.Options{Seed: 1}).Tenants {
		known[t.ID] = fabric.Habit{Reimages: known[t.ID].Reimages, Peak: t.Peak}
	}
	for _, s := range series {
		h := known[s.Tenant]
		h.Hours = fabric.HoursOf(w, s.CPU)
		known[s.Tenant] = h
	}
	return nil
}
