package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan/examples"
)

func newPlanExamples() *cobra.Command {
	return &cobra.Command{
		Use:     "examples DIR",
		Short:   "Write the paper's three applications and its hardware to a directory",
		Example: "  gleaner plan examples scc",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "name one directory to write to; see 'gleaner plan examples --help'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return input.Errorf("DIR", "%v", err)
			}
			var written []string
			for _, name := range examples.Names() {
				text, err := examples.Read(name)
				if err != nil {
					return err
				}
				path := filepath.Join(args[0], name)
				if err := writeNew(path, text); err != nil {
					return err
				}
				written = append(written, path)
			}
			if wantJSON(cmd) {
				return printJSON(cmd, map[string]any{"files": written})
			}
			for _, path := range written {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		},
	}
}

// writeNew writes a file, but never over one with another content.
func writeNew(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil {
		if string(old) == string(text) {
			return nil
		}
		return input.Errorf(path, "exists and differs; move it or name another directory")
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("plan examples: %w", err)
	}
	return nil
}
