package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/input"
)

func newLogs() *cobra.Command {
	var follow, stderr bool
	cmd := &cobra.Command{
		Use:   "logs TASK",
		Short: "Print what a task has written",
		Long: `Logs prints what the last run of a task has written to its standard output, or with
--stderr to its standard error. A task is named as 'gleaner jobs JOB' names it:
job-7/map-3, and job-7/map-3#2 is its second run.`,
		Example: `  gleaner logs job-7/map-3
  gleaner logs wordcount/merge-0 --follow`,
		Args: oneArg("task"),
		RunE: func(cmd *cobra.Command, args []string) error { return runLogs(cmd, args[0], follow, stderr) },
	}
	addDataFlag(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().BoolVar(&stderr, "stderr", false, "what it wrote to its standard error")
	return cmd
}

func runLogs(cmd *cobra.Command, name string, follow, stderr bool) error {
	job, task, ok := strings.Cut(name, "/")
	if !ok {
		return input.Errorf("", "%q is not a task; one is called by its job, stage and number, as job-7/map-3", name)
	}
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	j, err := c.job(cmd.Context(), job)
	if err != nil {
		return err
	}
	task, attempt, _ := strings.Cut(task, "#")
	query := url.Values{"attempt": {attempt}, "follow": {strconv.FormatBool(follow)}}
	if stderr {
		query.Set("stream", "stderr")
	}
	path := fmt.Sprintf("jobs/%d/tasks/%s/output?%s", int64(j.ID), url.PathEscape(task), query.Encode())
	response, err := c.send(cmd.Context(), http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if !wantJSON(cmd) {
		_, err = io.Copy(cmd.OutOrStdout(), response.Body)
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return printJSON(cmd, map[string]string{"task": fmt.Sprintf("%s/%s", j.ID, task), "output": string(text)})
}
