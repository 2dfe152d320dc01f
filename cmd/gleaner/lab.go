package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/input"
	"gleaner/lab/engine"
	"gleaner/trace/replay/lean"
)

// newLab holds targets to play against.
func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Start a target to play traffic against, a storage fabric or a Cassandra",
		Long: `Lab starts targets, the masters of real systems among them, each as a process with
its data in a folder and on loopback addresses only. They have no workers: those
are played ('gleaner trace replay'). It also starts a whole storage fabric, or a Cassandra
cluster for a store, on one machine.`,
		Example: `  gleaner lab echo --listen 127.0.0.1:7000
  gleaner lab etcd --help
  gleaner lab fabric --servers 6 --data lab
  gleaner lab cassandra --data cassandra`,
		Args: noArgs,
		RunE: help,
	}
	cmd.AddCommand(newLabEcho(), newLabEtcd(), newLabEtcdWork(), newLabNameNode(), newLabResourceManager(), newLabSearch(), newLabBatch(), newLabFabric(), newLabCassandra(), newLabKubernetes())
	return cmd
}

// startError is the error of starting an engine: bad input if its folder is in use.
func startError(err error) error {
	if errors.Is(err, engine.ErrInUse) {
		return input.Errorf("--data", "%v", err)
	}
	return err
}

func newLabEcho() *cobra.Command {
	var listen string
	var processes int
	var child bool
	cmd := &cobra.Command{
		Use:   "echo",
		Short: "Answer every call of the lean protocol with what it asked",
		Long: `Echo is the simplest target: it answers every call of the lean protocol with the
call's own content. Playing a program against it measures what the players can do. If
one process may not hold enough connections, several listen on consecutive addresses.`,
		Example: `  gleaner lab echo --listen 127.0.0.1:7000
  gleaner lab echo --processes 4      # 127.0.0.1:7000 to 127.0.0.4:7000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if processes < 1 {
				return input.Errorf("--processes", "must be positive, got %d", processes)
			}
			if processes > 1 {
				return echoMany(cmd, listen, processes)
			}
			ctx := cmd.Context()
			if child { // it ends with its parent
				var stop context.CancelFunc
				ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
				go func() {
					defer stop()
					_, _ = io.Copy(io.Discard, cmd.InOrStdin())
				}()
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return input.Errorf("--listen", "%v", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "lean://%s answers; Ctrl-C stops\n", l.Addr())
			return lean.Serve(ctx, l, lean.Echo)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7000", "where to listen")
	cmd.Flags().IntVar(&processes, "processes", 1, "how many processes listen, each on the next address")
	cmd.Flags().BoolVar(&child, "child", false, "end with the standard input")
	_ = cmd.Flags().MarkHidden("child") // it exists
	return cmd
}

// echoMany starts several echoes, and prints at the end how much memory they held.
func echoMany(cmd *cobra.Command, listen string, n int) error {
	first, err := netip.ParseAddrPort(listen)
	if err != nil {
		return input.Errorf("--listen", "%v", err)
	}
	var all carriers
	var addresses []string
	at := first.Addr()
	for range n {
		child, err := ourselves("lab", "echo", "--child", "--listen", netip.AddrPortFrom(at, first.Port()).String())
		if err != nil {
			return err
		}
		in, err := child.StdinPipe()
		if err != nil {
			return err
		}
		from, err := child.StdoutPipe()
		if err != nil {
			return err
		}
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			return err
		}
		all.ends, all.procs = append(all.ends, in), append(all.procs, child)
		if _, err := bufio.NewReader(from).ReadString('\n'); err != nil {
			return errors.Join(input.Errorf("--listen", "%s cannot be listened on", at), all.stop())
		}
		addresses = append(addresses, netip.AddrPortFrom(at, first.Port()).String())
		at = at.Next()
	}
	fmt.Fprintf(cmd.OutOrStdout(), "lean://%s answers; Ctrl-C stops\n", strings.Join(addresses, ","))
	<-cmd.Context().Done()
	fmt.Fprintf(cmd.OutOrStdout(), "The echo held %s.\n", cluster.Bytes(residentBytes(os.Getpid())+all.resident()).Text())
	return all.stop()
}
