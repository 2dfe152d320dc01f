package colocation

import (
	"context"
	"time"

	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/history"
	"gleaner/kv/mem"
	"gleaner/sim/datacenter"
)

// A day is the primary's utilisation over the day that is played, slot by slot, and
// over the days before, from which its class is learned.
type day struct {
	tenant cluster.TenantID
	from   time.Time // of the past
	past   []float64
	use    []float64
}

const (
	learned = 14 // days of the past
	servers = 200
)

// swingingDay is a day of the periodic tenant of DC-9 that swings the most
// between night and noon, scaled so that its average is mean.
func swingingDay(mean float64) (day, error) {
	profile, err := datacenter.Find("DC-9")
	if err != nil {
		return day{}, err
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: servers, Past: learned, Days: 1, Seed: 1})
	now := d.SlotAt(d.Now)
	var best day
	swing := 0.0
	for _, tenant := range d.Tenants {
		if tenant.Pattern != cluster.Periodic {
			continue
		}
		use := curve(d, tenant.Servers[0], now, d.Window.Len, 1)
		average, peak := summary(use)
		if s := peak / average; s > swing {
			swing = s
			best = day{tenant.ID, d.Window.From, curve(d, tenant.Servers[0], 0, now, mean/average), curve(d, tenant.Servers[0], now, d.Window.Len, mean/average)}
		}
	}
	return best, nil
}

// curve is a server's utilisation between two slots, times by, and at most 1.
func curve(d *datacenter.Datacenter, server int32, from, to int, by float64) []float64 {
	all := make([]float64, 0, to-from)
	for slot := from; slot < to; slot++ {
		all = append(all, min(by*float64(d.CPU(int(server), slot)), 1))
	}
	return all
}

func summary(use []float64) (mean, peak float64) {
	for _, u := range use {
		mean += u / float64(len(use))
		peak = max(peak, u)
	}
	return mean, peak
}

// at is the utilisation after a share of the day.
func (d day) at(share float64) float64 {
	return d.use[min(int(share*float64(len(d.use))), len(d.use)-1)]
}

// classes are what 'gleaner up' would have learned of server by now, from the past
// through the history.
func (d day) classes(ctx context.Context, server cluster.Server) ([]cluster.Class, error) {
	store, err := history.Open(ctx, mem.New(), time.Now)
	if err != nil {
		return nil, err
	}
	err = store.Import(ctx, func(im *history.Import) error {
		for i, use := range d.past {
			at := d.from.Add(time.Duration(i) * datacenter.Slot)
			if err := im.Add(ctx, history.Sample{Milli: at.UnixMilli(), Server: server.ID, CPU: float32(use)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	w, _, err := store.LastWindow(ctx, history.Choice{Length: history.Month})
	if err != nil {
		return nil, err
	}
	series, err := store.Window(ctx, w)
	if err != nil {
		return nil, err
	}
	return classify.Run(w, series, classify.Options{Seed: 1}).Classes, nil
}
