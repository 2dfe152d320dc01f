package colocation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/harvest"
	"gleaner/lab/search"
	"gleaner/lab/search/service"
	"gleaner/local"
)

// A bench is the running service, and everything that is the same for every setting.
type bench struct {
	dir     string
	corpus  search.Corpus
	service *search.Service
	day     day
	size    size
	whole   float64 // queries a second that would keep all cores busy
	kit     kit
}

// open builds and starts the service and measures how fast it and the batch jobs
// are here.
func open(ctx context.Context, size size) (b *bench, err error) {
	b = &bench{size: size, corpus: search.Usual}
	if b.day, err = swingingDay(mean); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "gleaner-lab-"); err != nil {
		return nil, err
	}
	if err := b.begin(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) begin(ctx context.Context) error {
	index := filepath.Join(b.dir, "index")
	if err := service.Build(index, b.corpus); err != nil {
		return err
	}
	var err error
	if b.service, err = search.Start(ctx, index); err != nil {
		return err
	}
	if err := b.calibrate(ctx); err != nil {
		return err
	}
	if b.kit.program, err = os.Executable(); err != nil {
		return err
	}
	begun := time.Now()
	const rows = 5_000_000
	tally(0, rows)
	b.kit.rows = int(rows * b.size.task().Seconds() / time.Since(begun).Seconds())
	b.kit.mb = 64
	return nil
}

// calibrate finds the rate of queries that keeps the whole machine busy: it measures
// the service's highest rate, and then the cost of a quarter of that rate, because
// idle cores behave differently from busy ones.
func (b *bench) calibrate(ctx context.Context) error {
	r := rand.New(rand.NewPCG(1, 4))
	most, err := search.Capacity(ctx, b.service.URL, b.corpus.Queries(10_000, r), 2*runtime.NumCPU(), b.size.calibrate)
	if err != nil {
		return err
	}
	rate := mean * most
	steady := search.Follow(func(time.Duration) float64 { return rate }, b.size.calibrate, b.corpus, r)
	before, err := read(b.service.Pid)
	if err != nil {
		return err
	}
	sent, err := steady.Play(ctx, b.service.URL)
	if err != nil {
		return err
	}
	after, err := read(b.service.Pid)
	if err != nil {
		return err
	}
	_, _, primary := after.since(before)
	b.whole = float64(len(sent)) / after.at.Sub(before.at).Seconds() / primary
	return nil
}

func (b *bench) close() error {
	var err error
	if b.service != nil {
		err = b.service.Stop()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// load is the day's queries; they are the same in every setting.
func (b *bench) load() search.Load {
	rate := func(at time.Duration) float64 { return b.whole * b.day.at(float64(at)/float64(b.size.length)) }
	return search.Follow(rate, b.size.length, b.corpus, rand.New(rand.NewPCG(1, 5)))
}

// roomFor is the CPU of one task: what the paper's reserve and a primary of one core
// leave, but at most a core. It is the same in every setting.
func roomFor(size cluster.Resources) cluster.MilliCPU {
	return min(harvest.ReserveFor(size, false).Most(size).CPU, cluster.Core)
}

// play runs a day in a setting and returns the outcome.
func (b *bench) play(ctx context.Context, s setting, jobs []arrival) (o outcome, err error) {
	dir, err := os.MkdirTemp(b.dir, "world-")
	if err != nil {
		return o, err
	}
	policy, err := harvest.PolicyNamed(s.policy)
	if err != nil {
		return o, err
	}
	world, err := local.Open(local.Options{Dir: dir, Server: "here", Equal: !harvest.Guarded(policy)})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, world.Close(), os.RemoveAll(dir)) }()
	if !s.harvests {
		jobs = nil
	}
	kept := s.kept.reserve(world.Machine().Size(), world.Isolated())
	j, err := b.rule(ctx, world, policy, kept, func(ctx context.Context) error {
		return b.pass(ctx, world, policy, jobs, dir, &o)
	})
	if err != nil {
		return o, err
	}
	o.confined, o.isolated = world.Confined(), world.Isolated()
	j.sum(&o, b.kit.mb)
	return o, nil
}

// rule lets a policy control the world while do runs.
func (b *bench) rule(ctx context.Context, world *local.World, policy harvest.Policy, kept harvest.Reserve, do func(context.Context) error) (*journal, error) {
	j := newJournal(world)
	brain := control.NewBrain(harvest.Options{Policy: policy, Reserve: kept, Rand: rand.New(rand.NewPCG(1, 6)), Steady: b.size.steady()})
	ctx, stop := context.WithCancelCause(ctx)
	loop := make(chan error, 1)
	go func() {
		err := control.Run(ctx, world, brain, j)
		stop(err) // do need not go on
		loop <- err
	}()
	err := do(ctx)
	j.end = time.Now()
	stop(nil)
	if failed := <-loop; !errors.Is(failed, context.Canceled) {
		err = errors.Join(failed, err)
	}
	world.Stop("the day is over")
	return j, err
}

// pass runs the day: jobs are submitted and queries are sent.
func (b *bench) pass(ctx context.Context, world *local.World, policy harvest.Policy, jobs []arrival, dir string, o *outcome) error {
	if _, picks := policy.(harvest.ClassPicker); picks {
		classes, err := b.day.classes(ctx, world.Machine())
		if err != nil {
			return err
		}
		if len(classes) == 0 {
			return errors.New("the primary's past does not show its class")
		}
		world.Publish(classes)
	}
	kit := b.kit
	kit.request = cluster.Resources{CPU: roomFor(world.Machine().Size()), Memory: taskMemory}
	if !harvest.Guarded(policy) {
		kit.request.CPU = cluster.Core // what it will use: so no more tasks run than there are cores
	}
	load := b.load()
	before, err := read(b.service.Pid)
	if err != nil {
		return err
	}
	submitted := make(chan error, 1)
	go func() { submitted <- submit(ctx, world, kit, jobs, dir) }()
	if o.queries, err = load.Play(ctx, b.service.URL); err != nil {
		return errors.Join(err, <-submitted)
	}
	after, err := read(b.service.Pid)
	o.busy, o.stolen, o.primary = after.since(before)
	return errors.Join(err, <-submitted)
}

// taskMemory is a task's memory: copied tables pass through it.
const taskMemory = 256 * cluster.MB

// submit submits jobs when they are due.
func submit(ctx context.Context, world *local.World, k kit, jobs []arrival, dir string) error {
	begun := time.Now()
	for i, a := range jobs {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(a.at - time.Since(begun)):
		}
		place := filepath.Join(dir, fmt.Sprintf("found-%d", i))
		if err := os.Mkdir(place, 0o700); err != nil {
			return err
		}
		if _, err := world.Submit(k.job(a.shape, place)); err != nil {
			return err
		}
	}
	return nil
}
