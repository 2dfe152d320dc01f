package kube

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/kube/api/v1alpha1"
)

// Options of a World. Client and Cache must be given.
type Options struct {
	Client client.Client // reads from the API server itself
	Cache  cache.Cache   // of CacheOptions; it runs
	Labels Labels
	// Tenancy says whom nodes belong to; empty: their labels do.
	Tenancy Tenancy
	// Past are jobs that ended and are in the API no more: the core knows by them how long
	// such jobs take.
	Past []cluster.PastJob
	Log  *slog.Logger // nil: nothing is logged
	// Events says in the API, beside each job, what became of its runs and why. Nil: it is
	// not said.
	Events events.EventRecorder
	// Every is the time between two reports of use and between two writes of a job's
	// status; 0: a second.
	Every time.Duration
	// Speed is how fast the clock of events goes, for clusters whose time is played; 0: as
	// clocks do.
	Speed float64
	// Most is the most that harvested pods can ever hold on a node of a size, for jobs to say
	// that they are too large. Nil: all of it.
	Most func(cluster.Resources) cluster.Resources
	// Silence is how long a node may go without a report before it offers nothing;
	// 0: 40 seconds.
	Silence time.Duration
}

// Labels are the labels of nodes that say to whom they belong. An empty one is not read.
type Labels struct{ Environment, Function, Rack string }

// DefaultLabels are read if nobody asks for others.
var DefaultLabels = Labels{"gleaner.dev/environment", "gleaner.dev/function", "topology.kubernetes.io/zone"}

// A World is a Kubernetes cluster.
type World struct {
	Options
	ctx     context.Context // of what goes on behind Next and Do
	stop    func()
	opened  time.Time
	behind  sync.WaitGroup
	calls   chan struct{} // taken by calls to the API server
	ticks   *time.Ticker
	wake    chan struct{} // something is in the queue
	fresh   chan struct{} // jobs wait for a number
	handles []func()      // end the watching

	mu      sync.Mutex
	nodes   map[cluster.ServerID]*node
	tenants map[cluster.ServerID]tenant // unless labels name them
	reports map[cluster.ServerID]*report
	jobs    map[cluster.JobID]*job      // that have not ended, or whose end is not written yet
	numbers map[types.UID]cluster.JobID // of all jobs there are; 0 if they wait for one
	waiting []*v1alpha1.HarvestJob      // for a number
	last    cluster.JobID
	tasks   map[cluster.TaskID]*task // that run
	queue   []cluster.Event

	explained time.Time // when jobs were last looked at to say why they wait
}

// atOnce is how many calls to the API server may be under way. Its own limit is 600 for
// everyone together.
const atOnce = 32

// Scheme knows the objects that a World reads and writes.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgo.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, v1alpha1.AddTo(s)
}

// CacheOptions leave out of the cache what a World does not need: the pods of others above
// all. Reports are read in namespace.
func CacheOptions(s *runtime.Scheme, namespace string) (cache.Options, error) {
	report, err := labels.NewRequirement(ReportLabel, selection.Exists, nil)
	return cache.Options{Scheme: s, DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:           {Field: fields.OneTermEqualSelector("spec.schedulerName", Scheduler)},
		&coordinationv1.Lease{}: {Label: labels.NewSelector().Add(*report), Namespaces: map[string]cache.Config{namespace: {}}},
	}}, err
}

// Open takes in the cluster as it is: what runs goes on. The world works until ctx is done or
// it is closed.
func Open(ctx context.Context, o Options) (*World, error) {
	o.Every, o.Silence = cmp.Or(o.Every, time.Second), cmp.Or(o.Silence, 40*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	w := &World{Options: o, opened: time.Now(), calls: make(chan struct{}, atOnce), wake: make(chan struct{}, 1), fresh: make(chan struct{}, 1),
		nodes: map[cluster.ServerID]*node{}, reports: map[cluster.ServerID]*report{},
		jobs: map[cluster.JobID]*job{}, numbers: map[types.UID]cluster.JobID{}, tasks: map[cluster.TaskID]*task{}}
	w.ctx, w.stop = context.WithCancel(ctx)
	w.mu.Lock() // what is seen from now on waits until the past is known
	err := w.watch()
	if err == nil {
		err = w.begin()
	}
	w.mu.Unlock()
	w.ticks = time.NewTicker(o.Every)
	w.behind.Go(w.admit)
	w.behind.Go(w.write)
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("kube: %w", err)
	}
	return w, nil
}

