package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/web"
)

// patience is how long a job may wait before the reason is printed: between two
// stages none of its tasks runs either.
const patience = 2 * time.Second

// A waiting prints to stderr that a job runs and what it waits for, each need once:
// the primary's use changes all the time, and would fill the screen.
type waiting struct {
	cmd    *cobra.Command
	client *client

	running      bool // as last printed
	since, asked time.Time
	told         map[string]bool
}

func (w *waiting) look(j *board.Job) {
	now := time.Now()
	if j.State != board.Waiting {
		if !w.running {
			w.tell(j, "runs")
		}
		w.since, w.told, w.running = time.Time{}, nil, true
		return
	}
	if w.since.IsZero() {
		w.since, w.told = now, map[string]bool{}
	}
	if now.Sub(w.since) < patience || now.Sub(w.asked) < time.Second {
		return
	}
	w.asked = now
	why := w.client.waitsFor(w.cmd.Context(), j)
	if need, _, _ := strings.Cut(why, ", and "); why != "" && !w.told[need] {
		w.told[need], w.running = true, false
		w.tell(j, "waits: "+why)
	}
}

func (w *waiting) tell(j *board.Job, what string) {
	if !wantJSON(w.cmd) {
		fmt.Fprintf(w.cmd.ErrOrStderr(), "%s %s\n", j.ID, what)
	}
}

// waitsFor says what a job waits for; "" if it does not wait, or it is not known.
func (c *client) waitsFor(ctx context.Context, j *board.Job) string {
	var s web.Status
	if j.State != board.Waiting || c.ask(ctx, http.MethodGet, "status", nil, &s) != nil {
		return ""
	}
	return waitsFor(j, s)
}

// waitsFor says what the next task of a job needs and what is free. Memory is in
// whole GiB, because it changes all the time.
func waitsFor(j *board.Job, s web.Status) string {
	next := slices.IndexFunc(j.Stages, func(st board.Stage) bool { return st.Waiting > 0 })
	if next < 0 {
		return ""
	}
	st := &j.Stages[next]
	if len(s.Short) > 0 {
		return fmt.Sprintf("%s waits (%s) and is retried", s.Short[0].Of, s.Short[0].Because)
	}
	if len(j.Delayed) > 0 {
		d := j.Delayed[0]
		return fmt.Sprintf("the last run of a task failed (%s); %s starts at %s", d.Reason, d.Name, d.Until.Local().Format(time.TimeOnly))
	}
	need, free := st.Request, freeToHarvest(s)
	whole := func(r cluster.Resources) string { return fmt.Sprintf("%d GiB", r.Memory/cluster.GB) }
	short := func(need string, figure func(cluster.Resources) string, unit string) string {
		return fmt.Sprintf("a task of %s needs %s%s, and %s of %s%s are free: the primary uses %s, %s are its reserve, other tasks hold %s",
			st.Name, need, unit, figure(free), figure(s.Size), unit, figure(s.Counted), figure(s.Reserve), figure(s.Held))
	}
	switch {
	case need.CPU > free.CPU:
		return short(cores(need), cores, " cores")
	case need.Memory > free.Memory:
		return short(need.Memory.Text(), whole, "")
	}
	return fmt.Sprintf("there is room for a task of %s now, but the policy does not use it yet: it must stay free for a while", st.Name)
}
