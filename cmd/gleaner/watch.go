package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// listings are the commands that take --watch: they list what changes by itself.
var listings = [][]string{{"jobs"}, {"tasks"}, {"doctor"}, {"disk", "ls"}, {"disk", "df"}, {"disk", "stat"}, {"curate", "status"}, {"history", "show"}}

// watchable gives the listings a flag --watch.
func watchable(root *cobra.Command) {
	for _, path := range listings {
		cmd, rest, err := root.Find(path)
		if err != nil || len(rest) > 0 {
			continue // not on this system
		}
		watch := cmd.Flags().Bool("watch", false, "print it again every second, until Ctrl-C")
		once := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if !*watch {
				return once(cmd, args)
			}
			return again(cmd, func(out io.Writer) error {
				cmd.SetOut(out)
				return once(cmd, args)
			})
		}
	}
}

// What a terminal does.
const (
	home    = "\x1b[H"
	toEnd   = "\x1b[J"
	lineEnd = "\x1b[K\n"
)

// again prints a text every second, on a terminal in place, until the command is
// interrupted or fails.
func again(cmd *cobra.Command, print func(io.Writer) error) error {
	out := cmd.OutOrStdout()
	inPlace := isTerminal(out)
	if inPlace {
		fmt.Fprint(out, home+toEnd)
	}
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		var text bytes.Buffer
		err := print(&text)
		if cmd.Context().Err() != nil {
			return nil
		}
		if inPlace && err == nil {
			_, err = fmt.Fprint(out, home+strings.ReplaceAll(text.String(), "\n", lineEnd)+toEnd)
		} else {
			_, failed := text.WriteTo(out)
			err = errors.Join(err, failed)
		}
		if err != nil {
			return err
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-ticks.C:
		}
	}
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
