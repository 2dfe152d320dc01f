package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/web"
)

func newStatus() *cobra.Command {
	var once, link bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is harvested, what the primary uses, and which tasks were killed",
		Long: `Status shows the gleaner that is up: how the machine is divided between its primary,
the reserve and harvested tasks, which jobs there are and which tasks were killed
and why. On a terminal it is updated every second until Ctrl-C; otherwise it is
printed once.

With --link it prints a link to the page instead, which lets one browser in.`,
		Example: `  gleaner status
  gleaner status --json | jq .primary.cpu
  gleaner status --link`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if link {
				return printLink(cmd)
			}
			return runStatus(cmd, once)
		},
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print it once, also on a terminal")
	cmd.Flags().BoolVar(&link, "link", false, "print a link to the page instead, for one login within an hour")
	return cmd
}

// printLink prints a link to the page.
func printLink(cmd *cobra.Command) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	var link web.Link
	if err := c.ask(cmd.Context(), http.MethodPost, "link", nil, &link); err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, link)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), link.URL)
	return err
}

func runStatus(cmd *cobra.Command, once bool) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		var s web.Status
		if err := c.ask(cmd.Context(), http.MethodGet, "status", nil, &s); err != nil {
			return err
		}
		return printJSON(cmd, s)
	}
	print := func(out io.Writer) error {
		text, err := statusText(cmd.Context(), c)
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		return err
	}
	if once || !isTerminal(cmd.OutOrStdout()) {
		return print(cmd.OutOrStdout())
	}
	return again(cmd, print)
}

// shownJobs is how many ended jobs are shown in addition to the others.
const shownJobs = 5

func statusText(ctx context.Context, c *client) (string, error) {
	var s web.Status
	if err := c.ask(ctx, http.MethodGet, "status", nil, &s); err != nil {
		return "", err
	}
	var jobs []board.Job
	if err := c.ask(ctx, http.MethodGet, "jobs", nil, &jobs); err != nil {
		return "", err
	}
	var out strings.Builder
	blocked := ""
	if s.Blocked > 0 {
		blocked = fmt.Sprintf("%d behind others, ", s.Blocked)
	}
	fmt.Fprintf(&out, "%s at %s: %s not ended; tasks: %d running, %d waiting, %s%d killed\n\n",
		s.Server, s.At.Local().Format(time.TimeOnly), counted(s.Jobs, "job"), s.Running, s.Waiting, blocked, s.Kills)
	if s.Drained {
		fmt.Fprint(&out, "it is drained: no task is started until 'gleaner resume'\n\n")
	}
	if s.Unaware {
		fmt.Fprint(&out, "its policy knows nothing of the primary: nothing is kept free for it, and no task makes way\n\n")
	}
	t := newTable("", ">cores", ">memory")
	for _, row := range []struct {
		name string
		r    cluster.Resources
	}{{"primary uses", s.Primary}, {"reserve", s.Reserve}, {"harvested tasks were given", s.Held}, {"harvested tasks use", s.Harvested}, {"free to harvest", s.Free()}, {"machine", s.Size}} {
		t.row(row.name, cores(row.r), row.r.Memory.Text())
	}
	if err := t.print(&out); err != nil {
		return "", err
	}
	if s.Class != nil {
		fmt.Fprintf(&out, "\nthe primary is %s: mean %.0f%%, peak %.0f%%\n", s.Class.Pattern, 100*s.Class.Mean, 100*s.Class.Peak)
	}
	fmt.Fprintln(&out)
	for _, short := range s.Short {
		fmt.Fprintf(&out, "no room since %s: %s waits: %s\n", short.Since.Local().Format(time.TimeOnly), short.Of, short.Because)
	}
	return out.String() + jobsText(jobs, s) + killsText(s.Last), nil
}

// jobsText shows the jobs that have not ended and the last that have.
func jobsText(jobs []board.Job, s web.Status) string {
	var shown []board.Job
	over := 0
	for i := len(jobs) - 1; i >= 0; i-- {
		if !jobs[i].Ended.IsZero() {
			over++
		}
		if jobs[i].Ended.IsZero() || over <= shownJobs {
			shown = append([]board.Job{jobs[i]}, shown...)
		}
	}
	var out strings.Builder
	_ = printJobs(&out, shown, s)
	return out.String()
}

func killsText(kills []board.Kill) string {
	if len(kills) == 0 {
		return ""
	}
	t := newTable("killed", "at", "because")
	for i := len(kills) - 1; i >= 0; i-- {
		t.row(kills[i].Task, kills[i].At.Local().Format(time.TimeOnly), kills[i].Reason)
	}
	var out strings.Builder
	_ = t.print(&out)
	return "\n" + out.String()
}
