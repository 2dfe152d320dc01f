package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/local/proc"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/carrier"
	"gleaner/trace/replay/crew"
	"gleaner/trace/replay/grpccall"
	"gleaner/trace/replay/httpcall"
	"gleaner/trace/replay/judge"
	"gleaner/trace/replay/lean"
	"gleaner/trace/value"
)

// protocols are those a target may speak, by the scheme of its address.
func protocols() map[string]protocol {
	web := protocol{httpcall.Open, []string{"kubeconfig", "token", "insecure", "as", "groups"}}
	return map[string]protocol{
		"grpc":   {grpccall.Open, []string{"descriptors", "sender"}},
		"hadoop": {openHadoop, []string{"descriptors", "user", "nodes"}},
		"http":   web,
		"https":  web,
		"lean":   {lean.Open, nil},
	}
}

// A protocol is how targets that speak it are opened, and what the query of their address may have.
type protocol struct {
	open replay.Opener
	keys []string
}

type replayFlags struct {
	targets, nodes            []string
	scale, workers            int
	sweeps                    []string
	sweep                     []int // the scales of sweeps
	compress                  float64
	runFor, timeout, patience time.Duration
	ramp                      time.Duration
	onError, connections      string
	seed                      uint64
	record, check, out        string
	processes, machines       int
	listen, tokenFile         string
	stay                      bool
	warmup                    time.Duration
	limits                    judge.Limits
}

func newTraceReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay PROGRAM --target TARGET",
		Short: "Play a learned program against a real target, at any scale",
		Long: `Play the nodes of a program that 'gleaner trace mine' learned against a real
target. Each has its own connection and its own memory of replies, and makes its
calls when they are due, whether or not the target keeps up.

A target is an address with the protocol it speaks, or one for each role that
the program calls (ROLE=TARGET). Calls to roles without a target are not sent. Nodes
go over to '?standby=HOST:PORT' when the first master is gone.

With --sweep it plays several scales and finds the knee by bisection. The verdict on
each says what it is about: a program that does not fit the target, players that are
late, a machine that is full, or the target. It exits with 1 if the program is broken.`,
		Example: `  gleaner trace replay heartbeat.yaml --target lean://127.0.0.1:7000 --nodes worker=1000
  gleaner trace replay etcd.yaml --target grpc://127.0.0.1:2379 --scale 50 --compress 10
  gleaner trace replay etcd.yaml --target grpc://10.0.0.9:2379 --scale 50000 --machines 4 --listen 10.0.0.1:7070`,
		Args: oneProgram,
		RunE: func(cmd *cobra.Command, args []string) error { return runReplay(cmd, args[0], f) },
	}
	cmd.Flags().StringArrayVar(&f.targets, "target", nil, "what to play against, as PROTOCOL://HOST:PORT or ROLE=PROTOCOL://HOST:PORT")
	cmd.Flags().StringArrayVar(&f.nodes, "nodes", nil, "how many nodes of a type, as TYPE=N")
	cmd.Flags().IntVar(&f.scale, "scale", 0, "the scale n (default: what --nodes implies)")
	cmd.Flags().Float64Var(&f.compress, "compress", 1, "divide all waits by this, except those of beats")
	cmd.Flags().DurationVar(&f.runFor, "for", 0, "end after this time, if not all steps are done before")
	cmd.Flags().BoolVar(&f.stay, "stay", false, "let beats go on until --for ends, also after the last step")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for a reply")
	cmd.Flags().DurationVar(&f.patience, "patience", 30*time.Second, "how long to wait for a value from other nodes, or to retry a call")
	cmd.Flags().DurationVar(&f.ramp, "ramp", 0, "spread the starts of a type's nodes over this time (default: its longest beat)")
	cmd.Flags().DurationVar(&f.warmup, "warmup", 0, "leave the times of calls sent before this out of the measurement, while nodes still connect")
	cmd.Flags().StringVar(&f.onError, "on-error", "retry", "what a node does when a call gets no reply: retry, skip or end")
	cmd.Flags().StringVar(&f.connections, "connections", "own", "own: each node has its own; shared:N: all share N for a role")
	cmd.Flags().IntVar(&f.workers, "workers", 4096, "calls under way at once")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of generated values")
	cmd.Flags().StringSliceVar(&f.sweeps, "sweep", nil, "play these scales, as `N,N...`, and look for the one at which the target gives in")
	cmd.Flags().DurationVar(&f.limits.Latency, "limit-latency", time.Second, "the target has given in when a hundredth of its replies take longer")
	cmd.Flags().Float64Var(&f.limits.Errors, "limit-errors", 0.01, "the target has given in when a larger share of calls has no reply, or of beats is missed")
	cmd.Flags().DurationVar(&f.limits.Lag, "limit-lag", 50*time.Millisecond, "the players are late when a hundredth of calls are sent later than this")
	cmd.Flags().IntVar(&f.processes, "processes", -1, "other processes that keep the connections (default: as many as the limit on open files demands)")
	cmd.Flags().IntVar(&f.machines, "machines", 0, "have so many other machines play, each of which runs 'gleaner trace player'")
	cmd.Flags().StringVar(&f.listen, "listen", anyLoopback, "where these join, as `HOST:PORT`")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "the token by which they join; made if it does not exist (default: a new one, which is printed)")
	cmd.Flags().StringVar(&f.out, "out", "", "write the report into this directory: report.html and report.json")
	cmd.Flags().StringVar(&f.check, "check", "", "compare the counts per call type with a recorded trace")
	cmd.Flags().StringVar(&f.record, "record", "", "write the calls as a trace to this file, .gz or .zst to compress")
	return cmd
}

