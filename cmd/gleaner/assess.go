package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/history/prometheus"
	"gleaner/input"
)

// What node_exporter calls a server's use, its cores and its memory.
const (
	nodeUse    = `1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))`
	nodeCores  = `count by (instance) (node_cpu_seconds_total{mode="idle"})`
	nodeMemory = `max by (instance) (node_memory_MemTotal_bytes)`
)

type assessFlags struct {
	source      historyFlags
	prom        promFlags
	coresQuery  string
	memoryQuery string
	reimages    []string
	cores       float64
	memoryGB    float64
	price       float64
	days        int
	blocks      int
	seed        uint64
	out         string
}

func newAssess() *cobra.Command {
	var f assessFlags
	cmd := &cobra.Command{
		Use:   "assess [--prometheus URL | --history FILE --servers FILE]",
		Short: "Find out how much could be harvested, at which risk, and what it is worth",
		Long: `Assess reads a month of your servers' use and writes one page (assess.html) and the
same as JSON (assess.json): which servers are predictable, how many core-hours a week
could be harvested at which risk, what they are worth, which data would survive on
spare disks if there is a reimage log, and what to try first. Each figure stands
beside the command that prints the same.

It only reads, and writes only to --out. The last --days are simulated with your own
servers' history, under every policy and for several amounts of work; the time before
them teaches. Without files and without --prometheus it reads the data directory.`,
		Example: `  # From the node_exporter of each server:
  gleaner assess --prometheus http://localhost:9090 --price 0.03

  # From files:
  gleaner assess --history cpu.csv.gz --servers servers.csv --reimages reimages.csv --out assessment

  # Without a list of servers: all have 16 cores.
  gleaner assess --history cpu.csv.gz --cores 16 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.assess(cmd) },
	}
	f.source.register(cmd)
	f.prom.register(cmd, nodeUse, 5*time.Minute)
	flags := cmd.Flags()
	flags.StringVar(&f.coresQuery, "cores-query", nodeCores, "PromQL for the cores of a server")
	flags.StringVar(&f.memoryQuery, "memory-query", nodeMemory, "PromQL for the memory of a server, in bytes")
	flags.StringArrayVar(&f.reimages, "reimages", nil, "the reimage log (time,server,cause): how much data would survive; may be given again")
	flags.Float64Var(&f.cores, "cores", 12, "cores of a server of which they are not known")
	flags.Float64Var(&f.memoryGB, "memory-gb", 32, "memory, in GiB, of a server of which it is not known")
	flags.Float64Var(&f.price, "price", 0, "what a core-hour is worth to you, in any currency")
	flags.IntVar(&f.days, "days", 7, "days to simulate; those before them teach")
	flags.IntVar(&f.blocks, "blocks", 0, "blocks of 256 MB to place with --reimages (default: a third of the room, at most 100000)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of all random numbers")
	flags.StringVar(&f.out, "out", "assessment", "write to this `DIR`")
	return cmd
}

func (f *assessFlags) assess(cmd *cobra.Command) error {
	begun := time.Now()
	query, err := f.check(cmd, begun)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return input.Errorf("--out", "%v", err)
	}
	a := &assessment{Version: version(), Price: f.price, flags: f}
	if f.prom.prometheus != "" {
		if err := f.fetch(cmd, query); err != nil {
			return err
		}
		a.Source.Prometheus = query.URL
	}
	err = f.source.with(cmd, func(store *history.Store) error { return a.read(cmd, store) })
	if err != nil {
		return err
	}
	if err := a.simulate(cmd); err != nil {
		return err
	}
	if err := a.store(cmd); err != nil {
		return err
	}
	a.advise()
	a.Seconds = time.Since(begun).Seconds()
	if err := a.save(); err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, a)
	}
	return a.print(cmd.OutOrStdout())
}

func (f *assessFlags) check(cmd *cobra.Command, now time.Time) (prometheus.Query, error) {
	none := prometheus.Query{}
	flag, stored := given(cmd, "data", "store")
	_, blocks := given(cmd, "blocks")
	files := len(f.source.files)
	switch {
	case f.prom.prometheus != "" && files > 0:
		return none, input.Errorf("--prometheus", "give either an address or --history files")
	case stored && files > 0, stored && f.prom.prometheus != "":
		return none, input.Errorf(flag, "is not read when a history is named; leave one of them out")
	case !(f.cores > 0 && f.cores <= 4096):
		return none, input.Errorf("--cores", "%v is not more than 0 and at most 4096", f.cores)
	case !(f.memoryGB > 0 && f.memoryGB <= 1<<20):
		return none, input.Errorf("--memory-gb", "%v is not more than 0 and at most %d", f.memoryGB, 1<<20)
	case !(f.price >= 0 && f.price < 1e9):
		return none, input.Errorf("--price", "%v is not a price", f.price)
	case f.days < 1 || f.days > 366:
		return none, input.Errorf("--days", "%d is not between 1 and 366", f.days)
	case blocks && (f.blocks < 1 || f.blocks > 1<<31):
		return none, input.Errorf("--blocks", "%d is not between 1 and %d", f.blocks, 1<<31)
	case blocks && len(f.reimages) == 0:
		return none, input.Errorf("--blocks", "goes with --reimages")
	case len(f.reimages) > 0 && len(f.source.servers) == 0:
		return none, input.Errorf("--servers", "name the servers file with racks and disks that goes with --reimages")
	}
	if flag, sizes := given(cmd, "cores-query", "memory-query"); sizes && f.prom.prometheus == "" {
		return none, input.Errorf("--prometheus", "is needed with %s", flag)
	}
	return f.prom.ask(cmd, now, history.ReadOptions{SkipBad: f.source.skipBad})
}

// fetch saves what Prometheus has, so that the commands of the page can read the same
// again. From here on it is a history in files.
func (f *assessFlags) fetch(cmd *cobra.Command, query prometheus.Query) error {
	path := filepath.Join(f.out, "history.csv.gz")
	err := saveTo("--out", path, func(w io.Writer) error { return fetchHistory(cmd, query, w) })
	if err != nil {
		return err
	}
	f.source.files = []string{path}
	if len(f.source.servers) > 0 {
		return nil
	}
	servers, err := f.sizes(cmd, query)
	if err != nil || len(servers) == 0 {
		return err
	}
	path = filepath.Join(f.out, "servers.csv")
	f.source.servers = []string{path}
	return saveTo("--out", path, func(w io.Writer) error { return writeServers(w, servers) })
}

func fetchHistory(cmd *cobra.Command, query prometheus.Query, w io.Writer) error {
	bar := newProgress(cmd, "asking Prometheus", int64(query.To.Sub(query.From)))
	defer bar.finish()
	packed := gzip.NewWriter(w)
	if _, err := io.WriteString(packed, "time,server,cpu\n"); err != nil {
		return err
	}
	stats, err := prometheus.Read(cmd.Context(), query, func(done time.Duration) { bar.add(int64(done) - bar.done) }, func(s history.Sample) error {
		_, err := fmt.Fprintf(packed, "%s,%s,%.2f\n", time.UnixMilli(s.Milli).UTC().Format(time.RFC3339Nano), csvField(string(s.Server)), 100*s.CPU)
		return err
	})
	if err != nil {
		return err
	}
	tellSkipped(cmd, query.URL, stats)
	return packed.Close()
}

// csvField writes a field of a CSV file.
func csvField(field string) string {
	if !strings.ContainsAny(field, ",\"\n\r") {
		return field
	}
	return `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
}

// sizes are the servers whose cores Prometheus knows.
func (f *assessFlags) sizes(cmd *cobra.Command, query prometheus.Query) ([]cluster.Server, error) {
	cores, err := query.Last(cmd.Context(), f.coresQuery)
	if err != nil {
		return nil, err
	}
	memory, err := query.Last(cmd.Context(), f.memoryQuery)
	if err != nil {
		return nil, err
	}
	var servers []cluster.Server
	for id, n := range cores {
		if n > 0 && n <= 4096 {
			servers = append(servers, cluster.Server{ID: id, CPU: cluster.MilliCPU(n * float64(cluster.Core)), Memory: cluster.Bytes(max(memory[id], 0))})
		}
	}
	slices.SortFunc(servers, func(a, b cluster.Server) int { return cmp.Compare(a.ID, b.ID) })
	return servers, nil
}

// assume gives a size to servers that have none, and tells what it assumed.
func (f *assessFlags) assume(servers []cluster.Server) (assumed []cluster.Server) {
	cores := cluster.MilliCPU(math.Round(f.cores * float64(cluster.Core)))
	memory := cluster.Bytes(math.Round(f.memoryGB*1024)) << 20
	for i := range servers {
		s, guess := &servers[i], cluster.Server{ID: servers[i].ID}
		if s.CPU <= 0 {
			s.CPU, guess.CPU = cores, cores
		}
		if s.Memory <= 0 {
			s.Memory, guess.Memory = memory, memory
		}
		if guess.CPU > 0 || guess.Memory > 0 {
			assumed = append(assumed, guess)
		}
	}
	return assumed
}

// assessLoads are the shares of all cores that jobs ask for, beside that at which all
// policies are compared (simulation.Load).
var assessLoads = []float64{0.05, 0.20, 0.30, 0.40, 0.50}
