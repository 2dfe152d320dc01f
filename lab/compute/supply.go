package compute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/lab"
	"gleaner/plan"
	"gleaner/plan/spec"
	"gleaner/simulation"
)

// supplyTask is how long the tasks run that are offered.
const supplyTask = time.Hour

// supply asks whether a plan may rely on harvested capacity: what July's second half let tasks
// harvest, by hour of the week, is promised for August, and August is simulated.
func supply(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	t := lab.Table{Name: "supply", Title: "Bitbrains: core-hours that July promises, and August delivers",
		Columns: []string{"utilisation", "jobs", "promised", "delivered", "delivered/promised", "kills promised", "kills", "days kept", "at 90%", "worst day"}}
	measured, days := 16, 30
	if o.Quick {
		measured, days = 2, 2
	}
	for _, utilisation := range []float64{0, 0.45} {
		july, err := supplyMonth(ctx, bitbrainsIn(o), august.AddDate(0, 0, -measured), measured, utilisation)
		if errors.Is(err, fs.ErrNotExist) {
			t.Notes = noBitbrains(o)
			return one(t)
		}
		if err != nil {
			return nil, nil, err
		}
		month, err := supplyMonth(ctx, bitbrainsIn(o), august, days, utilisation)
		if err != nil {
			return nil, nil, err
		}
		label := "as recorded"
		if utilisation > 0 {
			label = fmt.Sprintf("linear, %.0f%%", 100*utilisation)
		}
		h := harvestedOf(july)
		t.Rows = append(t.Rows, promised(label, "all hours", h, month, 0, 24), promised(label, "20 to 4 h", h, month, 20, 8))
	}
	t.Notes = []string{fmt.Sprintf("Classes are learned up to the days that are simulated. July's last %d days are measured, %d of August are simulated, with more tasks of %v than fit.", measured, days, supplyTask),
		"Core-hours are those of tasks that ended. Kills are in a core-hour. A day is kept if it delivers what was promised for it, or 90% of that; the worst delivers that share."}
	return one(t)
}

// supplyMonth simulates days from a time on, and harvests all it can.
func supplyMonth(ctx context.Context, dir string, now time.Time, days int, utilisation float64) (simulation.Harvest, error) {
	d, err := bitbrainsFrom(ctx, dir, now, days)
	if err != nil {
		return simulation.Harvest{}, err
	}
	if utilisation > 0 {
		if d, err = d.Scaled("linear", utilisation); err != nil {
			return simulation.Harvest{}, err
		}
	}
	return simulation.Supply{Policy: "history", Task: supplyTask, Memory: 2 * cluster.GB, Seed: 1}.Run(ctx, d, nil)
}

// harvestedOf is a harvest as a plan takes it.
func harvestedOf(h simulation.Harvest) spec.Harvested {
	week, all := h.Week(), h.Total()
	out := spec.Harvested{Name: "bitbrains", Cores: week.Cores, Kills: week.Kills, Memory: 2e9, BW: 1e9, Task: supplyTask.Seconds()}
	if all.Kills > 0 {
		out.Lost = all.Lost / float64(all.Kills) * 3600
	}
	return out
}

// promised compares what a plan is promised for a job of some hours, every day at the
// same hour, with what was delivered.
func promised(label, jobs string, h spec.Harvested, month simulation.Harvest, hour, hours int) []string {
	var promise, cores, useful, kills, held, killed float64
	kept, almost, nights, worst := 0, 0, 0, 0.0
	for i := range month.Hours {
		at := month.From.Add(time.Duration(i) * time.Hour)
		if at.Hour() != hour || i+hours > len(month.Hours) {
			continue
		}
		mean, _, rate := h.Window(float64(simulation.HourOfWeek(at)), float64(hours))
		say := mean * float64(hours) / plan.Redo(h, supplyTask.Seconds(), rate)
		got := 0.0
		for _, x := range month.Hours[i : i+hours] {
			got += x.Useful
			held += x.Held
			killed += float64(x.Kills)
		}
		promise, useful = promise+say, useful+got
		cores, kills = cores+mean*float64(hours), kills+rate*mean*float64(hours)
		nights++
		if got >= say {
			kept++
		}
		if got >= 0.9*say {
			almost++
		}
		if part := got / say; nights == 1 || part < worst {
			worst = part
		}
	}
	return []string{label, jobs, fmt.Sprintf("%.0f", promise), fmt.Sprintf("%.0f", useful), fmt.Sprintf("%.3f", useful/promise),
		fmt.Sprintf("%.3f", kills/cores), fmt.Sprintf("%.3f", killed/held), fmt.Sprintf("%d of %d", kept, nights), fmt.Sprintf("%d of %d", almost, nights), fmt.Sprintf("%.3f", worst)}
}
