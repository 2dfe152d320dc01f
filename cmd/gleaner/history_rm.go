package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/input"
)

func newHistoryRm() *cobra.Command {
	var before string
	var all bool
	cmd := &cobra.Command{
		Use:   "rm SERVER... | --before TIME | --all",
		Short: "Remove history",
		Long: `Remove history: servers with all that is known of them, or the samples and
reimages from before a time, or everything.`,
		Example: `  gleaner history rm vm001 vm002
  gleaner history rm --before 2026-01-01T00:00:00Z
  gleaner history rm --all`,
		RunE: func(cmd *cobra.Command, servers []string) error {
			chosen := 0
			for _, yes := range []bool{len(servers) > 0, before != "", all} {
				if yes {
					chosen++
				}
			}
			if chosen != 1 {
				return input.Errorf("", "name servers, or --before, or --all, and only one of them; see '%s --help'", cmd.CommandPath())
			}
			return withOldHistory(cmd, func(s *history.Store) error {
				return tellRemoved(cmd, s, func() error {
					switch {
					case all:
						return s.RemoveAll(cmd.Context())
					case before != "":
						return removeBefore(cmd, s, before)
					}
					return removeServers(cmd, s, servers)
				})
			})
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "remove what is older than this: Unix seconds or RFC 3339")
	cmd.Flags().BoolVar(&all, "all", false, "remove everything")
	addStoreFlag(cmd)
	return cmd
}

// removed is the result of 'history rm'.
type removed struct {
	Servers  int   `json:"servers"`
	Samples  int64 `json:"samples"`
	Reimages int   `json:"reimages"`
}

// tellRemoved prints what remove removed: what was held before and is not held after.
func tellRemoved(cmd *cobra.Command, s *history.Store, remove func() error) error {
	before, err := countHeld(cmd, s)
	if err != nil {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	after, err := countHeld(cmd, s)
	if err != nil {
		return err
	}
	r := removed{before.Servers - after.Servers, before.Samples - after.Samples, before.Reimages - after.Reimages}
	if wantJSON(cmd) {
		return printJSON(cmd, r)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %s, %s, %s\n", counted(r.Servers, "server"), counted(r.Samples, "sample"), counted(r.Reimages, "reimage"))
	return err
}

// countHeld counts what a store holds.
func countHeld(cmd *cobra.Command, s *history.Store) (removed, error) {
	all, err := s.Summaries(cmd.Context())
	if err != nil {
		return removed{}, err
	}
	reimages, err := s.Reimages(cmd.Context())
	total := removed{Servers: len(all), Reimages: len(reimages)}
	for _, sum := range all {
		total.Samples += sum.Samples
	}
	return total, err
}

func removeBefore(cmd *cobra.Command, s *history.Store, before string) error {
	moment, err := history.ParseTime(before)
	if err != nil {
		return input.Errorf("--before", "%v", err)
	}
	return s.RemoveBefore(cmd.Context(), moment)
}

// removeServers looks for all of them before it removes the first.
func removeServers(cmd *cobra.Command, s *history.Store, names []string) error {
	servers, err := s.Servers(cmd.Context())
	if err != nil {
		return err
	}
	known := map[cluster.ServerID]bool{}
	for _, server := range servers {
		known[server.ID] = true
	}
	for _, name := range names {
		if !known[cluster.ServerID(name)] {
			return input.Errorf("", "no server %q in the history; nothing was removed", name)
		}
	}
	for _, name := range names {
		if _, err := s.Remove(cmd.Context(), cluster.ServerID(name)); err != nil {
			return fmt.Errorf("remove %q: %w", name, err)
		}
	}
	return nil
}
