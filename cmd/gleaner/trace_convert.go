package main

import (
	"errors"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace"
)

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

// convertTraces writes the calls of all files. A bad line ends its file; the calls
// before it are kept, and if there are none, no file is written.
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
		err = nil // bad has the reason
	}
	return errors.Join(errors.Join(bad...), err)
}

// errNothing says that there is nothing to write.
var errNothing = errors.New("nothing to write")
