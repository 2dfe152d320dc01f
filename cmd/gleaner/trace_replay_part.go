package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace/replay"
)

// playParts plays a program whose nodes are independent of each other in several
// processes, each with a part of the nodes and their connections.
func (st *stage) playParts(ctx context.Context, scale, n int) (*replay.Result, error) {
	parts := make([]*replay.Result, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { parts[i], errs[i] = st.startPart(ctx, scale, i, n) })
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

// startPart starts the process of one part, and waits for its result.
func (st *stage) startPart(ctx context.Context, scale, part, of int) (*replay.Result, error) {
	f := st.flags
	args := []string{"trace", "replay", st.name, "--part", fmt.Sprintf("%d/%d", part, of), "--scale", strconv.Itoa(scale),
		"--compress", fmt.Sprint(f.compress), "--for", f.runFor.String(), "--timeout", f.timeout.String(), "--patience", f.patience.String(),
		"--ramp", f.ramp.String(), "--warmup", f.warmup.String(), "--on-error", f.onError, "--connections", f.connections, "--workers", strconv.Itoa(f.workers), "--seed", fmt.Sprint(f.seed),
		"--limit-lag", f.limits.Lag.String(), "--limit-latency", f.limits.Latency.String()}
	for _, t := range f.targets {
		args = append(args, "--target", t)
	}
	for _, n := range f.nodes {
		args = append(args, "--nodes", n)
	}
	child, err := ourselves(args...)
	if err != nil {
		return nil, err
	}
	var said, complaint bytes.Buffer
	child.Stdout, child.Stderr = &said, &complaint
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("start a process for a part of the nodes: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(os.Interrupt) }) // it may have ended
	defer stop()
	err = child.Wait()
	if result, bad := replay.Import(said.Bytes()); bad == nil {
		return result, nil // it may have been stopped, but it has a result
	}
	return nil, fmt.Errorf("%s (%w)", strings.TrimPrefix(strings.TrimSpace(complaint.String()), "gleaner: "), err)
}

// playPart plays one part, and writes its result.
func (st *stage) playPart(cmd *cobra.Command) error {
	part, of, _ := strings.Cut(st.flags.part, "/")
	o := st.options
	var err, bad error
	o.Part, err = strconv.Atoi(part)
	if o.Parts, bad = strconv.Atoi(of); err != nil || bad != nil || o.Part < 0 || o.Part >= o.Parts {
		return input.Errorf("--part", "%q is not K/N", st.flags.part)
	}
	result, err := replay.Play(cmd.Context(), o)
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
}
