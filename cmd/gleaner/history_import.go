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
	promFlags
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
	f.register(cmd, "", 2*time.Minute)
	flags.StringVar(&f.memQuery, "memory-query", "", "PromQL for the share of a server's memory in use")
	addStoreFlag(cmd)
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
	o := history.ReadOptions{SkipBad: f.skipBad}
	query, err := f.ask(cmd, time.Now(), o)
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
