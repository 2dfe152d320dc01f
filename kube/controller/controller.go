// Package controller rules a Kubernetes cluster: it runs the loop over it, with the core and
// the policies of every other world, for as long as it is the leader.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"gleaner/control"
	"gleaner/control/diary"
	"gleaner/harvest"
	"gleaner/history"
	"gleaner/history/prometheus"
	"gleaner/kube"
	"gleaner/kv"
)

// Options of a controller.
type Options struct {
	Config    *rest.Config
	Namespace string // of its own Lease and of the agents' reports
	Policy    harvest.Policy
	Reserve   harvest.Reserve
	Labels    kube.Labels
	Tenancy   kube.Tenancy
	// Store opens where history and classes are kept, once this process leads; it is closed
	// when it does not any more.
	Store func(context.Context) (kv.Store, error)
	// Prometheus, if not nil, is asked for the history, without its times; else it is what
	// the agents report.
	Prometheus *prometheus.Query
	Sample     time.Duration    // between two samples of what agents report; 0: two minutes
	Recorder   control.Recorder // nil: nothing is recorded
	Log        *slog.Logger
	Every      time.Duration // see kube.Options
	Silence    time.Duration // see kube.Options
	Speed      float64       // see kube.Options
	Lease      time.Duration // for which a leader that is gone keeps the others waiting; 0: 15 seconds
	Steady     time.Duration // see harvest.Options
}

// lease is the name of the Lease that the leader holds.
const lease = "gleaner-controller"

// Run rules the cluster until ctx is done or something fails. Tasks go on without it.
func Run(ctx context.Context, o Options) error {
	scheme, err := kube.Scheme()
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	cached, err := kube.CacheOptions(scheme, o.Namespace)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	term := cmp.Or(o.Lease, 15*time.Second)
	renew, retry := term*2/3, term*2/15
	m, err := manager.New(o.Config, manager.Options{Scheme: scheme, Cache: cached, Logger: logr.FromSlogHandler(o.Log.Handler()),
		LeaderElection: true, LeaderElectionID: lease, LeaderElectionNamespace: o.Namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &term, RenewDeadline: &renew, RetryPeriod: &retry,
		Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error { return o.lead(ctx, m) })); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return m.Start(ctx)
}

// lead runs the loop. The manager calls it once this process is the leader.
func (o Options) lead(ctx context.Context, m manager.Manager) (err error) {
	under, err := o.Store(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, under.Close()) }()
	store, err := history.Open(ctx, under, time.Now)
	if err != nil {
		return err
	}
	w, err := o.open(ctx, m, store)
	if err != nil {
		return err
	}
	defer w.Close()
	o.Log.Info("leading", "namespace", o.Namespace)
	return o.run(ctx, w, store)
}

// open takes in the cluster as it is.
func (o Options) open(ctx context.Context, m manager.Manager, store *history.Store) (*kube.World, error) {
	c, err := client.New(o.Config, client.Options{Scheme: m.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	ended, err := past(ctx, store)
	if err != nil {
		return nil, err
	}
	return kube.Open(ctx, kube.Options{Client: c, Cache: m.GetCache(), Labels: o.Labels, Tenancy: o.Tenancy, Past: ended, Log: o.Log,
		Events: m.GetEventRecorder("gleaner"), Every: o.Every, Silence: o.Silence, Speed: o.Speed, Most: o.Reserve.Most})
}

// run runs the loop and what writes the history; the first to end ends all.
func (o Options) run(ctx context.Context, w *kube.World, store *history.Store) error {
	brain := control.NewBrain(harvest.Options{Policy: o.Policy, Reserve: o.Reserve, Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)), Steady: o.Steady})
	brain.Guards = nil // the agent of each node guards it; a second guard would kill others for the same need
	runs := newLedger(store, o.Log)
	all := control.Recorders{runs}
	if o.Recorder != nil {
		all = append(all, o.Recorder)
	}
	parts := []func(context.Context) error{runs.keep, (&keeper{w, store, o.Prometheus, o.Log}).keep}
	if o.Prometheus == nil {
		d := diary.New(store, o.Log)
		d.Every = cmp.Or(o.Sample, d.Every)
		all, parts = append(all, d), append(parts, d.Keep)
	}
	parts = append(parts, func(ctx context.Context) error { return control.RunApart(ctx, w, brain, all) })
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(parts))
	var going sync.WaitGroup
	for _, part := range parts {
		going.Go(func() { ended <- part(ctx) })
	}
	err := <-ended
	stop()
	going.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
