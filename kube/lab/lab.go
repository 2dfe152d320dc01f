// Package lab plays a generated datacenter on a Kubernetes cluster whose nodes are only objects,
// in compressed time: hollow agents report its history, its batch jobs come in, and a real
// controller rules. The simulator's figures for the same datacenter, jobs and seed stand beside.
package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/kube"
	"gleaner/kube/agent"
	"gleaner/kube/api/v1alpha1"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

// Namespace is where the jobs are.
const Namespace = "default"

// An Experiment is one policy on one datacenter.
type Experiment struct {
	Config     *rest.Config // of an administrator
	System     string       // the namespace of reports
	Datacenter *datacenter.Datacenter
	Length     time.Duration // that is played, from the datacenter's Now on
	Speed      float64
	Policy     string
	Seed       uint64
	Load       float64 // as in simulation.Compute
	// Controller starts a controller and waits until it leads; stop ends it.
	Controller func(context.Context) (stop func() error, err error)
	Log        *slog.Logger
}

// A Result is what became of it. Times are those that were played.
type Result struct {
	Policy     string
	Jobs       int
	Unfinished int
	MeanJob    time.Duration // as in compute.Result
	// Stretch is by what factor finished tasks were held longer than they take: what the
	// cluster needs to start and end them, much of it if this machine is too slow to be played on.
	Stretch float64
	agent.Counts
	Simulated compute.Result
}

// A game is an experiment that runs.
type game struct {
	Experiment
	client client.Client
	cache  cache.Cache
	begun  time.Time

	mu          sync.Mutex
	since       map[string]time.Time     // jobs that run, by name
	took        map[string]time.Duration // that have ended
	held, alone float64                  // seconds, of all tasks that have finished
}

// Run plays an experiment to its end, and removes its jobs and nodes.
func (e Experiment) Run(ctx context.Context) (r Result, err error) {
	if e.Length > e.Datacenter.Window.To().Sub(e.Datacenter.Now) {
		return r, errors.New("lab: the datacenter has no history for so long")
	}
	sim := simulation.Compute{Policy: e.Policy, Seed: e.Seed, Load: e.Load}
	if r.Simulated, err = sim.Run(ctx, until(e.Datacenter, e.Length), nil); err != nil {
		return r, err
	}
	g := &game{Experiment: e, since: map[string]time.Time{}, took: map[string]time.Duration{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	if err := g.open(); err != nil {
		return r, err
	}
	go func() { ended <- g.cache.Start(ctx) }()
	if err := g.nodes(ctx); err != nil {
		return r, err
	}
	stop, err := e.Controller(ctx)
	if err != nil {
		return r, err
	}
	fleet := g.fleet()
	g.begun = time.Now()
	go func() { ended <- fleet.Run(ctx) }()
	err = g.play(ctx)
	r = g.result(fleet.Counts(), r.Simulated)
	err = errors.Join(err, stop())
	cancel()
	err = errors.Join(err, <-ended, <-ended)
	return r, errors.Join(err, g.clear(context.WithoutCancel(ctx)))
}

// until is a datacenter with less future.
func until(d *datacenter.Datacenter, length time.Duration) *datacenter.Datacenter {
	short := *d
	short.Window = d.Window.Until(d.Now.Add(length))
	return &short
}

// open makes client and cache.
func (g *game) open() (err error) {
	s, err := kube.Scheme()
	if err != nil {
		return err
	}
	if g.client, err = client.New(g.Config, client.Options{Scheme: s}); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	o, err := kube.CacheOptions(s, g.System)
	if err == nil {
		g.cache, err = cache.New(g.Config, o)
	}
	return err
}

// now is the time that is played.
func (g *game) now() time.Time {
	return g.Datacenter.Now.Add(time.Duration(float64(time.Since(g.begun)) * g.Speed))
}

// nodeOf is the name of a server as a node.
func nodeOf(s cluster.Server) cluster.ServerID {
	return cluster.ServerID(strings.ToLower(string(s.ID)))
}

// nodes makes the servers of the datacenter, for kwok to play.
func (g *game) nodes(ctx context.Context) error {
	for _, s := range g.Datacenter.Servers {
		size := corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(s.CPU), resource.DecimalSI), "memory": *resource.NewQuantity(int64(s.Memory), resource.BinarySI),
			"pods": resource.MustParse("500")}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(nodeOf(s)), Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{kube.DefaultLabels.Environment: s.Environment, kube.DefaultLabels.Function: s.Function}},
			Status: corev1.NodeStatus{Capacity: size, Allocatable: size}}
		if err := g.client.Create(ctx, n); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("lab: %w", err)
		}
	}
	return nil
}

// fleet is the agents.
func (g *game) fleet() *agent.Fleet {
	d := g.Datacenter
	f := &agent.Fleet{Client: g.client, Cache: g.cache, Namespace: g.System, Reserve: harvest.PaperReserve, Now: g.now, Log: g.Log,
		Every: time.Duration(float64(d.Window.Step) / g.Speed),
		Primary: func(server int, at time.Time) cluster.Resources {
			slot := min(max(d.SlotAt(at), 0), d.Window.Len-1)
			return cluster.Resources{CPU: cluster.MilliCPU(float64(d.CPU(server, slot)) * float64(d.Servers[server].CPU))}
		}}
	for _, s := range d.Servers {
		s.ID = nodeOf(s)
		f.Servers = append(f.Servers, s)
	}
	f.Finished = g.finished
	if g.Policy == "koordinator" {
		f.Offer = newKoordinator
	}
	return f
}