// Close ends the world's work. Tasks go on.
func (w *World) Close() {
	w.stop()
	w.ticks.Stop()
	for _, end := range w.handles {
		end()
	}
	w.behind.Wait()
}

// watch has every change of the cluster told to the world.
func (w *World) watch() error {
	for _, start := range []func() (func(), error){
		func() (func(), error) { return Follow(w.ctx, w.Cache, w.nodeSeen, w.nodeGone) },
		func() (func(), error) { return Follow(w.ctx, w.Cache, w.reportSeen, w.reportGone) },
		func() (func(), error) { return Follow(w.ctx, w.Cache, w.jobSeen, w.jobGone) },
		func() (func(), error) { return Follow(w.ctx, w.Cache, w.podSeen, w.podGone) },
	} {
		end, err := start()
		if err != nil {
			return err
		}
		w.handles = append(w.handles, end)
	}
	if !w.Cache.WaitForCacheSync(w.ctx) {
		return context.Cause(w.ctx)
	}
	return nil
}

// Follow has the changes of the objects of a type told, first that there are those there are,
// until end is called.
func Follow[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c cache.Cache, seen, gone func(P)) (end func(), err error) {
	informer, err := c.GetInformer(ctx, P(new(T)))
	if err != nil {
		return nil, err
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen(o.(P)) },
		UpdateFunc: func(_, o any) { seen(o.(P)) },
		DeleteFunc: func(o any) {
			if last, missed := o.(toolscache.DeletedFinalStateUnknown); missed {
				o = last.Obj
			}
			gone(o.(P))
		},
	})
	return func() { _ = informer.RemoveEventHandler(handle) }, err // it fails if the informer has ended
}

// begin queues the first events: the nodes, what became of the jobs, and then what runs,
// from the oldest to the youngest.
func (w *World) begin() error {
	var nodes corev1.NodeList
	var leases coordinationv1.LeaseList
	var jobs v1alpha1.HarvestJobList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&nodes, &leases, &jobs, &pods} {
		if err := w.Cache.List(w.ctx, list); err != nil {
			return err
		}
	}
	for i := range leases.Items {
		w.readReport(&leases.Items[i])
	}
	for i := range nodes.Items {
		w.join(&nodes.Items[i])
	}
	return w.resume(jobs.Items, pods.Items)
}

// tell queues an event; w.mu is held.
func (w *World) tell(ev cluster.Event) {
	ev.At = w.now()
	w.queue = append(w.queue, ev)
	poke(w.wake)
}

// now is the time of events.
func (w *World) now() time.Time {
	if w.Speed == 0 {
		return time.Now()
	}
	return w.opened.Add(time.Duration(float64(time.Since(w.opened)) * w.Speed))
}

// poke wakes whoever waits on c, if nobody has yet.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Next waits for the next event. A report that is due goes first.
func (w *World) Next(ctx context.Context) (cluster.Event, error) {
	for {
		select {
		case <-ctx.Done():
			return cluster.Event{}, ctx.Err()
		case <-w.ctx.Done():
			return cluster.Event{}, w.ctx.Err()
		case <-w.ticks.C:
			w.mu.Lock()
			w.look(time.Now())
			w.mu.Unlock()
		default:
		}
		if ev, ok := w.pop(); ok {
			return ev, nil
		}
		select {
		case <-ctx.Done():
		case <-w.ctx.Done():
		case <-w.ticks.C:
			w.mu.Lock()
			w.look(time.Now())
			w.mu.Unlock()
		case <-w.wake:
		}
	}
}

func (w *World) pop() (cluster.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return cluster.Event{}, false
	}
	ev := w.queue[0]
	w.queue = w.queue[1:]
	return ev, true
}

// Do begins to carry out an action.
func (w *World) Do(a cluster.Action) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a.Kind {
	case cluster.StartTask:
		w.start(a)
	case cluster.KillTask:
		if t := w.tasks[a.Task]; t != nil {
			w.kill(t, a.Reason)
		}
	case cluster.FinishJob:
		w.finish(a)
	}
	return nil
}