// oneProgram requires the name of one program.
func oneProgram(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return input.Errorf("", "'%s' needs one program; see --help", cmd.CommandPath())
	}
	return nil
}

func readProgram(name string) (*program.Program, error) {
	text, err := readInput(name)
	if err != nil {
		return nil, err
	}
	return program.Read(name, text)
}

func runReplay(cmd *cobra.Command, name string, f replayFlags) error {
	p, err := readProgram(name)
	if err != nil {
		return err
	}
	if err := f.readScales(); err != nil {
		return err
	}
	st := &stage{flags: f, program: p}
	if st.options, err = f.options(p); err != nil {
		return err
	}
	if err := beatsOf(name, p, st.options.Setting.Scale); err != nil {
		return err
	}
	if err := st.openTargets(cmd.Context()); err != nil {
		return err
	}
	f.tellNodes(cmd, p)
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return input.Errorf("--out", "%v", err)
		}
	}
	finish, err := f.recordTo(cmd, &st.options)
	if err != nil {
		return err
	}
	over, err := st.gather(cmd)
	if err != nil {
		return errors.Join(err, finish())
	}
	scales := f.sweep
	if len(scales) == 0 {
		scales = []int{st.options.Setting.Scale}
	}
	report, err := replay.Sweep(cmd.Context(), scales, f.limits, st.play)
	over(cmp.Or(err, cmd.Context().Err()))
	if err = errors.Join(err, finish()); err != nil && len(report.Runs) == 0 {
		return err
	}
	page := replayPage{Report: report, Program: name, Targets: f.targets}
	if f.check != "" {
		if page.Check, err = st.compare(cmd, report); err != nil {
			return err
		}
	}
	if err := errors.Join(err, page.save(f.out), page.print(cmd)); err != nil {
		return err
	}
	return errors.Join(cmd.Context().Err(), page.verdict())
}

// A stage is where a program is played, at one scale or several.
type stage struct {
	flags     replayFlags
	program   *program.Program
	options   replay.Options
	addresses []string // of the targets
	roles     []string // of the addresses
	machines  []*crew.Machine
}

// play plays the program at one scale: on other machines if there are some, and else with
// as many processes for its connections as they need.
func (st *stage) play(ctx context.Context, scale int) (*replay.Result, error) {
	o := st.options
	if scale != o.Setting.Scale {
		o.Setting = grow.Setting{Scale: scale, Nodes: o.Setting.Nodes, Run: o.Setting.Run}
		var err error
		if o.Setting, err = grow.Resolve(st.program, o.Setting); err != nil {
			return nil, err
		}
	}
	used := watch(st.addresses)
	var result *replay.Result
	var err error
	switch n := st.flags.processes; {
	case len(st.machines) > 0:
		result, err = st.playElsewhere(ctx, o)
	case n < 0:
		result, err = st.playIn(ctx, o, st.processes(o))
	default:
		result, err = st.playIn(ctx, o, n)
	}
	if err == nil {
		result.CPU = used()
	}
	return result, err
}

// watch measures who uses the CPU of this machine until its result is called, the processes of targets apart. Where that cannot
// be measured, it is nothing, and the verdict does not know of it.
func watch(addresses []string) func() judge.CPU {
	w, err := proc.Watch(targetProcesses(addresses))
	return func() judge.CPU {
		if err != nil {
			return judge.CPU{}
		}
		u, _ := w.Usage()
		return judge.CPU{Cores: u.Cores, Players: u.Self, Target: u.Chosen, Others: u.Others, PlayersWaited: 1e3 * u.SelfWaited.Seconds(), TargetWaited: 1e3 * u.ChosenWaited.Seconds()}
	}
}

// fewPlayers hold so little memory that garbage may be collected less often: that took a tenth of their CPU time.
const fewPlayers = 2000

