// Command gleaner-kube puts the idle part of a Kubernetes cluster to work.
//
// Each command is in a file of its own name, with all wiring between the rooms.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"gleaner/input"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs one command line; it returns the exit code: 2 for bad input, 1 for a failure.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use: "gleaner-kube", Short: "Put the idle part of a Kubernetes cluster to work", SilenceErrors: true, SilenceUsage: true,
		Example: "  gleaner-kube manifests --image registry.example.com/gleaner-kube:1 | kubectl apply -f -\n  gleaner-kube job examples/primes.yaml --image busybox | kubectl create -f -\n  kubectl get harvestjobs",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return input.Errorf("", "%v", err) })
	root.AddCommand(newController(), newAgent(), newManifests(), newJob(), newPlay(), newVersion())
	for _, cmd := range append(root.Commands(), root) {
		takes := cmd.Args
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := takes(cmd, args); err != nil {
				return input.Errorf("", "%v", err)
			}
			return nil
		}
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "gleaner-kube:", err)
	if input.Is(err) {
		return 2
	}
	return 1
}
