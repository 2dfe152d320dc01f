package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gleaner/harvest"
	"gleaner/history"
	"gleaner/input"
	"gleaner/kube/lab"
	"gleaner/kv/pebble"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

type playFlags struct {
	kubeconfig, namespace, name string
	policies                    []string
	nodes                       int
	hours, speed                float64
	utilisation, load           float64
	seed                        uint64
	json                        bool
}

func newPlay() *cobra.Command {
	var f playFlags
	cmd := &cobra.Command{
		Use:   "play --kubeconfig FILE",
		Short: "Play a datacenter on a cluster of played nodes, and compare policies",
		Long: `Play makes nodes like the servers of one of the paper's datacenters, for kwok to play, has
hollow agents report what their primaries use, faster than it was, and submits the paper's
batch jobs. A controller, as a process of its own, rules. It prints kills, job times and how
often what nodes offer changes, beside the simulator's figures for the same datacenter, jobs
and seed. Policies are played one after the other.

The cluster is one of 'gleaner lab kubernetes --nodes 0', with the manifests applied; nothing
else may run there.`,
		Example: "  gleaner-kube play --kubeconfig cluster/kubeconfig --nodes 100 --policy history --policy koordinator",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runPlay(cmd, f) },
	}
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "reach the cluster as `FILE` says")
	cmd.Flags().StringVar(&f.namespace, "namespace", "gleaner-system", "where reports are")
	cmd.Flags().StringVar(&f.name, "datacenter", "DC-9", "which one, DC-0 to DC-9")
	cmd.Flags().StringArrayVar(&f.policies, "policy", []string{"history", "primary", "koordinator"}, "a policy to play; may be given again")
	cmd.Flags().IntVar(&f.nodes, "nodes", 100, "how many nodes")
	cmd.Flags().Float64Var(&f.hours, "hours", 12, "how many hours are played")
	cmd.Flags().Float64Var(&f.speed, "speed", 120, "how much faster than they were")
	cmd.Flags().Float64Var(&f.utilisation, "utilisation", 45, "percent of all cores that primaries use on average")
	cmd.Flags().Float64Var(&f.load, "load", simulation.Load, "share of all cores that jobs keep busy")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of datacenter and jobs")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (f *playFlags) check() error {
	switch {
	case f.kubeconfig == "":
		return input.Errorf("--kubeconfig", "is needed: of a cluster that nobody else uses")
	case f.nodes < datacenter.FewestServers || f.nodes > 5000:
		return input.Errorf("--nodes", "%d is not from %d to 5000", f.nodes, datacenter.FewestServers)
	case !(f.hours > 0 && f.hours <= 24*30):
		return input.Errorf("--hours", "%v is not more than 0 and at most 720", f.hours)
	case !(f.speed >= 1 && f.speed <= 1000):
		return input.Errorf("--speed", "%v is not from 1 to 1000", f.speed)
	case !(f.utilisation > 0 && f.utilisation < 100):
		return input.Errorf("--utilisation", "%v is not between 0 and 100", f.utilisation)
	case !(f.load > 0 && f.load < 1):
		return input.Errorf("--load", "%v is not between 0 and 1", f.load)
	}
	for _, name := range f.policies {
		if _, err := harvest.PolicyNamed(name); err != nil {
			return input.Errorf("--policy", "%v", err)
		}
	}
	return nil
}

// pastDays is how much history classes are found in: enough for a day's rhythm.
const pastDays = 14

func runPlay(cmd *cobra.Command, f playFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	config, err := configOf(f.kubeconfig)
	if err != nil {
		return err
	}
	profile, err := datacenter.Find(f.name)
	if err != nil {
		return input.Errorf("--datacenter", "%v", err)
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: f.nodes, Past: pastDays, Days: int(f.hours/24) + 1, Seed: f.seed})
	if d, err = d.Scaled("linear", f.utilisation/100); err != nil {
		return input.Errorf("--utilisation", "%v", err)
	}
	says := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	log.SetLogger(logr.FromSlogHandler(says.Handler()))
	klog.SetSlogLogger(says)
	var all []played
	for _, policy := range f.policies {
		c := &child{flags: f, policy: policy, datacenter: d, log: cmd.ErrOrStderr()}
		result, err := lab.Experiment{Config: config, System: f.namespace, Datacenter: d, Length: time.Duration(f.hours * float64(time.Hour)), Speed: f.speed,
			Policy: policy, Seed: f.seed, Load: f.load, Controller: c.start, Log: says}.Run(cmd.Context())
		if err != nil {
			return err
		}
		all = append(all, playedOf(f, result, c))
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
	}
	return printPlayed(cmd.OutOrStdout(), f, all)
}

// A child is the controller of one policy, as a process.
type child struct {
	flags      playFlags
	policy     string
	datacenter *datacenter.Datacenter
	log        io.Writer

	cpu    time.Duration
	memory int64 // bytes, at most
	calls  string
	ran    time.Duration
}

