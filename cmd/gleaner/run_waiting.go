package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	if !j.Waits() {
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
	if !j.Waits() || c.ask(ctx, http.MethodGet, "status", nil, &s) != nil {
		return ""
	}
	return s.WaitsFor(j, time.Local)
}
