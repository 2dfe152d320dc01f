package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/input"
	"gleaner/sim/datacenter"
)

func newGenerate() *cobra.Command {
	var name, out string
	var o datacenter.Options
	cmd := &cobra.Command{
		Use:   "generate --datacenter NAME --out DIR",
		Short: "Write a datacenter like one of the paper's ten into files",
		Long: `Generate makes a datacenter that agrees with everything the OSDI'16 paper says
about its datacenters DC-0 to DC-9, and writes it into DIR: servers.csv,
history.csv.gz (CPU utilisation every two minutes) and reimages.csv (three
years). The same seed gives the same files. All other commands can read them.`,
		Example: `  gleaner generate --datacenter DC-9 --servers 200 --days 31 --out dc9
  gleaner classify --history dc9/history.csv.gz --servers dc9/servers.csv
  gleaner reimages --log dc9/reimages.csv --servers dc9/servers.csv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return input.Errorf("--out", "name the directory to write into")
			}
			p, err := datacenter.Find(name)
			if err != nil {
				return err
			}
			if err := checkGenerate(cmd, o); err != nil {
				return err
			}
			return generate(cmd, p, o, out)
		},
	}
	cmd.Flags().StringVar(&name, "datacenter", "", "which one, DC-0 to DC-9")
	cmd.Flags().IntVar(&o.Servers, "servers", 0, "how many servers (default: as many as the datacenter has)")
	cmd.Flags().IntVar(&o.Past, "days", 31, "days of utilisation")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	cmd.Flags().StringVar(&out, "out", "", "directory to write into; made if it is missing")
	return cmd
}

func checkGenerate(cmd *cobra.Command, o datacenter.Options) error {
	if cmd.Flags().Changed("servers") && (o.Servers < datacenter.FewestServers || o.Servers > datacenter.MostServers) {
		return input.Errorf("--servers", "%d is not between %d and %d", o.Servers, datacenter.FewestServers, datacenter.MostServers)
	}
	if o.Past < 1 || o.Past > 366 {
		return input.Errorf("--days", "%d is not between 1 and 366", o.Past)
	}
	return nil
}

// generated is the JSON of generate: what was written.
type generated struct {
	Datacenter  string   `json:"datacenter"`
	Servers     int      `json:"servers"`
	Tenants     int      `json:"tenants"`
	Days        int      `json:"days"`
	Seed        uint64   `json:"seed"`
	Reimages    int      `json:"reimages"`
	Utilisation float64  `json:"mean_utilisation"`
	Files       []string `json:"files"`
}

func generate(cmd *cobra.Command, p datacenter.Profile, o datacenter.Options, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return input.Errorf("--out", "%v", err)
	}
	d := datacenter.Generate(p, o)
	result := generated{Datacenter: d.Name, Servers: len(d.Servers), Tenants: len(d.Tenants), Days: o.Past, Seed: o.Seed,
		Reimages: len(d.Reimages), Utilisation: d.MeanCPU()}
	bar := newProgress(cmd, "history", int64(d.Window.Len))
	defer bar.finish()
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"servers.csv", func(w io.Writer) error { return writeServers(w, d.Servers) }},
		{"reimages.csv", func(w io.Writer) error { return writeReimages(w, d) }},
		{"history.csv.gz", func(w io.Writer) error { return writeHistory(cmd.Context(), w, d, bar) }},
	} {
		path := filepath.Join(dir, file.name)
		if err := writeFile(path, file.write); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		result.Files = append(result.Files, path)
	}
	if wantJSON(cmd) {
		return printJSON(cmd, result)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d servers of %d tenants, %d days at %.1f%% utilisation, %d reimages in three years\n",
		result.Datacenter, result.Servers, result.Tenants, result.Days, 100*result.Utilisation, result.Reimages)
	for _, path := range result.Files {
		fmt.Fprintln(cmd.OutOrStdout(), path)
	}
	return nil
}

func writeServers(w io.Writer, servers []cluster.Server) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"server", "environment", "function", "rack", "cores", "memory_mb", "disk_gb"})
	for _, s := range servers {
		_ = out.Write([]string{string(s.ID), s.Environment, s.Function, s.Rack,
			someOf(float64(s.CPU) / float64(cluster.Core)), someOf(float64(s.Memory >> 20)), someOf(float64(s.Disk / 1e9))})
	}
	out.Flush()
	return out.Error()
}

// someOf writes an amount, and nothing if it is not known.
func someOf(amount float64) string {
	if amount == 0 {
		return ""
	}
	return strconv.FormatFloat(amount, 'f', -1, 64)
}

func writeReimages(w io.Writer, d *datacenter.Datacenter) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"time", "server", "cause"})
	for _, r := range d.Reimages {
		_ = out.Write([]string{r.At.Format(time.RFC3339), string(d.Servers[r.Server].ID), r.Cause.String()})
	}
	out.Flush()
	return out.Error()
}

// writeHistory writes slot after slot, in the order in which a monitor records.
func writeHistory(ctx context.Context, w io.Writer, d *datacenter.Datacenter, bar *progress) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(z, "time,server,cpu\n"); err != nil {
		return err
	}
	var rows []byte
	for slot := range d.Window.Len {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := d.Window.From.Add(time.Duration(slot) * d.Window.Step).Unix()
		rows = rows[:0]
		for i := range d.Servers {
			rows = strconv.AppendInt(rows, at, 10)
			rows = append(rows, ',')
			rows = append(rows, d.Servers[i].ID...)
			rows = append(rows, ',')
			rows = strconv.AppendFloat(rows, float64(100*d.CPU(i, slot)), 'f', 2, 32)
			rows = append(rows, '\n')
		}
		if _, err := z.Write(rows); err != nil {
			return err
		}
		bar.add(1)
	}
	return z.Close()
}
