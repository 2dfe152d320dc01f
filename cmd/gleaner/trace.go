package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// check refuses a scale of a file that is not read.
func (t *traceFiles) check(paths []string) error {
	for _, s := range t.scales {
		name := s[:max(strings.LastIndexByte(s, '='), 0)]
		if name != "" && !slices.ContainsFunc(paths, func(path string) bool { return isNamed(path, name) }) {
			return input.Errorf("--scale", "%q: no file that is read is called %q", s, name)
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
		if err != nil || n <= 0 {
			return 0, input.Errorf("--scale", "%q: the scale must be a positive number", s)
		}
		if isNamed(path, s[:at]) {
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := files.check(args); err != nil {
				return err
			}
			return convertTraces(cmd, &files, args, out)
		},
	}
	files.flags(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, .gz or .zst to compress (default: standard output)")
	return cmd
}

// convertTraces writes the calls of all files. A bad line ends its file; what
// came before it is kept, and where nothing did, no file is written.
func convertTraces(cmd *cobra.Command, files *traceFiles, paths []string, out string) error {
	var bad []error
	err := saveTrace(cmd, "--out", out, func(w *trace.Writer) error {
		written := 0
		for _, path := range paths {
			err := files.each(cmd.Context(), path, func(c *trace.Call) error {
				written++
				return w.Write(c)
			})
			if err != nil && !input.Is(err) {
				return err
			}
			bad = append(bad, err)
		}
		if written == 0 {
			return errNothing
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		err = nil // bad tells why
	}
	return errors.Join(errors.Join(bad...), err)
}

// errNothing says that there is nothing to write.
var errNothing = errors.New("nothing to write")

// saveTrace writes a trace to a file, compressed by its ending, or to stdout.
// The file is written whole or not at all, and only then takes the place of
// one that is there.
func saveTrace(cmd *cobra.Command, flag, path string, write func(*trace.Writer) error) error {
	fill := func(to io.Writer) error {
		w := trace.NewWriter(to)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	if st, err := os.Stat(path); path == "" || path == "-" || err == nil && !st.Mode().IsRegular() {
		to, err := createTrace(cmd, flag, path) // a pipe or a device
		if err != nil {
			return err
		}
		return cmp.Or(fill(to), to.Close())
	}
	err := writeFile(path, func(to io.Writer) error {
		z, err := compressFor(path, to)
		if err != nil {
			return err
		}
		return cmp.Or(fill(z), z.Close())
	})
	var wrong *fs.PathError
	if errors.As(err, &wrong) {
		return input.Errorf(flag, "%s cannot be written: %v", path, wrong.Err)
	}
	return err
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

// compressFor compresses what goes to w as the ending of path says.
func compressFor(path string, w io.Writer) (io.WriteCloser, error) {
	switch filepath.Ext(path) {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w)
	}
	return stacked{w, nil}, nil
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
			if err := files.check(args); err != nil {
				return err
			}
			if limit < 0 {
				return input.Errorf("--limit", "%d is less than nothing", limit)
			}
			if sender != "" {
				return showSender(cmd, &files, args, sender, limit)
			}
			return showCounts(cmd, &files, args)
		},
	}
	files.flags(cmd)
	cmd.Flags().StringVar(&sender, "sender", "", "print the calls of this sender")
	cmd.Flags().IntVar(&limit, "limit", 100, "print at most this many calls of each file; 0 for all")
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
	if len(sorted) == 0 {
		return errors.Join(bad...)
	}
	return errors.Join(printCounts(cmd, runs, sorted), errors.Join(bad...))
}

func printCounts(cmd *cobra.Command, runs []traceRun, rows []traceCount) error {
	if wantJSON(cmd) {
		return printJSON(cmd, map[string]any{"runs": runs, "counts": rows})
	}
	header := []string{"sender", "target", "call"}
	for _, r := range runs {
		header = append(header, ">"+scaleText(r.Scale))
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

// scaleText writes a scale; 0 is one that nothing tells.
func scaleText(scale int) string {
	if scale == 0 {
		return "n=?"
	}
	return fmt.Sprintf("n=%d", scale)
}

func showSender(cmd *cobra.Command, files *traceFiles, paths []string, sender string, limit int) error {
	var bad []error
	found := []json.RawMessage{}
	for _, path := range paths {
		var first int64
		shown := 0
		err := files.each(cmd.Context(), path, func(c *trace.Call) (err error) {
			if c.Sender != sender || limit > 0 && shown == limit {
				return nil
			}
			if shown == 0 {
				first = c.Start
			}
			shown++
			if wantJSON(cmd) {
				found, err = appendCall(found, c)
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%9.3fs  %s %s(%s) = %s\n", float64(c.Start-first)/1e9, c.Target, c.Method,
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
	if wantJSON(cmd) && len(found) > 0 {
		bad = append(bad, printJSON(cmd, map[string]any{"calls": found}))
	}
	return errors.Join(bad...)
}

// appendCall adds a call in the common record.
func appendCall(all []json.RawMessage, c *trace.Call) ([]json.RawMessage, error) {
	var line bytes.Buffer
	w := trace.NewWriter(&line)
	if err := w.Write(c); err != nil {
		return all, err
	}
	err := w.Flush()
	return append(all, line.Bytes()), err
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