// players is how many there are of all types.
func (st *stage) players(o replay.Options) (n int) {
	for i := range st.program.Types {
		n += o.Setting.Count(&st.program.Types[i])
	}
	return n
}

// playIn plays with n other processes.
func (st *stage) playIn(ctx context.Context, o replay.Options, n int) (*replay.Result, error) {
	switch {
	case n == 0:
		if st.players(o) <= fewPlayers {
			defer debug.SetGCPercent(debug.SetGCPercent(400))
		}
		result, err := replay.Play(ctx, o)
		if err == nil {
			result.Memory = residentBytes(os.Getpid())
		}
		return result, err
	case st.apart(o):
		return st.playParts(ctx, o, n)
	}
	return st.playCarried(ctx, o, n)
}

// apart reports whether several processes or machines can play a part of the nodes each.
func (st *stage) apart(o replay.Options) bool {
	return o.Record == nil && o.Share == 0 && replay.Apart(st.program, o.Setting)
}

// targetProcesses are the processes of the targets that are on this machine.
func targetProcesses(addresses []string) (pids []int) {
	here, err := net.InterfaceAddrs()
	if err != nil {
		return nil // then nothing is known of them
	}
	for _, address := range addresses {
		at, err := url.Parse(address)
		if err != nil {
			continue // it was opened, so this does not happen
		}
		var hosts []string
		for _, master := range mastersOf(at) {
			hosts = append(hosts, strings.Split(master.Host, ",")...)
		}
		for _, host := range hosts {
			to, err := net.ResolveTCPAddr("tcp", host)
			if err != nil || !to.IP.IsLoopback() && !slices.ContainsFunc(here, func(a net.Addr) bool { return a.(*net.IPNet).IP.Equal(to.IP) }) {
				continue // it is elsewhere
			}
			for _, pid := range proc.Listeners(to.AddrPort()) {
				if pid != os.Getpid() && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// playCarried plays with the connections in other processes.
func (st *stage) playCarried(ctx context.Context, o replay.Options, n int) (*replay.Result, error) {
	kept, err := startCarriers(n, st.addresses)
	if err != nil {
		return nil, err
	}
	targets := map[string]replay.Executor{}
	for i, role := range st.roles {
		targets[role] = carrier.Executor(kept.all, i, o.Targets[role])
	}
	o.Targets = targets
	result, err := replay.Play(ctx, o)
	if err == nil {
		result.Memory = residentBytes(os.Getpid()) + kept.resident()
	}
	return result, errors.Join(err, kept.stop())
}

// processes is how many other processes the connections of a run need: none if this
// one may open enough files.
func (st *stage) processes(o replay.Options) int {
	limit := fileLimit()*9/10 - 100
	need := 0
	for i := range st.program.Types {
		t := &st.program.Types[i]
		called := map[string]bool{}
		for _, c := range t.Calls {
			if o.Targets[c.Target] != nil || o.Targets[""] != nil {
				called[c.Target] = true
			}
		}
		need += o.Setting.Count(t) * len(called)
	}
	need /= max(o.Parts, 1)
	if o.Share > 0 || limit <= 0 || need <= limit {
		return 0
	}
	return (need + limit - 1) / limit
}

// compare compares the run at the recorded scale with a recorded trace.
func (st *stage) compare(cmd *cobra.Command, report *replay.Report) (*replay.Comparison, error) {
	counter := replay.NewCounter(st.program)
	var files traceFiles
	err := files.each(cmd.Context(), st.flags.check, func(c *trace.Call) error {
		counter.Add(c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := counter.Compare(report.Runs[0].Result)
	if !slices.ContainsFunc(out.Rows, func(r replay.CountRow) bool { return r.Recorded > 0 }) {
		return nil, input.Errorf(st.flags.check, "holds no calls of this program")
	}
	return &out, nil
}

// readScales reads the scales of a sweep.
func (f *replayFlags) readScales() error {
	for _, text := range f.sweeps {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n <= 0 {
			return input.Errorf("--sweep", "%q is not a scale: a whole number, 1 or more", text)
		}
		f.sweep = append(f.sweep, n)
	}
	return nil
}

// beatsOf reports beats without a time between them.
func beatsOf(name string, p *program.Program, scale int) error {
	for _, t := range p.Types {
		for _, b := range t.Beats {
			if value.Millis(b.Every.Formula, scale, 0) <= 0 {
				return input.Errorf(name, "the beat %s of type %s is every %s ms: that must be above 0", b.Call, t.Name, b.Every.Formula.String())
			}
		}
	}
	return nil
}

// tellNodes prints which types do not follow the scale, because it looks as if they
// did.
func (f *replayFlags) tellNodes(cmd *cobra.Command, p *program.Program) {
	fixed := map[string]int{}
	if len(f.sweep) == 0 && f.scale == 0 || addNodes(fixed, f.nodes) != nil {
		return
	}
	for _, t := range p.Types {
		if n, ok := fixed[t.Name]; ok {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: --nodes keeps %s at %s, whatever the scale (%s in the program)\n", t.Name, counted(n, "node"), t.Nodes.String())
		}
	}
}

func (f *replayFlags) options(p *program.Program) (o replay.Options, err error) {
	o = replay.Options{Program: p, Limits: f.limits, Compress: f.compress, For: f.runFor, Stay: f.stay, Timeout: f.timeout, Patience: f.patience, Ramp: f.ramp, Workers: f.workers, Seed: f.seed, Warmup: f.warmup}
	switch {
	case f.compress <= 0:
		return o, input.Errorf("--compress", "must be above 0, got %g", f.compress)
	case f.workers <= 0:
		return o, input.Errorf("--workers", "must be positive, got %d", f.workers)
	case f.scale < 0:
		return o, input.Errorf("--scale", "must be positive, got %d", f.scale)
	case f.runFor < 0:
		return o, input.Errorf("--for", "must not be negative, got %v", f.runFor)
	case f.stay && f.runFor == 0:
		return o, input.Errorf("--stay", "for how long? Say it by --for")
	case f.timeout <= 0:
		return o, input.Errorf("--timeout", "must be positive, got %v", f.timeout)
	case f.patience < 0:
		return o, input.Errorf("--patience", "must not be negative, got %v", f.patience)
	case f.warmup < 0 || f.runFor > 0 && f.warmup >= f.runFor:
		return o, input.Errorf("--warmup", "%v leaves nothing of the run to measure", f.warmup)
	case f.limits.Errors < 0 || f.limits.Errors > 1:
		return o, input.Errorf("--limit-errors", "%g is not a share from 0 to 1", f.limits.Errors)
	case f.machines < 0 || f.machines > mostMachines:
		return o, input.Errorf("--machines", "must be from 0 to %d, got %d", mostMachines, f.machines)
	case f.machines > 0 && f.processes >= 0:
		return o, input.Errorf("--processes", "each machine has as many as it needs; leave out --processes")
	case f.machines == 0 && (f.listen != anyLoopback || f.tokenFile != ""):
		return o, input.Errorf("--machines", "how many are to join?")
	case len(f.sweep) > 0 && f.scale > 0:
		return o, input.Errorf("--sweep", "has the scales; leave out --scale")
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
	if len(f.sweep) > 0 {
		setting.Scale = f.sweep[0]
	}
	if err := addNodes(setting.Nodes, f.nodes); err != nil {
		return o, err
	}
	if o.Setting, err = grow.Resolve(p, setting); err != nil {
		return o, err
	}
	for _, scale := range append([]int{o.Setting.Scale}, f.sweep...) {
		if err := replay.FewEnough(p, grow.Setting{Scale: scale, Nodes: o.Setting.Nodes}); err != nil {
			return o, err
		}
	}
	return o, nil
}

// openTargets makes the executors of the roles that have a target.
func (st *stage) openTargets(ctx context.Context) error {
	called := roles(st.program)
	if len(st.flags.targets) == 0 {
		return input.Errorf("--target", "name what to play against, as PROTOCOL://HOST:PORT; the program calls %s", strings.Join(called, ", "))
	}
	st.options.Targets = map[string]replay.Executor{}
	for _, text := range st.flags.targets {
		role, address := "", text
		if eq := strings.Index(text, "="); eq >= 0 && eq < strings.Index(text, "://") {
			role, address = text[:eq], text[eq+1:]
		}
		if role != "" && !slices.Contains(called, role) {
			return input.Errorf("--target", "the program calls no %q; it calls %s", role, strings.Join(called, ", "))
		}
		if slices.Contains(st.roles, role) {
			return input.Errorf("--target", "there are two for %s: name a role before each, as ROLE=PROTOCOL://HOST:PORT", cmp.Or(role, "every role"))
		}
		e, err := openTarget(ctx, address)
		if err != nil {
			return err
		}
		st.options.Targets[role] = e
		st.roles, st.addresses = append(st.roles, role), append(st.addresses, address)
	}
	return nil
}

func protocolNames() string { return strings.Join(slices.Sorted(maps.Keys(protocols())), ", ") }

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

// recordTo writes the calls to a file, if one was named.
func (f *replayFlags) recordTo(cmd *cobra.Command, o *replay.Options) (finish func() error, err error) {
	if f.record == "" {
		return func() error { return nil }, nil
	}
	to, err := createTrace(cmd, "--record", f.record)
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
