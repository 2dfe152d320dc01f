package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/local/proc"
)

func newHistorySample() *cobra.Command {
	var every time.Duration
	var count int
	var server string
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "Record how busy this machine is",
		Long: `Record how busy this machine is, from /proc: the share of the CPU in use since the
last sample, and the share of memory that is not available (the page cache is
available). It goes on until --count samples are taken or Ctrl-C is pressed.

The data directory is opened for each sample only; if another process holds it at that
moment, the sample is kept and written with a later one.`,
		Example: `  gleaner history sample
  gleaner history sample --every 30s --count 10`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case every < time.Second:
				return input.Errorf("--every", "%v is less than a second", every)
			case count < 0:
				return input.Errorf("--count", "%d is negative", count)
			}
			if server == "" {
				name, err := os.Hostname()
				if err != nil {
					return input.Errorf("--server", "this machine has no name; give it one")
				}
				server = name
			}
			if err := history.CheckName(server); err != nil {
				return input.Errorf("--server", "%v", err)
			}
			return sampleMachine(cmd, cluster.ServerID(server), every, count)
		},
	}
	cmd.Flags().DurationVar(&every, "every", 2*time.Minute, "time between samples")
	cmd.Flags().IntVar(&count, "count", 0, "stop after this many samples (0: go on)")
	cmd.Flags().StringVar(&server, "server", "", "name of this machine in the history (default its host name)")
	addStoreFlag(cmd)
	return cmd
}

// sampled is one line of 'history sample'.
type sampled struct {
	Time   time.Time        `json:"time"`
	Server cluster.ServerID `json:"server"`
	CPU    float32          `json:"cpu"`
	Mem    float32          `json:"mem"`
}

func sampleMachine(cmd *cobra.Command, server cluster.ServerID, every time.Duration, count int) error {
	meter, err := proc.Open()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	// A directory that cannot be used is reported now, not after the first interval.
	if err := keepPatiently(ctx, cmd, nil); err != nil {
		return err
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var waiting []history.Sample
	for n := 1; ; n++ {
		var now time.Time
		select {
		case <-ctx.Done():
			return flushWaiting(cmd, waiting)
		case now = <-ticks.C:
		}
		cpu, mem, err := meter.Read()
		if err != nil {
			return err
		}
		waiting = append(waiting, history.Sample{Milli: now.UnixMilli(), Server: server, CPU: cpu, Mem: mem})
		if err := printSample(cmd, sampled{now.UTC().Truncate(time.Millisecond), server, cpu, mem}); err != nil {
			return err
		}
		switch err := keep(ctx, cmd, waiting); {
		case err == nil:
			waiting = nil
		case !errors.Is(err, kv.ErrHeld):
			return err
		}
		if n == count {
			return flushWaiting(cmd, waiting)
		}
	}
}

// flushWaiting writes the samples that could not be written while another process
// held the data directory.
func flushWaiting(cmd *cobra.Command, waiting []history.Sample) error {
	if len(waiting) == 0 {
		return nil
	}
	return keepPatiently(context.WithoutCancel(cmd.Context()), cmd, waiting)
}

// keepPatiently is keep, but gives another command a few seconds to finish.
func keepPatiently(ctx context.Context, cmd *cobra.Command, samples []history.Sample) error {
	for patience := 30; ; patience-- {
		err := keep(ctx, cmd, samples)
		if !errors.Is(err, kv.ErrHeld) || patience == 0 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// keep writes the samples to the data directory.
func keep(ctx context.Context, cmd *cobra.Command, samples []history.Sample) error {
	return withHistory(cmd, func(s *history.Store) error {
		if len(samples) == 0 {
			return nil
		}
		return s.Append(ctx, samples...)
	})
}

func printSample(cmd *cobra.Command, s sampled) error {
	if wantJSON(cmd) {
		return printJSON(cmd, s)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  cpu %5.1f%%  mem %5.1f%%\n", clock(s.Time), s.Server, 100*s.CPU, 100*s.Mem)
	return err
}
