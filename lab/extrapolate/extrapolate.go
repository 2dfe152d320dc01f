// Package extrapolate runs all of PatternMiner with a real system: its traffic is
// recorded at small scales, learned, checked against a larger one, played back at a
// recorded scale, and then at larger scales until the system gives in (§V,
// Figures 5 to 10).
package extrapolate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"gleaner/chart"
	"gleaner/input"
	"gleaner/lab"
	"gleaner/local/proc"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/mine"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/replay"
	"gleaner/trace/replay/judge"
)

// A Target is a system whose traffic is learned and played back.
type Target struct {
	Name   string
	Unit   string // of the scale: nodes
	Learn  []int  // scales to learn from
	Check  int    // the larger one to check against, and to play back
	AtOnce int    // how many scales may be recorded at once

	Override []byte  // what mining does not find; see mine.Overrides
	Compress float64 // of the waits when the checked scale is played back; not in the sweep
	Faster   float64 // of the waits in the sweep; 0: none are left if the program's are compressed above

	// Trace returns the file with the trace of a scale, in dir if it makes one; several if
	// it was recorded more than once.
	Trace func(ctx context.Context, dir string, scale int) ([]string, error)
	// Start starts the system afresh, with its data below dir.
	Start func(ctx context.Context, dir string) (*System, error)
	// Sweep are the scales to play, until the system gives in.
	Sweep []int
	// Time is how long each is played; 0: until all nodes are done.
	Time time.Duration
	// Pace is the time between the starts of two nodes. Their starts are then not
	// part of Time, and only what follows is measured. 0: all start within a third
	// of Time.
	Pace   time.Duration
	Limits judge.Limits // beyond which the system has given in
	// Patience is how long a node waits for others in the sweep; 0: five minutes.
	Patience time.Duration
	// Above Own nodes, all share Share connections, because a process may not
	// have one for each. 0: each node has its own at any scale.
	Own, Share int

	// Denied reports whether a reply with a good status denies the request; Lost,
	// whether it says that the node was declared dead; Ready, whether it ends the
	// start-up of a node, or of what began with Begins. Each may be nil.
	Denied, Lost, Ready, Begins func(*trace.Call) bool
	StartUp                     string // from where to where start-up is measured

	Paper []PaperFigure
}

// A System is a running system to play to.
type System struct {
	Targets map[string]replay.Executor // by role; see replay.Options
	// Says returns the system's own figures; it may be nil.
	Says func(context.Context) (string, error)
	Log  string // a trace of all calls that the system writes itself; "" if it does not
	PID  int    // its process
	Stop func()
}

// Targets are all targets, for an experiment's options.
func Targets(o lab.Options) []Target {
	return []Target{etcd(o), nameNode(o), resourceManager(o), apiServer(o)}
}

// Experiment is all steps for one target, the first unless the options name one.
func Experiment() lab.Experiment {
	return lab.Experiment{Name: "extrapolate", Short: "traces to knee, with a real engine (--target): Tables IV and VI, Figures 5 to 10", Paper: "PatternMiner, Tables IV and VI, Figures 5 to 10", Engine: true, Run: run}
}

func run(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	targets := Targets(o)
	chosen := targets[0]
	var names []string
	for _, t := range targets {
		names = append(names, t.Name)
		if t.Name == o.Target {
			chosen = t
		}
	}
	if o.Target != "" && chosen.Name != o.Target {
		return nil, nil, input.Fieldf("target", "there is no target %q; there are %s", o.Target, strings.Join(names, ", "))
	}
	dir, err := os.MkdirTemp("", "gleaner-extrapolate-")
	if err != nil {
		return nil, nil, fmt.Errorf("extrapolate: %w", err)
	}
	defer os.RemoveAll(dir)
	e := &experiment{Target: chosen, dir: dir}
	steps := []func(context.Context) error{e.record, e.learn, e.playBack, e.sweep}
	for i, step := range steps {
		o.Done(i, len(steps))
		if err := step(ctx); err != nil {
			return nil, nil, err
		}
	}
	tables, figures := e.results()
	return tables, figures, nil
}

