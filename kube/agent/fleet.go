package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/kube"
)

// A Fleet plays the agents of many nodes that are only objects. It guards, offers and reports
// as agents do; what primaries use is made up, and a pod is killed by deleting it, because it
// has no processes.
type Fleet struct {
	Client    client.Client
	Cache     cache.Cache // with all harvested pods
	Namespace string      // of the reports
	Reserve   harvest.Reserve
	Servers   []cluster.Server
	Now       func() time.Time // the time that is played
	Every     time.Duration    // between two reports, of real time
	Log       *slog.Logger
	// Primary is what the primary of a server uses at a time.
	Primary func(server int, at time.Time) cluster.Resources
	// Finished, if not nil, is called with a pod that has finished and how long it was held.
	Finished func(*corev1.Pod, time.Duration)
	// Offer makes what a node offers; nil: as agents do.
	Offer func(cluster.Server) Offering

	mu     sync.Mutex
	nodes  []*hollow
	byID   map[cluster.ServerID]*hollow
	counts Counts
}

// An Offering is what a node offers, given what its primary uses at a time.
type Offering interface {
	Note(at time.Time, primary cluster.Resources) cluster.Resources
}

// Counts are what a Fleet has seen and done.
type Counts struct {
	Started int     // pods
	Killed  int     // pods, for a primary
	Held    float64 // by pods, in core-hours
	Changes int     // of what nodes offer
	Moved   float64 // by how many cores, all changes together
	Nothing int     // times that a node began to offer no CPU
}

// A hollow agent is one of a Fleet.
type hollow struct {
	server  cluster.Server
	guard   *harvest.Guard
	offer   Offering
	pods    map[types.UID]*held
	primary cluster.Resources
	given   cluster.Resources
	stands  bool // the offer is in the node's status
}

// A held pod is one that runs.
type held struct {
	object *corev1.Pod
	since  time.Time
	cpu    cluster.MilliCPU
}

// own is the offering of agents.
type own struct {
	offer
	size    cluster.Resources
	reserve harvest.Reserve
}

func (o *own) Note(at time.Time, primary cluster.Resources) cluster.Resources {
	return o.note(at, harvestable(o.size, o.reserve.Counted(primary), o.reserve.Of(o.size)))
}

// Run plays until ctx is done.
func (f *Fleet) Run(ctx context.Context) error {
	f.mu.Lock()
	f.byID = map[cluster.ServerID]*hollow{}
	for _, s := range f.Servers {
		h := &hollow{server: s, guard: harvest.NewGuard(s, f.Reserve), pods: map[types.UID]*held{}}
		if f.Offer != nil {
			h.offer = f.Offer(s)
		} else {
			h.offer = &own{offer{settle: time.Minute}, s.Size(), f.Reserve}
		}
		f.nodes, f.byID[s.ID] = append(f.nodes, h), h
	}
	f.mu.Unlock()
	end, err := kube.Follow(ctx, f.Cache, f.seen, f.gone)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	defer end()
	for ticks := time.NewTicker(f.Every); ; {
		f.round(ctx)
		select {
		case <-ctx.Done():
			ticks.Stop()
			return nil
		case <-ticks.C:
		}
	}
}

// Counts are those until now.
func (f *Fleet) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, now := f.counts, f.Now()
	for _, h := range f.nodes {
		for _, p := range h.pods {
			c.Held += p.hours(now)
		}
	}
	return c
}

func (p *held) hours(now time.Time) float64 {
	return now.Sub(p.since).Hours() * float64(p.cpu) / float64(cluster.Core)
}

// calls is how many calls to the API server a fleet has under way.
const calls = 16

// round has each agent look at its node once.
func (f *Fleet) round(ctx context.Context) {
	at := f.Now()
	slots := make(chan struct{}, calls)
	var all sync.WaitGroup
	for i, h := range f.nodes {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := f.look(ctx, i, h, at); err != nil && ctx.Err() == nil {
				f.Log.Warn("a node is not reported on", "node", h.server.ID, "because", err)
			}
		})
	}
	all.Wait()
}

