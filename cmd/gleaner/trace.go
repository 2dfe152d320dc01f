package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace"
)

func newTrace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Learn the traffic of a cluster to its masters, and extrapolate it to any scale",
		Long: `Record the calls of a system at small scales, learn the program behind them, and
write the traffic of any larger scale.

Every command reads the common record (one call a line), Kubernetes audit logs
at level RequestResponse, the same events with Hadoop RPC inside, and a Hadoop
client's log at TRACE; recognised by content, plain, .gz or .zst. A folder of
files, one for each process, is one run. The scale of a file or folder comes
from its records, from a name like n026.jsonl.gz, or from --scale.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTraceRecord(), newTraceConvert(), newTraceShow(), newTraceMine(), newTraceGrow(), newTraceReplay(), newTracePlayer(), newTraceCarry(), newTracePart())
	return cmd
}

// traceFiles are the flags of every command that reads traces.
type traceFiles struct {
	scales []string
}

func (t *traceFiles) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&t.scales, "scale", nil, "the scale of a file, as FILE=N")
}

// check refuses a scale of a file that is not read.
func (t *traceFiles) check(paths []string) error {
	for _, s := range t.scales {
		name := s[:max(strings.LastIndexByte(s, '='), 0)]
		if name != "" && !slices.ContainsFunc(paths, func(path string) bool { return isNamed(path, name) }) {
			return input.Errorf("--scale", "%q: no trace file is called %q", s, name)
		}
	}
	return nil
}

func isNamed(path, name string) bool { return name == path || name == filepath.Base(path) }

// scaleOf is the scale the user gave a file, 0 for none.
func (t *traceFiles) scaleOf(path string) (int, error) {
	for _, s := range t.scales {
		at := strings.LastIndexByte(s, '=')
		if at < 0 {
			return 0, input.Errorf("--scale", "%q is not FILE=N", s)
		}
		n, err := strconv.Atoi(s[at+1:])
		if err != nil || n <= 0 || n > trace.MaxScale {
			return 0, input.Errorf("--scale", "%q: the scale must be a positive number, and not above %d", s, trace.MaxScale)
		}
		if isNamed(path, s[:at]) {
			return n, nil
		}
	}
	return 0, nil
}

// each calls visit for every call of a file, up to a bad line, which ends the file.
func (t *traceFiles) each(ctx context.Context, path string, visit func(*trace.Call) error) error {
	scale, err := t.scaleOf(path)
	if err != nil {
		return err
	}
	r, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	for i := 0; ; i++ {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c, err := r.Next()
		if err == io.EOF && i == 0 {
			return input.Errorf(path, "holds no calls")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if scale > 0 {
			c.Scale = scale
		}
		if err := visit(c); err != nil {
			return err
		}
	}
}

// needFiles requires at least one file.
func needFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return input.Errorf("", "'%s' needs at least one trace file; see --help", cmd.CommandPath())
	}
	return nil
}

// saveTrace writes a trace to a file, compressed by its ending, or to stdout.
func saveTrace(cmd *cobra.Command, flag, path string, write func(*trace.Writer) error) error {
	fill := func(to io.Writer) error {
		w := trace.NewWriter(to)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	if path == "" || path == "-" {
		return fill(cmd.OutOrStdout())
	}
	return saveTo(flag, path, func(to io.Writer) error {
		z, err := compressFor(path, to)
		if err != nil {
			return err
		}
		return cmp.Or(fill(z), z.Close())
	})
}

// createTrace opens where a trace goes: a file, compressed by its ending, or stdout.
func createTrace(cmd *cobra.Command, flag, path string) (io.WriteCloser, error) {
	if path == "" || path == "-" {
		return stacked{cmd.OutOrStdout(), nil}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, input.Errorf(flag, "%v", err)
	}
	z, err := compressFor(path, f)
	if err != nil {
		return nil, err
	}
	return stacked{z, []io.Closer{z, f}}, nil
}

// compressFor compresses what is written to w by the ending of path.
func compressFor(path string, w io.Writer) (io.WriteCloser, error) {
	switch filepath.Ext(path) {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w)
	}
	return stacked{w, nil}, nil
}

// stacked is a writer with everything below it that must be closed.
type stacked struct {
	io.Writer
	below []io.Closer
}

func (s stacked) Close() error {
	var errs []error
	for _, c := range s.below {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
