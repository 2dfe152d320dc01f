package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"gleaner/trace/replay"
)

// playParts plays a program whose nodes are independent of each other in several
// processes, each with a part of the nodes and their connections.
func (st *stage) playParts(ctx context.Context, o replay.Options, n int) (*replay.Result, error) {
	orders, err := replay.Orders(o, st.targets(), n)
	if err != nil {
		return nil, err
	}
	parts := make([]*replay.Result, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { parts[i], errs[i] = startPart(ctx, orders[i]) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	out := replay.Merge(parts)
	out.Memory += residentBytes(os.Getpid())
	return out, nil
}

// targets are the addresses by role.
func (st *stage) targets() map[string]string {
	out := map[string]string{}
	for i, role := range st.roles {
		out[role] = st.addresses[i]
	}
	return out
}

// startPart starts the process of one part, tells it its order, and waits for its result.
func startPart(ctx context.Context, order replay.Order) (*replay.Result, error) {
	told, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	child, err := ourselves("trace", "part")
	if err != nil {
		return nil, err
	}
	var said, complaint bytes.Buffer
	child.Stdout, child.Stderr = &said, &complaint
	in, err := child.StdinPipe() // open until the part has ended: if this process is killed, the part ends too
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a process for a part of the nodes: %w", err)
	}
	_, _ = in.Write(told)                                                             // if it has ended already, it says why
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(os.Interrupt) }) // it may have ended
	defer stop()
	err = child.Wait()
	if result, bad := replay.Import(said.Bytes()); bad == nil {
		return result, nil // it may have been stopped, but it has a result
	}
	return nil, fmt.Errorf("%s (%w)", strings.TrimPrefix(strings.TrimSpace(complaint.String()), "gleaner: "), err)
}

// staged opens the targets of an order.
func staged(ctx context.Context, order *replay.Order) (*stage, error) {
	st := &stage{program: order.Options.Program, options: order.Options}
	st.options.Targets = map[string]replay.Executor{}
	for role, address := range order.Targets {
		e, err := openTarget(ctx, address)
		if err != nil {
			return nil, err
		}
		st.options.Targets[role] = e
		st.roles, st.addresses = append(st.roles, role), append(st.addresses, address)
	}
	return st, nil
}

// newTracePart plays a part of a replay; users do not call it.
func newTracePart() *cobra.Command {
	return &cobra.Command{
		Use:    "part",
		Short:  "Play a part of a replay's nodes, as the order on standard input says",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			order, err := replay.ReadOrder(cmd.InOrStdin())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			go func() {
				_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // until who started this process has ended
				cancel()
			}()
			st, err := staged(ctx, order)
			if err != nil {
				return err
			}
			result, err := replay.Play(ctx, st.options)
			if err != nil {
				return err
			}
			result.Memory = residentBytes(os.Getpid())
			b, err := result.Export()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}
}