// look has the guard of a node decide, kills, reports and offers.
func (f *Fleet) look(ctx context.Context, i int, h *hollow, at time.Time) error {
	f.mu.Lock()
	h.primary = f.Primary(i, at)
	doomed := f.step(h, cluster.Event{At: at, Kind: cluster.UseReported, Use: []cluster.Use{{On: h.server.ID, Primary: h.primary}}})
	given := h.offer.Note(at, h.primary)
	changed := given != h.given || !h.stands
	if given != h.given && h.stands {
		f.counts.Changes++
		f.counts.Moved += math.Abs(float64(given.CPU-h.given.CPU)) / float64(cluster.Core)
		if given.CPU == 0 && h.given.CPU > 0 {
			f.counts.Nothing++
		}
	}
	h.given, h.stands = given, true
	primary := h.primary
	f.mu.Unlock()
	if err := kube.Report(ctx, f.Client, kube.ReportOf(h.server.ID, f.Namespace, primary, time.Now())); err != nil {
		return err
	}
	for _, p := range doomed {
		if err := f.kill(ctx, p.object, p.reason); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": kube.Offer(given), "allocatable": kube.Offer(given)}})
	if err != nil {
		return err
	}
	return f.Client.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(h.server.ID)}}, client.RawPatch(types.MergePatchType, patch))
}

// A doom is a pod to kill.
type doom struct {
	object *corev1.Pod
	reason string
}

// step asks a guard what an event means; f.mu is held.
func (f *Fleet) step(h *hollow, ev cluster.Event) (all []doom) {
	for _, a := range h.guard.Step(ev) {
		if p := h.pods[types.UID(a.Task.Stage)]; p != nil && a.Kind == cluster.KillTask {
			all = append(all, doom{p.object, a.Reason})
			f.counts.Killed++
		}
	}
	return all
}

// kill says why a pod is killed, and deletes it.
func (f *Fleet) kill(ctx context.Context, o *corev1.Pod, reason string) error {
	patch, err := killedPatch(o, reason)
	if err != nil {
		return err
	}
	err = f.Client.Status().Patch(ctx, o.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	if err == nil {
		err = f.Client.Delete(ctx, o.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &o.UID})
	}
	return client.IgnoreNotFound(err)
}

func (f *Fleet) seen(o *corev1.Pod) {
	f.mu.Lock()
	h := f.byID[cluster.ServerID(o.Spec.NodeName)]
	if h == nil || h.pods[o.UID] == nil && leaving(o) {
		f.mu.Unlock()
		return
	}
	if leaving(o) {
		f.leave(h, o)
		f.mu.Unlock()
		return
	}
	if p := h.pods[o.UID]; p != nil {
		p.object = o
		f.mu.Unlock()
		return
	}
	request := kube.RequestOf(o)
	h.pods[o.UID] = &held{o, f.Now(), request.CPU}
	f.counts.Started++
	doomed := f.step(h, cluster.Event{Kind: cluster.TaskStarted, Task: taskOf(o), On: h.server.ID, Request: request})
	f.mu.Unlock()
	for _, p := range doomed {
		if err := f.kill(context.Background(), p.object, p.reason); err != nil {
			f.Log.Warn("a pod is not killed", "pod", p.object.Name, "because", err)
		}
	}
}

func (f *Fleet) gone(o *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.byID[cluster.ServerID(o.Spec.NodeName)]; h != nil && h.pods[o.UID] != nil {
		f.leave(h, o)
	}
}

// leave forgets a pod; f.mu is held.
func (f *Fleet) leave(h *hollow, o *corev1.Pod) {
	p, now := h.pods[o.UID], f.Now()
	f.counts.Held += p.hours(now)
	if f.Finished != nil && o.Status.Phase == corev1.PodSucceeded {
		f.Finished(o, now.Sub(p.since))
	}
	delete(h.pods, o.UID)
	f.step(h, cluster.Event{Kind: cluster.TaskKilled, Task: taskOf(o), On: h.server.ID})
}
