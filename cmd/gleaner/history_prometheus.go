package main

import (
	"time"

	"github.com/spf13/cobra"

	"gleaner/history"
	"gleaner/history/prometheus"
	"gleaner/input"
)

// promFlags say what to ask a Prometheus server.
type promFlags struct {
	prometheus      string
	query, memQuery string
	label, unit     string
	from, to        string
	step            time.Duration
}

// register adds the flags; query is asked if none is named.
func (f *promFlags) register(cmd *cobra.Command, query string, step time.Duration) {
	flags := cmd.Flags()
	flags.StringVar(&f.prometheus, "prometheus", "", "address of a Prometheus server to read from")
	flags.StringVar(&f.query, "query", query, "PromQL for the share of a server's CPU in use, one series a server")
	flags.StringVar(&f.label, "label", "instance", "label whose value names the server")
	flags.StringVar(&f.unit, "unit", "ratio", "what the queries give: ratio (0 to 1) or percent")
	flags.StringVar(&f.from, "from", "", "start of the time to ask for (default 30 days before --to)")
	flags.StringVar(&f.to, "to", "", "end of the time to ask for (default now)")
	flags.DurationVar(&f.step, "step", step, "time between samples to ask for")
}

// ask makes the query of the flags; it is empty if --prometheus is not given.
func (f *promFlags) ask(cmd *cobra.Command, now time.Time, o history.ReadOptions) (prometheus.Query, error) {
	var q prometheus.Query
	flag, some := given(cmd, "query", "memory-query", "from", "to", "label", "unit", "step")
	switch {
	case f.prometheus == "" && some:
		return q, input.Errorf("--prometheus", "is needed with %s", flag)
	case f.prometheus == "":
		return q, nil
	case f.query == "":
		return q, input.Errorf("--query", "is needed with --prometheus")
	case f.unit != "ratio" && f.unit != "percent":
		return q, input.Errorf("--unit", "%q is neither ratio nor percent", f.unit)
	case f.step < time.Second:
		return q, input.Errorf("--step", "%v is less than a second", f.step)
	}
	to, err := timeFlag("--to", f.to, now.Truncate(f.step))
	if err != nil {
		return q, err
	}
	from, err := timeFlag("--from", f.from, to.Add(-30*24*time.Hour))
	if err != nil {
		return q, err
	}
	if from.After(to) {
		return q, input.Errorf("--from", "%s is after --to, %s", from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return prometheus.Query{URL: f.prometheus, CPU: f.query, Mem: f.memQuery, Label: f.label, Percent: f.unit == "percent",
		From: from, To: to, Step: f.step, ReadOptions: o}, nil
}
