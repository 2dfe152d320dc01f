package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/lean"
)

// protocols are those a target may speak, by the scheme of its address.
func protocols() map[string]replay.Opener {
	return map[string]replay.Opener{
		"lean":   lean.Open,
		"hadoop": openHadoop,
	}
}

type replayFlags struct {
	targets, nodes            []string
	scale, workers            int
	sweep                     []int
	compress                  float64
	runFor, timeout, patience time.Duration
	ramp                      time.Duration
	onError, connections      string
	seed                      uint64
	record                    string
}

func newTraceReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay PROGRAM --target TARGET",
		Short: "Play a learned program against a real target, at any scale",
		Long: `Play the nodes of a program that 'gleaner trace mine' learned against a real
target, each with its own connection, its own memory of replies, and its calls
made when they are due, whether or not the target keeps up.

A target is an address with the protocol it speaks, or one for each role that
the program calls (ROLE=TARGET). Calls to roles without a target are not sent.`,
		Example: `  gleaner trace replay heartbeat.yaml --target lean://127.0.0.1:7000 --nodes worker=1000
  gleaner trace replay etcd.yaml --target grpc://127.0.0.1:2379 --scale 50 --compress 10`,
		Args: oneProgram,
		RunE: func(cmd *cobra.Command, args []string) error { return runReplay(cmd, args[0], f) },
	}
	cmd.Flags().StringArrayVar(&f.targets, "target", nil, "what to play against, as PROTOCOL://HOST:PORT or ROLE=PROTOCOL://HOST:PORT")
	cmd.Flags().StringArrayVar(&f.nodes, "nodes", nil, "how many nodes of a type, as TYPE=N")
	cmd.Flags().IntVar(&f.scale, "scale", 0, "the scale n (default: what --nodes implies)")
	cmd.Flags().Float64Var(&f.compress, "compress", 1, "divide all waits by this, but not those of beats")
	cmd.Flags().DurationVar(&f.runFor, "for", 0, "end after this time (default: when all steps are done)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for a reply")
	cmd.Flags().DurationVar(&f.patience, "patience", 30*time.Second, "how long to wait for a value that others give, or to try a call again")
	cmd.Flags().DurationVar(&f.ramp, "ramp", 0, "spread the starts of a type's nodes over this time (default: its longest beat)")
	cmd.Flags().StringVar(&f.onError, "on-error", "retry", "what a node does when a call gets no reply: retry, skip or end")
	cmd.Flags().StringVar(&f.connections, "connections", "own", "own: each node has its own; shared:N: all share N for a role")
	cmd.Flags().IntVar(&f.workers, "workers", 4096, "calls under way at once")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "for what is made up")
	cmd.Flags().StringVar(&f.record, "record", "", "write what was said as a trace to this file, .gz or .zst to compress")
	return cmd
}

// oneProgram wants the name of one program.
func oneProgram(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return input.Errorf("", "'%s' needs one program; see --help", cmd.CommandPath())
	}
	return nil
}

func readProgram(name string) (*program.Program, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, input.Errorf(name, "cannot be read: %v", err)
	}
	return program.Read(name, text)
}

func runReplay(cmd *cobra.Command, name string, f replayFlags) error {
	p, err := readProgram(name)
	if err != nil {
		return err
	}
	o, err := f.options(p)
	if err != nil {
		return err
	}
	if o.Targets, err = openTargets(cmd.Context(), p, f.targets); err != nil {
		return err
	}
	finish, err := f.recordTo(cmd, &o)
	if err != nil {
		return err
	}
	result, err := replay.Play(cmd.Context(), o)
	if err := finish(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, result)
	}
	return printReplay(cmd, result)
}

func (f *replayFlags) options(p *program.Program) (o replay.Options, err error) {
	o = replay.Options{Program: p, Compress: f.compress, For: f.runFor, Timeout: f.timeout, Patience: f.patience, Ramp: f.ramp, Workers: f.workers, Seed: f.seed}
	switch {
	case f.compress <= 0:
		return o, input.Errorf("--compress", "must be above 0, got %g", f.compress)
	case f.workers <= 0:
		return o, input.Errorf("--workers", "must be positive, got %d", f.workers)
	}
	if o.OnError, err = replay.ParsePolicy(f.onError); err != nil {
		return o, input.Errorf("--on-error", "%v", err)
	}
	if n, ok := strings.CutPrefix(f.connections, "shared:"); ok {
		if o.Share, err = strconv.Atoi(n); err != nil || o.Share <= 0 {
			return o, input.Errorf("--connections", "%q: shared by how many?", f.connections)
		}
	} else if f.connections != "own" {
		return o, input.Errorf("--connections", "%q is neither own nor shared:N", f.connections)
	}
	setting := grow.Setting{Scale: f.scale, Nodes: map[string]int{}, Run: "replay"}
	if err := addNodes(setting.Nodes, f.nodes); err != nil {
		return o, err
	}
	o.Setting, err = grow.Resolve(p, setting)
	return o, err
}

