package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gleaner/history"
	"gleaner/history/prometheus"
	"gleaner/input"
)

// importFlags are the flags of 'history import'.
type importFlags struct {
	servers, reimages []string
	skipBad           bool
	prometheus        string
	query, memQuery   string
	label, unit       string
	from, to          string
	step              time.Duration
}

func newHistoryImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Import utilisation, servers and reimages",
		Long: `Import utilisation, servers and reimages.

FILE is CSV, also gzip or zstd, or - for standard input, with the header time,server,cpu[,mem][,tenant]
in any order: times are Unix seconds or RFC 3339, cpu and mem are percent of the
server. Rows may come in any order; of two for the same server and time the last wins,
also over one that was imported before.

An import is all or nothing: if any row of any file is bad, nothing changes.
--skip-bad imports the good rows and counts the others.

With --prometheus the samples come from a range query that yields one series a
server.`,
		Example: `  gleaner history import 2026-10.csv.gz 2026-11.csv.gz --servers servers.csv --reimages reimages.csv

  gleaner history import --prometheus http://localhost:9090 \
    --query '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[2m]))' \
    --memory-query '1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes' \
    --from 2026-10-01T00:00:00Z --to 2026-11-01T00:00:00Z`,
		RunE: func(cmd *cobra.Command, files []string) error { return importHistory(cmd, files, f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.servers, "servers", nil, "CSV file of servers: server,environment,function,rack,cores,memory_mb,disk_gb; may be given again")
	flags.StringArrayVar(&f.reimages, "reimages", nil, "CSV file of reimages: time,server,cause; may be given again")
	flags.BoolVar(&f.skipBad, "skip-bad", false, "skip bad rows of samples and reimages, and count them")
	flags.StringVar(&f.prometheus, "prometheus", "", "address of a Prometheus server to import from")
	flags.StringVar(&f.query, "query", "", "PromQL for the share of a server's CPU in use, one series a server")
	flags.StringVar(&f.memQuery, "memory-query", "", "PromQL for the share of a server's memory in use")
	flags.StringVar(&f.label, "label", "instance", "label whose value names the server")
	flags.StringVar(&f.unit, "unit", "ratio", "what the queries give: ratio (0 to 1) or percent")
	flags.StringVar(&f.from, "from", "", "start of the time to ask for (default 30 days before --to)")
	flags.StringVar(&f.to, "to", "", "end of the time to ask for (default now)")
	flags.DurationVar(&f.step, "step", 2*time.Minute, "time between samples to ask for")
	addDataFlag(cmd)
	return cmd
}

// A source is one file, or Prometheus, and what was imported from it.
type source struct {
	Name    string `json:"source"`
	Samples int64  `json:"samples"`
	Skipped int64  `json:"skipped"`
}

// imported is the result of 'history import'.
type imported struct {
	Sources  []source `json:"sources"`
	Samples  int64    `json:"samples"`
	Skipped  int64    `json:"skipped"`
	Servers  int      `json:"servers_listed"`
	Reimages int      `json:"reimages"`
}

func (r *imported) add(name string, stats history.ReadStats) {
	r.Sources = append(r.Sources, source{name, stats.Rows, stats.Skipped})
	r.Samples += stats.Rows
	r.Skipped += stats.Skipped
}

// importHistory reads the small files first, so that a mistake in them is found at once.
func importHistory(cmd *cobra.Command, files []string, f importFlags) error {
	query, err := f.promQuery(cmd, time.Now())
	if err != nil {
		return err
	}
	if len(files)+len(f.servers)+len(f.reimages) == 0 && f.prometheus == "" {
		return input.Errorf("", "nothing to import: name a FILE, --servers, --reimages or --prometheus; see '%s --help'", cmd.CommandPath())
	}
	servers, err := readServers(f.servers)
	if err != nil {
		return err
	}
	o := history.ReadOptions{SkipBad: f.skipBad}
	reimages, err := readReimages(cmd, f.reimages, o)
	if err != nil {
		return err
	}
	result := imported{Sources: []source{}, Servers: len(servers), Reimages: len(reimages)}
	err = withHistory(cmd, func(s *history.Store) error {
		return s.Import(cmd.Context(), func(im *history.Import) error {
			im.SetServers(servers)
			im.AddReimages(reimages)
			bar := newProgress(cmd, "importing", totalSize(files))
			defer bar.finish()
			for _, name := range files {
				stats, err := importFile(cmd.Context(), cmd, im, name, o, bar)
				if err != nil {
					return err
				}
				result.add(name, stats)
			}
			if f.prometheus != "" {
				return importPrometheus(cmd, im, query, &result)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return result.print(cmd)
}

func importPrometheus(cmd *cobra.Command, im *history.Import, query prometheus.Query, result *imported) error {
	bar := newProgress(cmd, "asking Prometheus", int64(query.To.Sub(query.From)))
	defer bar.finish()
	ctx, before := cmd.Context(), time.Duration(0)
	progress := func(done time.Duration) { bar.add(int64(done - before)); before = done }
	stats, err := prometheus.Read(ctx, query, progress, func(s history.Sample) error { return im.Add(ctx, s) })
	if err == nil {
		tellSkipped(cmd, query.URL, stats)
	}
	result.add(query.URL, stats)
	return err
}

// promQuery makes the query of the flags; it is empty if --prometheus is not given.
func (f *importFlags) promQuery(cmd *cobra.Command, now time.Time) (prometheus.Query, error) {
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
		From: from, To: to, Step: f.step, ReadOptions: history.ReadOptions{SkipBad: f.skipBad}}, nil
}

// timeFlag reads a time in the format of the CSV files.
func timeFlag(flag, text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	t, err := history.ParseTime(text)
	if err != nil {
		return t, input.Errorf(flag, "%v", err)
	}
	return t, nil
}

func (r *imported) print(cmd *cobra.Command) error {
	if wantJSON(cmd) {
		return printJSON(cmd, r)
	}
	t := newTable("source", ">samples", ">skipped")
	for _, s := range r.Sources {
		t.row(s.Name, fmt.Sprint(s.Samples), fmt.Sprint(s.Skipped))
	}
	if len(r.Sources) > 0 {
		if err := t.print(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "imported %s, %s, %s\n", counted(r.Samples, "sample"), counted(r.Servers, "listed server"), counted(r.Reimages, "reimage"))
	return err
}
