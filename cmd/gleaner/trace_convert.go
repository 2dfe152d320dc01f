package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/replay/hadooprpc"
)

func newTraceConvert() *cobra.Command {
	var files traceFiles
	var out, descriptors string
	cmd := &cobra.Command{
		Use:   "convert FILE...",
		Short: "Write traces as the common record, one call a line",
		Example: `  gleaner trace convert audit.log.gz > trace.jsonl
  gleaner trace convert n003.jsonl.gz n004.jsonl.gz --out all.jsonl.zst
  gleaner trace convert n003 --descriptors ~/.cache/gleaner/hadoop-3.4.2/hadoop.protoset --out n003.jsonl.gz`,
		Args: needFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := files.check(args); err != nil {
				return err
			}
			complete, err := completion(descriptors)
			if err != nil {
				return err
			}
			return convertTraces(cmd, &files, args, out, complete)
		},
	}
	files.flags(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, .gz or .zst to compress (default: standard output)")
	cmd.Flags().StringVar(&descriptors, "descriptors", "", "a file with the descriptors of Hadoop's messages, for what its own logs lack; 'gleaner lab namenode' prints where one is")
	return cmd
}

// completion adds to calls what Hadoop's own logs lack, if there are descriptors.
func completion(descriptors string) (func(*trace.Call), error) {
	if descriptors == "" {
		return func(*trace.Call) {}, nil
	}
	set, err := os.ReadFile(descriptors)
	if err != nil {
		return nil, input.Errorf("--descriptors", "%v", err)
	}
	schema, err := hadooprpc.ReadSchema(set)
	if err != nil {
		return nil, input.Errorf(descriptors, "%v", err)
	}
	return schema.Complete, nil
}

// convertTraces writes the calls of all files. A bad line ends its file; the calls
// before it are kept, and if there are none, no file is written.
func convertTraces(cmd *cobra.Command, files *traceFiles, paths []string, out string, complete func(*trace.Call)) error {
	var bad []error
	err := saveTrace(cmd, "--out", out, func(w *trace.Writer) error {
		written := 0
		for _, path := range paths {
			err := files.each(cmd.Context(), path, func(c *trace.Call) error {
				written++
				complete(c)
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
