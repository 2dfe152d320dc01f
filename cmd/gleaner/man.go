package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"gleaner/input"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for each command",
		Long: `Man writes a manual page for each command to a directory, made from the same text as
--help. SOURCE_DATE_EPOCH, in Unix seconds, is the date of the pages.`,
		Example: `  gleaner man man1 && man ./man1/gleaner-classify.1`,
		Args:    oneArg("directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return input.Errorf(args[0], "%v", err)
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "GLEANER", Section: "1", Source: "gleaner " + version(), Manual: "Gleaner"}, args[0])
		},
	}
}
