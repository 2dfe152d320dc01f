package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/history/reimages"
	"gleaner/input"
	"gleaner/lab/patterns"
)

func newReimages() *cobra.Command {
	var logs, servers []string
	var plot string
	var skipBad bool
	cmd := &cobra.Command{
		Use:   "reimages [--log FILE --servers FILE]",
		Short: "Show how often servers and tenants are reimaged, and whether that stays the same",
		Long: `Reimages reads a log of disk reimages (time,server,cause) and a servers file, and
shows how often each server and tenant is reimaged, which third of the tenants
it belongs to, and how often tenants move between the thirds from month to
month. Data survives if replicas are with tenants that are seldom reimaged, and
never all at once.

Without files it reads the data directory that 'gleaner history import
--reimages --servers' fills.`,
		Example: `  gleaner reimages --log reimages.csv --servers servers.csv
  gleaner reimages --log reimages.csv --servers servers.csv --plot out
  gleaner reimages --log reimages.csv --servers servers.csv --json | jq .tenants_list[0]`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := analyseReimages(cmd, logs, servers, skipBad)
			if err != nil {
				return err
			}
			if plot != "" {
				if err := saveFigures(cmd, plot, patterns.Reimages(r)); err != nil {
					return err
				}
			}
			if wantJSON(cmd) {
				return printJSON(cmd, reimagesJSON(r))
			}
			return printReimages(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().StringArrayVar(&logs, "log", nil, "the reimage log, plain, gzip or zstd, - for standard input; may be given again")
	cmd.Flags().StringArrayVar(&servers, "servers", nil, "the servers file; may be given again")
	cmd.Flags().StringVar(&plot, "plot", "", "write pictures (SVG and PNG) into this directory")
	cmd.Flags().BoolVar(&skipBad, "skip-bad", false, "count bad rows of the log and go on")
	addStoreFlag(cmd)
	return cmd
}

func analyseReimages(cmd *cobra.Command, logs, serverFiles []string, skipBad bool) (reimages.Report, error) {
	flag, stored := given(cmd, "data", "store")
	switch {
	case len(logs)+len(serverFiles) == 0:
		return recordedReimages(cmd)
	case len(logs) == 0:
		return reimages.Report{}, input.Errorf("--log", "name the reimage log (time,server,cause)")
	case len(serverFiles) == 0:
		return reimages.Report{}, input.Errorf("--servers", "name the servers file (server,environment,function,…)")
	case stored:
		return reimages.Report{}, input.Errorf(flag, "is not read when files are named; leave one of them out")
	}
	servers, err := readServers(serverFiles)
	if err != nil {
		return reimages.Report{}, err
	}
	log, err := readReimages(cmd, logs, history.ReadOptions{SkipBad: skipBad})
	if err != nil {
		return reimages.Report{}, err
	}
	r := reimages.Analyse(servers, log)
	if r.Reimages == 0 && r.Strays > 0 {
		return r, input.Errorf("--servers", "none of the servers in the reimage log is in the servers file (%s)", counted(r.Strays, "reimage"))
	}
	return r, nil
}

// recordedReimages reports on what the data directory holds.
func recordedReimages(cmd *cobra.Command) (r reimages.Report, err error) {
	err = withOldHistory(cmd, func(s *history.Store) (err error) {
		r, err = reimagesIn(cmd.Context(), s)
		return err
	})
	return r, err
}

// reimagesIn reports on what a history holds.
func reimagesIn(ctx context.Context, s *history.Store) (reimages.Report, error) {
	_, report, err := reimagedServers(ctx, s)
	return report, err
}

// reimagedServers are the servers of a history, and how often they were reimaged.
func reimagedServers(ctx context.Context, s *history.Store) ([]cluster.Server, reimages.Report, error) {
	servers, err := serversIn(ctx, s)
	if err != nil {
		return nil, reimages.Report{}, err
	}
	log, err := s.Reimages(ctx)
	return servers, reimages.Analyse(servers, log), err
}

// serversIn are the servers of a history, each with its tenant.
func serversIn(ctx context.Context, s *history.Store) ([]cluster.Server, error) {
	known, err := s.Servers(ctx)
	var servers []cluster.Server
	for _, server := range known {
		if tenant := server.Tenant(); tenant != server.Server.Tenant() {
			server.Environment = string(tenant) // the samples named it
		}
		servers = append(servers, server.Server)
	}
	return servers, err
}

// shownTenants is how many of the most often reimaged tenants a person is shown.
const shownTenants = 20

func printReimages(out io.Writer, r reimages.Report) error {
	fmt.Fprintf(out, "%s of %s (%s)", counted(r.Reimages, "reimage"), counted(len(r.Servers), "server"), counted(len(r.Tenants), "tenant"))
	switch {
	case r.Months == 1:
		fmt.Fprintf(out, " in %s", r.From.Format("January 2006"))
	case r.Months > 1:
		fmt.Fprintf(out, " in the %d months from %s to %s", r.Months, r.From.Format("January 2006"), r.To.Add(-time.Second).Format("January 2006"))
	}
	fmt.Fprintln(out)
	if r.Strays > 0 {
		fmt.Fprintf(out, "left out: %s of servers that are not listed\n", counted(r.Strays, "reimage"))
	}
	if r.Tied > 0 {
		fmt.Fprintf(out, "%s at the border of a group have the same rate: there the order of names decides\n", counted(r.Tied, "tenant"))
	}
	fmt.Fprintln(out)
	if err := reimageSummary(r).print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return printMost(out, reimageTenants(r), len(r.Tenants)-shownTenants)
}

func reimageSummary(r reimages.Report) *table {
	t := newTable("", ">ours", ">paper")
	share := func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }
	t.row("servers reimaged at most once a month", share(reimages.At(r.ServerCDF(), 1)), "at least 90%")
	t.row("tenants reimaged at most once per server and month", share(reimages.At(r.TenantCDF(), 1)), "at least 80%")
	if r.Months > 1 {
		few := 8 * (r.Months - 1) / 35
		t.row(fmt.Sprintf("tenants that change group at most %d of %d times", few, r.Months-1), share(reimages.At(r.ChangesCDF(), float64(few))), "at least 80% (8 of 35)")
	}
	return t
}

func reimageTenants(r reimages.Report) *table {
	t := newTable("tenant", ">servers", ">reimages", ">per server and month", "group", ">changes")
	for _, x := range mostReimaged(r)[:min(shownTenants, len(r.Tenants))] {
		t.row(string(x.ID), fmt.Sprint(x.Servers), fmt.Sprint(x.Reimages), fmt.Sprintf("%.3f", x.PerMonth), x.Group.String(), fmt.Sprint(x.Changes))
	}
	return t
}

func mostReimaged(r reimages.Report) []reimages.Tenant {
	sorted := slices.Clone(r.Tenants)
	slices.SortStableFunc(sorted, func(a, b reimages.Tenant) int { return cmp.Compare(b.PerMonth, a.PerMonth) })
	return sorted
}

// The JSON of reimages.
type (
	reimagesOut struct {
		From                 string             `json:"from"`
		To                   string             `json:"to"`
		Months               int                `json:"months"`
		Servers              int                `json:"servers"`
		Tenants              int                `json:"tenants"`
		Reimages             int                `json:"reimages"`
		Strays               int                `json:"strays"`
		Tied                 int                `json:"tenants_tied"`
		ServersAtMostMonthly float64            `json:"servers_at_most_once_a_month"`
		TenantsAtMostMonthly float64            `json:"tenants_at_most_once_a_month"`
		ServerCDF            []sharePoint       `json:"server_cdf"`
		TenantCDF            []sharePoint       `json:"tenant_cdf"`
		ChangesCDF           []sharePoint       `json:"changes_cdf"`
		TenantList           []reimageTenantOut `json:"tenants_list"`
		ServerList           []reimageServerOut `json:"servers_list"`
	}
	sharePoint struct {
		AtMost float64 `json:"at_most"`
		Share  float64 `json:"share"`
	}
	reimageTenantOut struct {
		Tenant   cluster.TenantID `json:"tenant"`
		Servers  int              `json:"servers"`
		Reimages int              `json:"reimages"`
		PerMonth float64          `json:"per_server_month"`
		Group    reimages.Group   `json:"group"`
		ByMonth  []reimages.Group `json:"groups_by_month"`
		Changes  int              `json:"changes"`
	}
	reimageServerOut struct {
		Server   cluster.ServerID `json:"server"`
		Tenant   cluster.TenantID `json:"tenant"`
		Reimages int              `json:"reimages"`
		PerMonth float64          `json:"per_month"`
	}
)

func reimagesJSON(r reimages.Report) reimagesOut {
	out := reimagesOut{Months: r.Months, Servers: len(r.Servers), Tenants: len(r.Tenants), Reimages: r.Reimages, Strays: r.Strays, Tied: r.Tied,
		ServersAtMostMonthly: reimages.At(r.ServerCDF(), 1), TenantsAtMostMonthly: reimages.At(r.TenantCDF(), 1),
		ServerCDF: sharePoints(r.ServerCDF()), TenantCDF: sharePoints(r.TenantCDF()), ChangesCDF: sharePoints(r.ChangesCDF()),
		TenantList: []reimageTenantOut{}, ServerList: []reimageServerOut{}}
	if r.Months > 0 {
		out.From, out.To = r.From.Format(time.DateOnly), r.To.Format(time.DateOnly)
	}
	for _, t := range mostReimaged(r) {
		out.TenantList = append(out.TenantList, reimageTenantOut{t.ID, t.Servers, t.Reimages, t.PerMonth, t.Group, t.ByMonth, t.Changes})
	}
	for _, s := range r.Servers {
		out.ServerList = append(out.ServerList, reimageServerOut{s.ID, s.Tenant, s.Reimages, s.PerMonth})
	}
	return out
}

func sharePoints(cdf []reimages.Share) []sharePoint {
	out := []sharePoint{}
	for _, p := range cdf {
		out = append(out, sharePoint{p.AtMost, p.Share})
	}
	return out
}
