package main

import "github.com/spf13/cobra"

func newHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Keep what every server did: utilisation and reimages",
		Long: `Keep what every server did: utilisation and reimages.

History comes from CSV files, from Prometheus, or live from this machine, and is
kept compressed in the data directory. See docs/history.md.`,
		Example: `  gleaner history import cpu.csv.gz --servers servers.csv
  gleaner history show
  gleaner history rm --before 2026-01-01T00:00:00Z`,
		Args: noArgs,
		RunE: help,
	}
	cmd.AddCommand(newHistoryImport(), newHistoryShow(), newHistoryRm(), newHistorySample())
	return cmd
}