// An experiment is the results of the steps.
type experiment struct {
	Target
	dir    string
	traces map[int][]string // by scale

	model   *mine.Model
	report  *mine.Report
	near    float64         // share of intervals that are about as predicted
	refused *replay.Counter // calls recorded at the checked scale that were refused
	played  *replay.Result
	extra   map[int]*extras // by scale
	roles   []string        // that were played to
	swept   *replay.Report
}

// record gets the traces of all scales.
func (e *experiment) record(ctx context.Context) error {
	e.traces = map[int][]string{}
	var mu sync.Mutex
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(max(e.AtOnce, 1))
	for _, scale := range append([]int{e.Check}, e.Learn...) {
		all.Go(func() error {
			files, err := e.Trace(ctx, e.dir, scale)
			mu.Lock()
			defer mu.Unlock()
			e.traces[scale] = files
			return err
		})
	}
	return all.Wait()
}

// learn mines the small scales, and checks the large one.
func (e *experiment) learn(ctx context.Context) error {
	overrides, err := mine.ReadOverrides(e.Name, e.Override)
	if err != nil {
		return err
	}
	logs := corpus.New()
	for _, scale := range e.Learn {
		for _, file := range e.traces[scale] {
			r := logs.Begin(file)
			if err := addCalls(r, file, overrides); err != nil {
				return err
			}
			logs.Learn(r)
		}
	}
	model, err := overrides.Learn(ctx, e.Name, logs)
	if err != nil {
		return err
	}
	check := logs.Begin(e.traces[e.Check][0])
	if err := addCalls(check, e.traces[e.Check][0], overrides); err != nil {
		return err
	}
	e.model, e.report = model, model.Report()
	e.report.Check = model.Check(check)
	e.near = near(model.Intervals(check))
	return nil
}

// noise is how far off an interval may be on a machine that does other things too.
const noise = 5 // ms

// near is the share of intervals within 10%, or the machine's noise.
func near(predicted, recorded []float64) float64 {
	n := 0
	for i := range recorded {
		if math.Abs(predicted[i]-recorded[i]) <= max(0.1*recorded[i], noise) {
			n++
		}
	}
	return share(n, len(recorded))
}

func addCalls(to *corpus.Recording, file string, o *mine.Overrides) error {
	return eachCall(file, func(c *trace.Call) {
		if !o.LeavesOut(c.Sender) {
			to.Add(c)
		}
	})
}

func eachCall(file string, see func(*trace.Call)) error {
	in, err := trace.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	for {
		call, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		see(call)
	}
}

// A tally is the calls in a trace, and those of them that were refused, by node type.
type tally struct{ calls, refused *replay.Counter }

func (e *experiment) tally(file string) (tally, error) {
	t := tally{replay.NewCounter(e.model.Program), replay.NewCounter(e.model.Program)}
	return t, eachCall(file, func(c *trace.Call) {
		t.calls.Add(c)
		if trace.Refused(c.Status) {
			t.refused.Add(c)
		}
	})
}

// playBack plays the checked scale to the end, with all nodes from the start, as it
// was recorded.
func (e *experiment) playBack(ctx context.Context) (err error) {
	e.extra = map[int]*extras{}
	recorded, err := e.tally(e.traces[e.Check][0])
	if err != nil {
		return err
	}
	e.refused = recorded.refused
	e.played, err = e.play(ctx, replay.Options{Ramp: -1, Compress: e.Compress, Patience: 2 * time.Minute}, e.Check)
	return err
}

// sweep plays larger and larger scales, each to a fresh system.
func (e *experiment) sweep(ctx context.Context) (err error) {
	e.swept, err = replay.Sweep(ctx, e.Sweep, e.Limits, func(ctx context.Context, scale int) (*replay.Result, error) {
		return e.play(ctx, e.timed(scale), scale)
	})
	return err
}

