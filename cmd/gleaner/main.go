// Command gleaner puts the idle part of a cluster to work without the
// services that own the servers noticing.
//
// Each command is in a file of its own name, with all wiring between the rooms.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"gleaner/input"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes, as every command uses them.
const (
	exitOK       = 0
	exitFailure  = 1
	exitBadInput = 2
	exitStopped  = 130 // by Ctrl-C, as a shell says it
)

// inFlags writes an error; a field is a flag here.
func inFlags(err error) string {
	var at *input.Error
	if errors.As(err, &at) && at.Field != "" {
		return strings.Replace(err.Error(), at.Error(), "--"+at.Error(), 1)
	}
	return err.Error()
}

// run runs one command line; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot
	if len(args) > 0 && args[0] == "task" {
		root, args = newTask, args[1:] // it is started for every task, and needs none of the other commands
	}
	return execute(ctx, root(), args, stdin, stdout, stderr)
}

// execute runs a command; it returns the exit code.
func execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(stderr, "gleaner: stopped")
		return exitStopped
	}
	code := exitFailure
	var of commandFailure
	if errors.As(err, &of) {
		code = of.code
	}
	for line := range strings.SplitSeq(inFlags(err), "\n") {
		fmt.Fprintln(stderr, "gleaner: "+line)
	}
	if input.Is(err) {
		return exitBadInput
	}
	return code
}

// A commandFailure is the failure of a user's command, whose exit code becomes ours.
type commandFailure struct {
	code int
	error
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "gleaner",
		Short: "Put the idle part of a cluster to work",
		Long: `Gleaner puts the idle part of a cluster to work, without the services that own
the servers noticing.`,
		Example: `  # Which servers are predictable? Straight from a file, nothing to set up:
  gleaner classify --history cpu.csv.gz

  # Which tenants reimage their disks often?
  gleaner reimages --log reimages.csv --servers servers.csv`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          help,

		PersistentPreRunE: noEmptyFlags,
	}
	root.SetVersionTemplate("gleaner {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().Bool("json", false, "print the result as JSON")
	root.AddCommand(
		newHistory(),
		newAssess(),
		newClassify(),
		newReimages(),
		newGenerate(),
		newSimulate(),
		newUp(),
		newRun(),
		newJobs(),
		newTasks(),
		newLogs(),
		newCancel(),
		newPause(),
		newResume(),
		newDrain(),
		newRm(),
		newStatus(),
		newTop(),
		newDoctor(),
		newDisk(),
		newCurate(),
		newNode(),
		newStore(),
		newPlan(),
		newTrace(),
		newDilation(),
		newLab(),
		newReproduce(),
		newTask(),
		newMan(),
		newVersion(),
	)
	complete(root)
	watchable(root)
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.RunE = help
	for _, cmd := range append(completion.Commands(), completion) {
		cmd.Args = noArgs
	}
	sameFlags(root)
	return root
}

// help is the action of a command that only has subcommands.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// noArgs refuses arguments; an unknown command is bad input like any other.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		hint := ""
		cmd.SuggestionsMinimumDistance = 2 // typing errors
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("; did you mean %q?", near[0])
		}
		return input.Errorf("", "unknown command %q for '%s'%s", args[0], cmd.CommandPath(), hint)
	}
	return input.Errorf("", "'%s' takes no arguments, but got %q; see --help", cmd.CommandPath(), args[0])
}
