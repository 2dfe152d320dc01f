package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/input"
	lab "gleaner/lab/dilation"
	"gleaner/local/standard"
)

func newDilation() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dilation",
		Short: "Measure and predict how much jobs slow each other down",
		Long: `Dilation is how much longer jobs take when they share a machine. A job is described
by its loading vector: the share of its time, alone, that it spends on a core and
on the disk. 'profile' finds it from the times the job takes, 'predict' computes when
jobs side by side will end, and 'validate' runs real jobs to test the predictions.`,
		Example: `  gleaner dilation profile -- gzip -kf big.log
  gleaner dilation predict mix.yaml
  gleaner dilation validate --quick`,
		Args: noArgs,
		RunE: help,
	}
	cmd.AddCommand(newDilationStd(), newDilationProfile(), newDilationPredict(), newDilationValidate())
	return cmd
}

func newDilationStd() *cobra.Command {
	var size int64
	var dir string
	var names, does []string
	for _, k := range standard.Kinds() {
		names = append(names, k.Name)
		does = append(does, fmt.Sprintf("  %-9s %s (%s)", k.Name, k.Does, k.Unit))
	}
	cmd := &cobra.Command{
		Use:   "std " + strings.Join(names, "|"),
		Short: "Run a job of a fixed amount of work",
		Long: `Std runs a standard job: a fixed amount of work that takes as long every time it
runs alone. The first four keep one resource busy, and serve to measure what share
of it another job uses; the others use both CPU and disk.

` + strings.Join(does, "\n") + `

Those that use the disk bypass the page cache, so that the machine's memory does
not matter, and say so when the file system does not let them. They share a file
of 256 MB in --dir, which is made at the first run and stays.`,
		Example: `  time gleaner dilation std cpu --size 1000
  gleaner dilation std io --size 500 --dir /mnt/disk`,
		Args:      cobra.ArbitraryArgs,
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "'%s' takes one kind of job: %s", cmd.CommandPath(), strings.Join(names, ", "))
			}
			kind, found := standard.Find(args[0])
			switch {
			case !found:
				return input.Errorf("", "there is no standard job %q; there are %s", args[0], strings.Join(names, ", "))
			case size < 0:
				return input.Errorf("--size", "%d is negative", size)
			}
			return runStd(cmd, standard.Job{Kind: kind, Size: size, Dir: dir})
		},
	}
	cmd.Flags().Int64Var(&size, "size", 100, "how much work, in the job's unit; 0 goes on until Ctrl-C")
	addBenchDir(cmd, &dir)
	return cmd
}

func runStd(cmd *cobra.Command, j standard.Job) error {
	if j.Kind.Disk {
		if err := readyDir(j.Dir); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := j.Run(cmd.Context()); err != nil {
		return err
	}
	took := time.Since(start)
	if wantJSON(cmd) {
		return printJSON(cmd, map[string]any{"job": j.Kind.Name, "size": j.Size, "unit": j.Kind.Unit, "took_s": took.Seconds()})
	}
	if j.Size == 0 {
		return nil
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %d %s in %.3f s\n", j.Kind.Name, j.Size, j.Kind.Unit, took.Seconds())
	return err
}

// addBenchDir adds the flag for the directory of the jobs' file.
func addBenchDir(cmd *cobra.Command, dir *string) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cmd.Flags().StringVar(dir, "dir", "", "directory of the file for jobs that use the disk (default "+filepath.Join(cache, "gleaner")+")")
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *dir == "" {
			*dir = filepath.Join(cache, "gleaner")
			_ = os.MkdirAll(*dir, 0o755) // a missing directory is reported when it is used
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// readyDir makes the file that jobs use, before anything is timed.
func readyDir(dir string) error {
	if at, err := os.Stat(dir); err != nil || !at.IsDir() {
		return input.Errorf("--dir", "%s is not a directory", dir)
	}
	return standard.Prepare(dir)
}

// newBench runs jobs side by side. Standard jobs are this program.
func newBench(cmd *cobra.Command, cores int, dir, what string) (*lab.Bench, func(), error) {
	if cores < 0 || cores > runtime.NumCPU() {
		return nil, nil, input.Errorf("--cores", "%d of this machine's %s", cores, counted(runtime.NumCPU(), "core"))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	bar := newProgress(cmd, what, 0)
	b := &lab.Bench{Cores: cores, Tries: 3, Done: func() { bar.add(1) },
		Std: func(kind string, size int64) []string {
			return []string{self, "dilation", "std", kind, "--size", strconv.FormatInt(size, 10), "--dir", dir}
		}}
	return b, bar.finish, readyDir(dir)
}
