package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan/examples"
)

func newPlanNew() *cobra.Command {
	return &cobra.Command{
		Use:   "new DIR",
		Short: "Write commented documents to start a plan from",
		Long: `New writes an application, hardware and an SLA with a comment at every attribute. They
can be planned as they are; change them to what you have. If a file is there and was
changed, nothing is written.`,
		Example: `  gleaner plan new mine
  gleaner plan --app mine/app.yaml --hw mine/hardware.yaml --sla mine/sla.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "name one directory to write to; see 'gleaner plan new --help'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeDocuments(cmd, args[0], examples.New(), examples.ReadNew)
		},
	}
}

// writeDocuments writes files to a directory, all or none of them if one is there
// with another content.
func writeDocuments(cmd *cobra.Command, dir string, names []string, read func(string) ([]byte, error)) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return input.Errorf("DIR", "%v", err)
	}
	texts := make([][]byte, len(names))
	for i, name := range names {
		var err error
		if texts[i], err = read(name); err != nil {
			return err
		}
		path := filepath.Join(dir, name)
		if old, err := os.ReadFile(path); err == nil && string(old) != string(texts[i]) {
			return input.Errorf(path, "exists and differs; move it or name another directory")
		}
	}
	written := []string{}
	for i, name := range names {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, texts[i], 0o644); err != nil {
			return fmt.Errorf("plan: write %s: %w", path, err)
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
}
