package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
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
		Short: "Learn what a cluster asks of its masters, and grow it to a scale nobody owns",
		Long: `Record the calls of a system at small scales, learn the program behind them, and
write the traffic of any larger scale.

Every command reads the common record (one call a line), Kubernetes audit logs
at level RequestResponse, the same events with Hadoop RPC inside, and a Hadoop
client's log at TRACE; told apart by content, plain, .gz or .zst. A folder of
files, one for each process, is one run. The scale of a file or folder comes
from its records, from a name like n026.jsonl.gz, or from --scale.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTraceRecord(), newTraceConvert(), newTraceShow(), newTraceMine(), newTraceGrow(), newTraceReplay(), newTraceCarry())
	return cmd
}

// traceFiles is what every command that reads traces is told about them.
type traceFiles struct {
	scales []string
}

func (t *traceFiles) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&t.scales, "scale", nil, "the scale of a file, as FILE=N")
}

// scaleOf is the scale the user gave a file, 0 for none.
func (t *traceFiles) scaleOf(path string) (int, error) {
	for _, s := range t.scales {
		at := strings.LastIndexByte(s, '=')
		if at < 0 {
			return 0, input.Errorf("--scale", "%q is not FILE=N", s)
		}
		n, err := strconv.Atoi(s[at+1:])
		if err != nil || n <= 0 {
			return 0, input.Errorf("--scale", "%q: the scale must be a positive number", s)
		}
		if s[:at] == path || s[:at] == filepath.Base(path) {
			return n, nil
		}
	}
	return 0, nil
}

// each calls visit for every call of a file. A bad line ends the file; what
// was read before it was visited already.
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

// needFiles wants at least one file.
func needFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return input.Errorf("", "'%s' needs at least one trace file; see --help", cmd.CommandPath())
	}
	return nil
}

func newTraceConvert() *cobra.Command {
	var files traceFiles
	var out string
	cmd := &cobra.Command{
		Use:   "convert FILE...",
		Short: "Write traces as the common record, one call a line",
		Example: `  gleaner trace convert audit.log.gz > trace.jsonl
  gleaner trace convert n003.jsonl.gz n004.jsonl.gz --out all.jsonl.zst`,
		Args: needFiles,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			to, err := createTrace(cmd, "--out", out)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, to.Close()) }()
			w := trace.NewWriter(to)
			var bad []error
			for _, path := range args {
				err := files.each(cmd.Context(), path, w.Write)
				if err != nil && !input.Is(err) {
					return err
				}
				bad = append(bad, err)
			}
			return errors.Join(errors.Join(bad...), w.Flush())
		},
	}
	files.flags(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, .gz or .zst to compress (default: standard output)")
	return cmd
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
	switch filepath.Ext(path) {
	case ".gz":
		z := gzip.NewWriter(f)
		return stacked{z, []io.Closer{z, f}}, nil
	case ".zst":
		z, err := zstd.NewWriter(f)
		if err != nil {
			return nil, err
		}
		return stacked{z, []io.Closer{z, f}}, nil
	}
	return stacked{f, []io.Closer{f}}, nil
}

// stacked is a writer with everything below it that wants closing.
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

// A traceCount is one row of `gleaner trace show`.
type traceCount struct {
	Sender string `json:"sender"`
	Target string `json:"target"`
	Method string `json:"method"`
	Counts []int  `json:"counts"`
}

type traceRun struct {
	File    string `json:"file"`
	Scale   int    `json:"scale"`
	Calls   int    `json:"calls"`
	Senders int    `json:"senders"`
}

func newTraceShow() *cobra.Command {
	var files traceFiles
	var sender string
	var limit int
	cmd := &cobra.Command{
		Use:   "show FILE...",
		Short: "Print a trace as a person reads it: counts by scale side by side, or one sender's calls",
		Example: `  gleaner trace show n003.jsonl.gz n006a.jsonl.gz n012.jsonl.gz
  gleaner trace show n003.jsonl.gz --sender client --limit 40`,
		Args: needFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if sender != "" {
				return showSender(cmd, &files, args, sender, limit)
			}
			return showCounts(cmd, &files, args)
		},
	}
	files.flags(cmd)
	cmd.Flags().StringVar(&sender, "sender", "", "print the calls of this sender")
	cmd.Flags().IntVar(&limit, "limit", 100, "print at most this many calls of each file")
	return cmd
}

var digits = regexp.MustCompile(`\d+`)

func showCounts(cmd *cobra.Command, files *traceFiles, paths []string) error {
	runs := make([]traceRun, len(paths))
	rows := map[[3]string]*traceCount{}
	var bad []error
	for i, path := range paths {
		runs[i].File = path
		senders := map[string]bool{}
		err := files.each(cmd.Context(), path, func(c *trace.Call) error {
			runs[i].Scale = c.Scale
			runs[i].Calls++
			if !senders[c.Sender] {
				senders[strings.Clone(c.Sender)] = true
			}
			key := [3]string{digits.ReplaceAllString(c.Sender, "#"), c.Target, c.Method}
			row := rows[key]
			if row == nil {
				row = &traceCount{strings.Clone(key[0]), strings.Clone(c.Target), strings.Clone(c.Method), make([]int, len(paths))}
				rows[[3]string{row.Sender, row.Target, row.Method}] = row
			}
			row.Counts[i]++
			return nil
		})
		if err != nil && !input.Is(err) {
			return err
		}
		bad = append(bad, err)
		runs[i].Senders = len(senders)
	}
	sorted := make([]traceCount, 0, len(rows))
	for _, row := range rows {
		sorted = append(sorted, *row)
	}
	slices.SortFunc(sorted, func(a, b traceCount) int {
		return cmp.Or(cmp.Compare(a.Sender, b.Sender), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Method, b.Method))
	})
	return errors.Join(printCounts(cmd, runs, sorted), errors.Join(bad...))
}

func printCounts(cmd *cobra.Command, runs []traceRun, rows []traceCount) error {
	if wantJSON(cmd) {
		return printJSON(cmd, map[string]any{"runs": runs, "counts": rows})
	}
	header := []string{"sender", "target", "call"}
	for _, r := range runs {
		header = append(header, fmt.Sprintf(">n=%d", r.Scale))
	}
	t := newTable(header...)
	for _, row := range rows {
		cells := []string{row.Sender, row.Target, row.Method}
		for _, n := range row.Counts {
			cells = append(cells, strconv.Itoa(n))
		}
		t.row(cells...)
	}
	total, senders := []string{"all", "", "calls"}, []string{"all", "", "senders"}
	for _, r := range runs {
		total, senders = append(total, strconv.Itoa(r.Calls)), append(senders, strconv.Itoa(r.Senders))
	}
	t.row(total...)
	t.row(senders...)
	return t.print(cmd.OutOrStdout())
}

func showSender(cmd *cobra.Command, files *traceFiles, paths []string, sender string, limit int) error {
	var bad []error
	for _, path := range paths {
		var first int64
		shown := 0
		err := files.each(cmd.Context(), path, func(c *trace.Call) error {
			if c.Sender != sender || shown == limit {
				return nil
			}
			if first == 0 {
				first = c.Start
			}
			shown++
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%9.3fs  %s %s(%s) = %s\n", float64(c.Start-first)/1e9, c.Target, c.Method,
				messageText(c.Request), messageText(c.Response))
			return err
		})
		if err != nil && !input.Is(err) {
			return err
		}
		if err == nil && shown == 0 {
			err = input.Errorf("--sender", "%s has no sender %q", path, sender)
		}
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

func messageText(leaves []trace.Leaf) string {
	var out []string
	for _, l := range leaves {
		value := l.Value
		if l.Kind == trace.String {
			value = strconv.Quote(value)
		}
		out = append(out, l.Path+": "+value)
	}
	return brief(strings.Join(out, ", "), 160)
}

// brief cuts a long text at n characters.
func brief(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return s
}
