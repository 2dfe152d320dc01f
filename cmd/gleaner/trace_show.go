package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace"
)

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
		Short: "Print a trace for people: counts by scale side by side, or one sender's calls",
		Example: `  gleaner trace show n003.jsonl.gz n006a.jsonl.gz n012.jsonl.gz
  gleaner trace show n003.jsonl.gz --sender client --limit 40`,
		Args: needFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := files.check(args); err != nil {
				return err
			}
			if limit < 0 {
				return input.Errorf("--limit", "%d is negative", limit)
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

// scaleText writes a scale; 0 is unknown.
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
