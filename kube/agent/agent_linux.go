package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/kube"
)

// Options of an Agent. Client, Cache, Node, Namespace and Log must be given.
type Options struct {
	Client    client.Client
	Cache     cache.Cache // of CacheOptions; it runs
	Node      string
	Namespace string // of the reports
	Reserve   harvest.Reserve
	Log       *slog.Logger

	Mount  string        // of the control groups; empty: /sys/fs/cgroup
	Root   string        // kubelet's cgroupRoot
	Proc   string        // empty: /proc
	Every  time.Duration // the node is read; 0: 75 ms
	Report time.Duration // what the primary uses is reported; 0: 10 s
	Settle time.Duration // there must be more before more is offered; 0: a minute
}

// An Agent guards a node.
type Agent struct {
	Options
	server cluster.ServerID
	tree   tree
	news   chan struct{} // there is something to tell the API
	behind sync.WaitGroup
	ctx    context.Context // of what goes on behind

	mu      sync.Mutex
	size    cluster.Resources
	guard   *harvest.Guard
	pods    map[cluster.TaskID]*pod
	retired time.Duration // CPU time of groups that are gone
	meter   meter
	primary cluster.Resources
	offer   offer
	given   cluster.Resources // to be offered
	stands  cluster.Resources // in the node's status
}

// CacheOptions leave in the cache only the node and its harvested pods.
func CacheOptions(s *runtime.Scheme, node string) cache.Options {
	return cache.Options{Scheme: s, DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{
		&corev1.Node{}: {Field: fields.OneTermEqualSelector("metadata.name", node)},
		&corev1.Pod{}:  {Field: fields.AndSelectors(fields.OneTermEqualSelector("spec.nodeName", node), fields.OneTermEqualSelector("spec.schedulerName", kube.Scheduler))},
	}}
}

// Run guards the node until ctx is done. Then the node offers nothing any more, and what runs
// there goes on.
func Run(ctx context.Context, o Options) error {
	a, err := open(ctx, o)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	a.behind.Go(a.report)
	ticks := time.NewTicker(a.Every)
	defer ticks.Stop()
	for failing := false; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case now := <-ticks.C:
			err := a.look(now)
			if err != nil && !failing {
				a.Log.Error("the node cannot be read; its pods are not guarded until it can", "because", err)
			}
			failing = err != nil
		}
	}
	a.behind.Wait()
	return a.withdraw()
}

// open takes in the node as it is.
func open(ctx context.Context, o Options) (*Agent, error) {
	var node corev1.Node
	if err := o.Client.Get(ctx, client.ObjectKey{Name: o.Node}, &node); err != nil {
		return nil, err
	}
	a := newAgent(ctx, o, &node)
	a.mu.Lock() // what is seen from now on waits until the past is known
	defer a.mu.Unlock()
	if _, err := kube.Follow(ctx, o.Cache, a.nodeSeen, func(*corev1.Node) {}); err != nil {
		return nil, err
	}
	if _, err := kube.Follow(ctx, o.Cache, a.seen, a.gone); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := o.Cache.List(ctx, &pods); err != nil {
		return nil, err
	}
	slices.SortFunc(pods.Items, func(x, y corev1.Pod) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	for i := range pods.Items {
		a.take(&pods.Items[i])
	}
	return a, nil
}

// newAgent is the agent of a node on which no harvested pod is known yet.
func newAgent(ctx context.Context, o Options, node *corev1.Node) *Agent {
	o.Mount, o.Proc = cmp.Or(o.Mount, "/sys/fs/cgroup"), cmp.Or(o.Proc, "/proc")
	o.Every, o.Report, o.Settle = cmp.Or(o.Every, 75*time.Millisecond), cmp.Or(o.Report, 10*time.Second), cmp.Or(o.Settle, time.Minute)
	a := &Agent{Options: o, ctx: ctx, server: cluster.ServerID(node.Name), tree: tree{o.Mount, o.Root}, news: make(chan struct{}, 1),
		pods: map[cluster.TaskID]*pod{}, meter: meter{proc: o.Proc}, offer: offer{settle: o.Settle}}
	a.guard = harvest.NewGuard(cluster.Server{ID: a.server}, o.Reserve)
	a.resize(node)
	a.given = a.stands
	a.offer.begin(a.stands)
	return a
}

func (a *Agent) nodeSeen(n *corev1.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resize(n)
}

// resize takes in what the API says about the node.
func (a *Agent) resize(n *corev1.Node) {
	a.size, a.stands = kube.SizeOf(n), kube.OfferedBy(n)
	a.guard.Resize(cluster.Server{ID: a.server, CPU: a.size.CPU, Memory: a.size.Memory})
	a.meter.most = a.size.CPU
	if a.stands != a.given {
		poke(a.news)
	}
}

// look reads the node and lets the guard decide.
func (a *Agent) look(at time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var held cluster.Bytes
	for _, p := range a.pods {
		held += a.measure(p)
	}
	harvested := a.retired
	for id, p := range a.pods {
		harvested += p.cpu
		switch {
		case p.left && !p.found && p.forget.IsZero():
			p.forget = at.Add(linger)
		case p.left && !p.found && at.After(p.forget):
			a.retired += p.cpu
			delete(a.pods, id)
		case p.found && (p.left || p.reason != ""):
			a.end(p, func() {}) // what kubelet has started since, too
		}
	}
	primary, err := a.meter.look(at, harvested, held)
	if err != nil {
		a.meter.ready = false // a node that cannot be read reports nothing, and so is given nothing
		return err
	}
	if a.primary = primary; !a.meter.ready {
		return nil
	}
	a.step(cluster.Event{At: at, Kind: cluster.UseReported, Use: []cluster.Use{{On: a.server, Primary: a.primary}}})
	given := a.offer.note(at, harvestable(a.size, a.Reserve.Counted(a.primary), a.Reserve.Of(a.size)))
	if given != a.given {
		a.given = given
		poke(a.news)
	}
	return nil
}

// poke wakes whoever waits on c, if nobody has yet.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