// play has the jobs come in until the time is over.
func (g *game) play(ctx context.Context) error {
	end, err := kube.Follow(ctx, g.cache, g.seen, func(*v1alpha1.HarvestJob) {})
	if err != nil {
		return err
	}
	defer end()
	load := compute.Workload{Queries: compute.Queries(), Stretch: simulation.Stretch, Load: g.load(), Cores: simulation.Cores(g.Datacenter)}
	for _, a := range load.Arrivals(g.Length, rand.New(rand.NewPCG(g.Seed, 1))) {
		if err := g.wait(ctx, a.At); err != nil {
			return err
		}
		h := g.job(&a)
		g.mu.Lock()
		g.since[h.Name] = g.Datacenter.Now.Add(a.At)
		g.mu.Unlock()
		if err := g.client.Create(ctx, h); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
	}
	return g.wait(ctx, g.Length)
}

func (g *game) load() float64 {
	if g.Load == 0 {
		return simulation.Load
	}
	return g.Load
}

// wait waits until a time since the beginning.
func (g *game) wait(ctx context.Context, at time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(g.begun.Add(time.Duration(float64(at) / g.Speed)))):
		return nil
	}
}

// job is an arrival as an object, whose tasks sleep for as long as they take.
func (g *game) job(a *compute.Arrival) *v1alpha1.HarvestJob {
	h := &v1alpha1.HarvestJob{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", a.Job.Name, a.Job.ID), Namespace: Namespace}, Spec: v1alpha1.HarvestJobSpec{Name: a.Job.Name}}
	for _, st := range a.Job.Stages {
		stage := v1alpha1.Stage{Name: st.Name, Tasks: int32(st.Tasks), CPU: *resource.NewMilliQuantity(int64(st.Request.CPU), resource.DecimalSI),
			Memory: *resource.NewQuantity(int64(st.Request.Memory), resource.BinarySI), Image: "none", Command: []string{"sleep", "{}"}, After: st.After}
		for k := range st.Tasks {
			takes, _ := a.Task(cluster.TaskID{Job: a.Job.ID, Stage: st.Name, Index: int32(k)})
			stage.Each = append(stage.Each, strconv.FormatFloat(takes.Seconds()/g.Speed, 'f', 3, 64))
		}
		h.Spec.Stages = append(h.Spec.Stages, stage)
	}
	return h
}

// seen notes that a job has ended, and removes it.
func (g *game) seen(h *v1alpha1.HarvestJob) {
	if h.Status.Ended == nil {
		return
	}
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if since, runs := g.since[h.Name]; runs {
		g.took[h.Name] = now.Sub(since)
		delete(g.since, h.Name)
		go func() { _ = g.client.Delete(context.Background(), h.DeepCopy()) }() // what is left is removed in the end
	}
}

// finished counts how long a task was held that has finished.
func (g *game) finished(p *corev1.Pod, held time.Duration) {
	takes, err := strconv.ParseFloat(p.Spec.Containers[0].Command[1], 64)
	if err != nil {
		return // it is no job of ours
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held += held.Seconds()
	g.alone += takes * g.Speed
}

// result sums up.
func (g *game) result(c agent.Counts, simulated compute.Result) Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := Result{Policy: g.Policy, Jobs: len(g.took) + len(g.since), Unfinished: len(g.since), Counts: c, Simulated: simulated}
	if g.alone > 0 {
		r.Stretch = g.held / g.alone
	}
	sum := time.Duration(0)
	for _, took := range g.took {
		sum += took
	}
	for _, since := range g.since {
		sum += g.Datacenter.Now.Add(g.Length).Sub(since)
	}
	if r.Jobs > 0 {
		r.MeanJob = sum / time.Duration(r.Jobs)
	}
	return r
}

// clear removes jobs, pods and nodes. The controller is gone, which took the finalizers off.
func (g *game) clear(ctx context.Context) error {
	err := g.client.DeleteAllOf(ctx, &v1alpha1.HarvestJob{}, client.InNamespace(Namespace))
	for err == nil {
		var pods corev1.PodList
		if err = g.client.List(ctx, &pods, client.InNamespace(Namespace), client.HasLabels{kube.JobLabel}); len(pods.Items) == 0 {
			break
		}
		atOnce(pods.Items, func(p corev1.Pod) {
			p.Finalizers = nil
			_ = g.client.Update(ctx, &p) // it is tried again
			_ = g.client.Delete(ctx, &p, client.GracePeriodSeconds(0))
		})
	}
	atOnce(g.Datacenter.Servers, func(s cluster.Server) {
		_ = g.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(nodeOf(s))}}) // the next experiment takes one that is left
	})
	return err
}

// atOnce calls do for each, several at once.
func atOnce[T any](all []T, do func(T)) {
	var going sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, one := range all {
		slots <- struct{}{}
		going.Go(func() {
			do(one)
			<-slots
		})
	}
	going.Wait()
}