// start starts the controller with the classes of the datacenter's past, and waits until it leads.
func (c *child) start(ctx context.Context) (stop func() error, err error) {
	data, err := os.MkdirTemp("", "gleaner-play-")
	if err != nil {
		return nil, err
	}
	if err := c.classify(ctx, filepath.Join(data, "kv")); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "controller", "--kubeconfig", c.flags.kubeconfig, "--namespace", c.flags.namespace, "--policy", c.policy, "--data", data,
		"--speed", fmt.Sprint(c.flags.speed), "--lease", "15s")
	says, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	begun, leads := time.Now(), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(says); lines.Scan(); {
			switch line := lines.Text(); {
			case strings.Contains(line, "msg=leading"):
				close(leads)
			case strings.Contains(line, "msg=ended"):
				_, c.calls, _ = strings.Cut(line, "calls=")
			case strings.Contains(line, "level=ERROR"), strings.Contains(line, "gleaner-kube:"):
				fmt.Fprintln(c.log, line)
			}
		}
	}()
	stop = func() error {
		c.ran = time.Since(begun)
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
		err := cmd.Wait()
		if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			c.cpu, c.memory = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), use.Maxrss*1024
		}
		return errors.Join(err, os.RemoveAll(data))
	}
	select {
	case <-leads:
		return stop, nil
	case <-ended:
		return nil, errors.Join(errors.New("play: the controller ended"), stop())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), stop())
	}
}

// classify keeps the classes where the controller finds them.
func (c *child) classify(ctx context.Context, dir string) (err error) {
	under, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, under.Close()) }()
	s, err := history.Open(ctx, under, time.Now)
	if err != nil {
		return err
	}
	return s.SetClasses(ctx, history.Classes{At: time.Now(), All: simulation.Classes(c.datacenter, c.flags.seed)})
}

// played is a result as it is printed.
type played struct {
	Policy      string    `json:"policy"`
	Jobs        int       `json:"jobs"`
	Unfinished  int       `json:"unfinished"`
	MeanJob     float64   `json:"mean_job_seconds"`
	Stretch     float64   `json:"stretch"`
	Tasks       int       `json:"tasks_started"`
	Kills       int       `json:"tasks_killed"`
	Harvested   float64   `json:"harvested_percent"`
	Changes     float64   `json:"offer_changes_per_node_hour"`
	Moved       float64   `json:"offer_moved_cores_per_node_hour"`
	Nothing     float64   `json:"offer_fell_to_nothing_per_node_day"`
	CPU         float64   `json:"controller_cpu_percent_of_a_core"`
	Memory      int64     `json:"controller_memory_bytes"`
	Calls       string    `json:"controller_api_calls"`
	CallsSecond float64   `json:"controller_api_calls_per_second"`
	Simulated   simulated `json:"simulated"`
}

type simulated struct {
	Unfinished int     `json:"unfinished"`
	MeanJob    float64 `json:"mean_job_seconds"`
	Tasks      int     `json:"tasks_started"`
	Kills      int     `json:"tasks_killed"`
	Harvested  float64 `json:"harvested_percent"`
}

func playedOf(f playFlags, r lab.Result, c *child) played {
	hours := float64(f.nodes) * f.hours
	cores := simulation.Cores(c.datacenter)
	p := played{Policy: r.Policy, Jobs: r.Jobs, Unfinished: r.Unfinished, MeanJob: r.MeanJob.Seconds(), Stretch: r.Stretch, Tasks: r.Started, Kills: r.Killed, Harvested: 100 * r.Held / (cores * f.hours),
		Changes: float64(r.Changes) / hours, Moved: r.Moved / hours, Nothing: 24 * float64(r.Nothing) / hours,
		CPU: 100 * c.cpu.Seconds() / c.ran.Seconds(), Memory: c.memory, Calls: c.calls,
		Simulated: simulated{r.Simulated.Unfinished, r.Simulated.MeanJob.Seconds(), r.Simulated.TasksStarted, r.Simulated.TasksKilled, 100 * r.Simulated.Harvested}}
	var calls float64
	if _, err := fmt.Sscan(c.calls, &calls); err == nil {
		p.CallsSecond = calls / c.ran.Seconds()
	}
	return p
}

func printPlayed(out io.Writer, f playFlags, all []played) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s, %d nodes, %g hours at %g times their speed, %g%% used by primaries, seed %d\n\n", f.name, f.nodes, f.hours, f.speed, f.utilisation, f.seed)
	fmt.Fprintln(t, "policy\tjobs\tunfinished\tmean job\tstretch\ttasks\tkills\tharvested\toffer changes/node/h\tcores moved/node/h\tto nothing/node/day\tcontroller CPU\tmemory\tcalls/s\t")
	for _, p := range all {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.0f s\t%.2f\t%d\t%d\t%.1f%%\t%.2f\t%.2f\t%.2f\t%.0f%%\t%d MiB\t%.0f\t\n", p.Policy, p.Jobs, p.Unfinished, p.MeanJob, p.Stretch, p.Tasks, p.Kills, p.Harvested,
			p.Changes, p.Moved, p.Nothing, p.CPU, p.Memory>>20, p.CallsSecond)
		s := p.Simulated
		fmt.Fprintf(t, "simulated\t%d\t%d\t%.0f s\t1.00\t%d\t%d\t%.1f%%\t\t\t\t\t\t\t\n", p.Jobs, s.Unfinished, s.MeanJob, s.Tasks, s.Kills, s.Harvested)
	}
	return t.Flush()
}