// openTargets makes the executors of the roles that have a target.
func openTargets(ctx context.Context, p *program.Program, given []string) (map[string]replay.Executor, error) {
	if len(given) == 0 {
		return nil, input.Errorf("--target", "name what to play against, as PROTOCOL://HOST:PORT; the program calls %s", strings.Join(roles(p), ", "))
	}
	out := map[string]replay.Executor{}
	for _, text := range given {
		role, address := "", text
		if eq := strings.Index(text, "="); eq >= 0 && eq < strings.Index(text, "://") {
			role, address = text[:eq], text[eq+1:]
		}
		if role != "" && !slices.Contains(roles(p), role) {
			return nil, input.Errorf("--target", "the program calls no %q; it calls %s", role, strings.Join(roles(p), ", "))
		}
		at, err := url.Parse(address)
		if err != nil {
			return nil, input.Errorf("--target", "%v", err)
		}
		open := protocols()[at.Scheme]
		if open == nil || at.Host == "" {
			return nil, input.Errorf("--target", "%q is not PROTOCOL://HOST:PORT with one of %s", address, strings.Join(slices.Sorted(maps.Keys(protocols())), ", "))
		}
		if out[role], err = open(ctx, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// roles are those that a program calls.
func roles(p *program.Program) []string {
	seen := map[string]bool{}
	for _, t := range p.Types {
		for _, c := range t.Calls {
			seen[c.Target] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// recordTo writes what is said to a file, if one was named.
func (f *replayFlags) recordTo(cmd *cobra.Command, o *replay.Options) (finish func() error, err error) {
	if f.record == "" {
		return func() error { return nil }, nil
	}
	to, err := createTrace(cmd, f.record)
	if err != nil {
		return nil, err
	}
	w := trace.NewWriter(to)
	var mu sync.Mutex
	var bad error
	o.Record = func(c *trace.Call) {
		mu.Lock()
		defer mu.Unlock()
		if bad == nil {
			bad = w.Write(c)
		}
	}
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		for _, err := range []error{bad, w.Flush(), to.Close()} {
			if err != nil {
				return fmt.Errorf("write %s: %w", f.record, err)
			}
		}
		return nil
	}, nil
}

func printReplay(cmd *cobra.Command, r *replay.Result) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "n = %d: %s in %.1f s, %.0f/s answered, %d refused, %d without a reply; lag p99 %.1f ms\n\n",
		r.Scale, counted(r.Made, "call"), r.Seconds, r.PerSecond, r.Refused, r.Failed, r.Lag.P99)
	t := newTable("node type", "target", "call", "why", ">made", ">answered", ">refused", ">no reply", ">again", ">not made", ">p50 ms", ">p99 ms", ">lag p99")
	for _, c := range r.Calls {
		ms := func(v float64) string { return fmt.Sprintf("%.1f", v) }
		t.row(c.NodeType, c.Target, c.Method, c.Nature, strconv.Itoa(c.Made), strconv.Itoa(c.Answered), strconv.Itoa(c.Refused), strconv.Itoa(c.Failed),
			strconv.Itoa(c.Retries), strconv.Itoa(c.Skipped+c.Unsent), ms(c.Latency.P50), ms(c.Latency.P99), ms(c.Lag.P99))
	}
	if err := t.print(out); err != nil {
		return err
	}
	for _, c := range r.Calls {
		for _, e := range c.Errors {
			fmt.Fprintf(out, "%s %s, %s from %.1f s on: %s\n", c.NodeType, c.Method, counted(e.Count, "time"), e.First, e.What)
		}
	}
	for _, m := range r.Missing {
		fmt.Fprintf(out, "not made: %s (%s)\n", m.What, counted(m.Count, "time"))
	}
	for _, m := range r.MadeUp {
		fmt.Fprintf(out, "made up: %s of %s (%s)\n", m.Argument, m.Call, counted(m.Count, "time"))
	}
	for _, u := range r.Unstart {
		fmt.Fprintf(out, "never started: %s\n", u)
	}
	if len(r.Unsent) > 0 {
		fmt.Fprintf(out, "not sent, for want of a target: calls to %s\n", strings.Join(r.Unsent, ", "))
	}
	return nil
}
