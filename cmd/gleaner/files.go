package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/chart"
	"gleaner/history"
	"gleaner/kv/mem"
)

// historyFlags say where a command takes its history from: files, or the data
// directory when none is named.
type historyFlags struct {
	files   []string
	servers []string
	skipBad bool
}

func (f *historyFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.files, "history", nil, "history files (time,server,cpu[,mem][,tenant]), plain, .gz or .zst; more may follow as arguments")
	cmd.Flags().StringSliceVar(&f.servers, "servers", nil, "servers file (server,environment,function,rack,cores,memory_mb,disk_gb); may be given again")
	cmd.Flags().BoolVar(&f.skipBad, "skip-bad", false, "pass over bad rows, and count them")
	addDataFlag(cmd)
}

// with opens the history for the time of do. Files are read into memory and
// leave no trace.
func (f *historyFlags) with(cmd *cobra.Command, do func(*history.Store) error) error {
	servers, err := readServers(f.servers)
	if err != nil {
		return err
	}
	if len(f.files) == 0 {
		return withOldHistory(cmd, do)
	}
	store, err := history.Open(cmd.Context(), mem.New())
	if err != nil {
		return err
	}
	var result imported
	err = store.Import(cmd.Context(), func(im *history.Import) error {
		im.SetServers(servers)
		return importFiles(cmd, im, f.files, f.skipBad, &result)
	})
	if err != nil {
		return err
	}
	result.tellSkipped(cmd)
	return do(store)
}

// saveFigures writes figures into dir and tells where.
func saveFigures(cmd *cobra.Command, dir string, figures []chart.Figure) error {
	var paths []string
	for _, f := range figures {
		saved, err := f.Save(dir)
		if err != nil {
			return err
		}
		paths = append(paths, saved...)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", strings.Join(paths, ", "))
	return nil
}
