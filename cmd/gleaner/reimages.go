package main

import (
	"cmp"
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
		Use:   "reimages --log FILE --servers FILE",
		Short: "Tell how often servers and tenants are reimaged, and whether the often stay often",
		Long: `Reimages reads a log of disk reimages (time,server,cause) and a servers file, and
tells how often each server and tenant is reimaged, which third of the tenants
it belongs to, and how often tenants move between the thirds from month to
month. Data survives where replicas lie with tenants that are seldom reimaged,
and never all at once.`,
		Example: `  gleaner reimages --log reimages.csv --servers servers.csv
  gleaner reimages --log reimages.csv --servers servers.csv --plot out
  gleaner reimages --log reimages.csv --servers servers.csv --json | jq .tenants_list[0]`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(logs) == 0 {
				return input.Errorf("--log", "name the reimage log (time,server,cause)")
			}
			if len(servers) == 0 {
				return input.Errorf("--servers", "name the servers file (server,environment,function,…)")
			}
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
	cmd.Flags().StringSliceVar(&logs, "log", nil, "the reimage log, plain, .gz or .zst; may be given again")
	cmd.Flags().StringSliceVar(&servers, "servers", nil, "the servers file; may be given again")
	cmd.Flags().StringVar(&plot, "plot", "", "write pictures (SVG and PNG) into this directory")
	cmd.Flags().BoolVar(&skipBad, "skip-bad", false, "count bad rows of the log and go on")
	return cmd
}

func analyseReimages(cmd *cobra.Command, logs, serverFiles []string, skipBad bool) (reimages.Report, error) {
	servers, err := readServers(serverFiles)
	if err != nil {
		return reimages.Report{}, err
	}
	log, err := readReimages(cmd, logs, history.ReadOptions{SkipBad: skipBad})
	if err != nil {
		return reimages.Report{}, err
	}
	return reimages.Analyse(servers, log), nil
}

// shownTenants is how many of the most often reimaged tenants a person is shown.
const shownTenants = 20

func printReimages(out io.Writer, r reimages.Report) error {
	fmt.Fprintf(out, "%d reimages of %d servers (%d tenants)", r.Reimages, len(r.Servers), len(r.Tenants))
	if r.Months > 0 {
		fmt.Fprintf(out, " in the %d months from %s to %s", r.Months, r.From.Format("January 2006"), r.To.Add(-time.Second).Format("January 2006"))
	}
	fmt.Fprintln(out)
	if r.Strays > 0 {
		fmt.Fprintf(out, "%d reimages of servers that are not in the servers file were left out\n", r.Strays)
	}
	fmt.Fprintln(out)
	if err := reimageSummary(r).print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return reimageTenants(r).print(out)
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
	if more := len(r.Tenants) - shownTenants; more > 0 {
		t.row(fmt.Sprintf("… and %d more, see --json", more), "", "", "", "", "")
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
	out := reimagesOut{Months: r.Months, Servers: len(r.Servers), Tenants: len(r.Tenants), Reimages: r.Reimages, Strays: r.Strays,
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
