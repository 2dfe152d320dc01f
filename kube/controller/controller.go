// Package controller rules a Kubernetes cluster: it runs the loop over it, with the core and
// the policies of every other world, for as long as it is the leader.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"gleaner/control"
	"gleaner/harvest"
	"gleaner/kube"
)

// Options of a controller.
type Options struct {
	Config    *rest.Config
	Namespace string // of its own Lease and of the agents' reports
	Policy    harvest.Policy
	Reserve   harvest.Reserve
	Labels    kube.Labels
	Recorder  control.Recorder // nil: nothing is recorded
	Log       *slog.Logger
	Every     time.Duration // see kube.Options
	Steady    time.Duration // see harvest.Options
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
	m, err := manager.New(o.Config, manager.Options{Scheme: scheme, Cache: cached, Logger: logr.FromSlogHandler(o.Log.Handler()),
		LeaderElection: true, LeaderElectionID: lease, LeaderElectionNamespace: o.Namespace, LeaderElectionReleaseOnCancel: true,
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
func (o Options) lead(ctx context.Context, m manager.Manager) error {
	c, err := client.New(o.Config, client.Options{Scheme: m.GetScheme()})
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	w, err := kube.Open(ctx, kube.Options{Client: c, Cache: m.GetCache(), Labels: o.Labels, Log: o.Log, Events: m.GetEventRecorder("gleaner"), Every: o.Every})
	if err != nil {
		return err
	}
	defer w.Close()
	brain := control.NewBrain(harvest.Options{Policy: o.Policy, Reserve: o.Reserve, Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)), Steady: o.Steady})
	brain.Guards = nil // the agent of each node guards it; a second guard would kill others for the same need
	o.Log.Info("leading", "namespace", o.Namespace)
	if err := control.RunApart(ctx, w, brain, o.Recorder); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