// timed is how one scale of the sweep is played. A program that was learned on a
// machine that slowed down with the scale has waits that grow with it: they are
// scaled down again.
func (e *experiment) timed(scale int) replay.Options {
	o := replay.Options{For: e.Time, Ramp: e.Time / 3, Stay: true, Patience: e.Patience}
	if e.Compress > 0 {
		o.Compress = 1e6
	}
	if e.Faster > 0 {
		o.Compress = e.Faster
	}
	if e.Own > 0 && scale > e.Own {
		o.Share = e.Share
	}
	if e.Pace > 0 {
		const beat = 3 * time.Second
		o.Ramp = max(beat, time.Duration(scale)*e.Pace)
		o.Warmup = o.Ramp + beat
		if e.Time > 0 { // some types start when all of another have
			o.For = 2*o.Ramp + e.Time
		}
	}
	return o
}

func (e *experiment) play(ctx context.Context, o replay.Options, scale int) (*replay.Result, error) {
	dir := filepath.Join(e.dir, fmt.Sprintf("play-%d", scale))
	defer os.RemoveAll(dir)
	system, err := e.Start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer system.Stop()
	e.roles = slices.Sorted(maps.Keys(system.Targets))
	o.Program, o.Targets, o.Seed, o.Limits = e.model.Program, system.Targets, 1, e.Limits
	o.Patience = cmp.Or(o.Patience, 5*time.Minute) // a node may have to wait for all others
	if o.Setting, err = grow.Resolve(o.Program, grow.Setting{Scale: scale, Run: e.Name}); err != nil {
		return nil, err
	}
	x := &extras{begun: map[string]int64{}, lost: map[string]bool{}}
	o.Record = func(c *trace.Call) { x.see(&e.Target, c) }
	watch, unknown := proc.Watch([]int{system.PID})
	result, err := replay.Play(ctx, o)
	if err == nil && result.Ended == "interrupted" {
		err = ctx.Err()
	}
	if err == nil && unknown == nil {
		u, _ := watch.Usage()
		result.CPU = judge.CPU{Cores: u.Cores, Players: u.Self, Target: u.Chosen, Others: u.Others, PlayersWaited: 1e3 * u.SelfWaited.Seconds(), TargetWaited: 1e3 * u.ChosenWaited.Seconds()}
	}
	if err == nil && system.Says != nil {
		if x.says, err = system.Says(ctx); err != nil {
			x.says, err = err.Error(), nil // the system may have given in
		}
	}
	if err == nil && system.Log != "" && scale == e.Check {
		x.logged, err = e.tally(system.Log)
	}
	e.extra[scale] = x
	return result, err
}

// extras are what only the content of the target's replies shows.
type extras struct {
	mu      sync.Mutex
	begun   map[string]int64 // when a node made its first call; for "", when the call Begins was made
	says    string
	logged  tally           // what the system's own log has, if it has one
	lost    map[string]bool // nodes that were declared dead
	denied  int
	ready   int
	startup int64 // of all that are ready
}

func (x *extras) see(t *Target, c *trace.Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	who := c.Sender
	if t.Begins != nil {
		who = ""
	}
	if _, ok := x.begun[who]; !ok && (t.Begins == nil || t.Begins(c)) {
		x.begun[who] = c.Start
	}
	if t.Denied != nil && t.Denied(c) {
		x.denied++
	}
	if t.Lost != nil && t.Lost(c) {
		x.lost[c.Sender] = true
	}
	if t.Ready != nil && t.Ready(c) {
		x.ready++
		x.startup += c.End - x.begun[who]
	}
}

// startupMillis is how long a node took on average until it was ready.
func (x *extras) startupMillis() float64 { return float64(x.startup) / 1e6 / float64(max(x.ready, 1)) }
