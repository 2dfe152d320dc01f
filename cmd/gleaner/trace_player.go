package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace/replay"
	"gleaner/trace/replay/carrier"
	"gleaner/trace/replay/crew"
)

// tokenVariable is the environment's variable with the token of a replay.
const tokenVariable = "GLEANER_TOKEN"

func newTracePlayer() *cobra.Command {
	var join, tokenFile string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "player --join HOST:PORT",
		Short: "Play on this machine for a replay on another",
		Long: `Join 'gleaner trace replay --machines N', which prints the command to run here,
and do what it says until it is over: play a part of the nodes, or hold connections
for players that are there.

This machine connects to the targets that the replay names, and reads the files that
their addresses name (?kubeconfig=FILE, ?descriptors=FILE) here. All that is said is
encrypted, and each side proves to the other that it knows the token.

The token is read from --token-file, or from the variable GLEANER_TOKEN.`,
		Example: `  GLEANER_TOKEN=1f0c... gleaner trace player --join 10.0.0.1:7070
  gleaner trace player --join 10.0.0.1:7070 --token-file token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if join == "" {
				return input.Errorf("--join", "which replay, as HOST:PORT? 'gleaner trace replay --machines' prints it")
			}
			if err := hasPort(join, ""); err != nil {
				return input.Errorf("--join", "%q: %v", join, err)
			}
			token, err := playerToken(tokenFile)
			if err != nil {
				return err
			}
			work := crew.Work{Play: playPart, Carry: keepConnections, Joined: func() { fmt.Fprintf(cmd.OutOrStdout(), "joined the replay at %s\n", join) }}
			if err := crew.Join(cmd.Context(), join, token, wait, work); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the replay is over")
			return err
		},
	}
	cmd.Flags().StringVar(&join, "join", "", "where the replay listens, as `HOST:PORT`")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "a file with the token (default: the variable GLEANER_TOKEN)")
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait for a replay that does not listen yet")
	return cmd
}

// playerToken reads the token of a machine that joins.
func playerToken(file string) (crew.Token, error) {
	if file != "" {
		return fileToken(file)
	}
	text := os.Getenv(tokenVariable)
	if text == "" {
		return crew.Token{}, input.Errorf("--token-file", "name it, or set %s: 'gleaner trace replay --machines' prints which", tokenVariable)
	}
	token, err := crew.ParseToken(text)
	if err != nil {
		return token, input.Errorf(tokenVariable, "%v", err)
	}
	return token, nil
}

// playPart plays a part of a replay's nodes, in as many processes as their connections need.
func playPart(ctx context.Context, order *replay.Order) (*replay.Result, error) {
	st, err := staged(ctx, order)
	if err != nil {
		return nil, err
	}
	used := watch(st.addresses)
	result, err := st.playIn(ctx, st.options, st.processes(st.options))
	if err == nil {
		result.CPU = used()
	}
	return result, err
}

// keepConnections holds connections for a replay's players until the connection over which they call ends.
func keepConnections(ctx context.Context, targets []string, dial func() (io.ReadWriteCloser, error)) (crew.Share, error) {
	var executors []replay.Executor
	for _, address := range targets {
		e, err := openTarget(ctx, address)
		if err != nil {
			return crew.Share{}, err
		}
		executors = append(executors, e)
	}
	used := watch(targets)
	conn, err := dial()
	if err != nil {
		return crew.Share{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = carrier.Serve(ctx, conn, conn, executors) // it ends when the replay hangs up, in whatever way
	return crew.Share{CPU: used(), Memory: residentBytes(os.Getpid())}, nil
}
