package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/lab/engine"
)

func newLabEtcd() *cobra.Command {
	var listen, data, descriptors string
	cmd := &cobra.Command{
		Use:   "etcd [-- ETCD-FLAG...]",
		Short: "Start a real etcd " + engine.EtcdVersion,
		Long: `Etcd builds a real etcd from its Go module, once, and starts it as a process. It
runs until Ctrl-C. Arguments after -- are passed to etcd.`,
		Example: `  gleaner lab etcd --descriptors etcd.protoset
  gleaner trace record --target 127.0.0.1:2379 --descriptors etcd.protoset --sender node-name --scale 8 --out n008.jsonl
  gleaner lab etcd-work --target 127.0.0.1:7071 --nodes 8`,
		RunE: func(cmd *cobra.Command, args []string) error { return runLabEtcd(cmd, listen, data, descriptors, args) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:2379", "where clients connect")
	cmd.Flags().StringVar(&data, "data", "", "keep its data in `DIR` (default: a temporary folder, gone at the end)")
	cmd.Flags().StringVar(&descriptors, "descriptors", "", "write the descriptors of its messages to `FILE`, for 'trace record' and 'trace replay'")
	return cmd
}

func runLabEtcd(cmd *cobra.Command, listen, data, descriptors string, flags []string) error {
	ctx := cmd.Context()
	if err := free(listen); err != nil {
		return err
	}
	etcd, err := buildEtcd(cmd)
	if err != nil {
		return err
	}
	if descriptors != "" {
		set, err := etcd.Descriptors(ctx)
		if err != nil {
			return err
		}
		if err := os.WriteFile(descriptors, set, 0o644); err != nil {
			return input.Errorf("--descriptors", "%v", err)
		}
	}
	temporary := data == ""
	if temporary {
		if data, err = os.MkdirTemp("", "gleaner-etcd-"); err != nil {
			return fmt.Errorf("lab etcd: %w", err)
		}
	} else if data, err = filepath.Abs(data); err != nil {
		return input.Errorf("--data", "%v", err)
	}
	p, err := etcd.Start(ctx, listen, data, flags...)
	if err != nil {
		return startError(err) // it names a log in the folder, which therefore stays
	}
	if temporary {
		defer os.RemoveAll(data)
	}
	defer p.Stop()
	return attend(cmd, p, listen)
}

// free reports an address that cannot be listened on, before anything is built.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return input.Errorf("--listen", "%v", err)
	}
	return l.Close()
}

// attend prints that an engine serves and how to stop it, and waits until it ends.
func attend(cmd *cobra.Command, p *engine.Process, address string) error {
	if wantJSON(cmd) {
		if err := printJSON(cmd, map[string]any{"engine": p.Name, "address": address, "pid": p.PID(), "data": p.Data, "log": p.Log}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s serves on %s, data in %s, log in %s; Ctrl-C or 'kill %d' stops it\n", p.Name, address, p.Data, p.Log, os.Getpid())
	}
	select {
	case <-cmd.Context().Done():
		return nil
	case <-p.Done():
		return p.Failure()
	}
}

// buildEtcd builds etcd if needed, and prints so, because it takes a while.
func buildEtcd(cmd *cobra.Command) (engine.Etcd, error) {
	return engine.BuildEtcd(cmd.Context(), func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "building etcd %s; this is done once and takes a minute or two\n", engine.EtcdVersion)
	})
}

func newLabEtcdWork() *cobra.Command {
	var target string
	var nodes int
	cmd := &cobra.Command{
		Use:   "etcd-work",
		Short: "Run a job of many nodes on an etcd, to record",
		Long: `Etcd-work runs a job whose nodes communicate only through etcd: every
node registers with a lease and keeps it alive, watches for tasks, fetches its
part of the input and writes its result; a master splits, waits and collects.
Each node has its own connection and sends its name in the metadata of its calls,
as node-name.`,
		Example: `  gleaner lab etcd-work --target 127.0.0.1:7071 --nodes 26`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nodes < 1 || nodes > 10000 {
				return input.Errorf("--nodes", "%d is not from 1 to 10000", nodes)
			}
			etcd, err := buildEtcd(cmd)
			if err != nil {
				return err
			}
			err = etcd.Work(cmd.Context(), target, nodes)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&target, "target", "127.0.0.1:2379", "etcd, or a recorder in front of it")
	cmd.Flags().IntVar(&nodes, "nodes", 3, "how many nodes work")
	return cmd
}
