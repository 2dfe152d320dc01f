package extrapolate

import (
	"context"
	_ "embed" // for the corrections
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"gleaner/lab"
	"gleaner/lab/engine"
	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/httpcall"
	"gleaner/trace/replay/judge"
)

// KubernetesJob is what recordings of a Deployment and a Job on Kubernetes do not show.
//
//go:embed kubernetes.yaml
var KubernetesJob []byte

// apiServer is a Kubernetes API server, to which all others are played: nodes, scheduler,
// controllers and the operator's kubectl.
func apiServer(o lab.Options) Target {
	t := Target{
		Name: "apiserver", Unit: "nodes", Learn: []int{3, 4, 6, 8, 12}, Check: 26, Override: KubernetesJob,
		Trace: allRecordedAt(o.Traces), Start: startAPIServer,
		// The operator's commands and the controllers' limits would take an hour at 5,000 nodes.
		Sweep: []int{100, 1000, 5000}, Faster: 20, Pace: 10 * time.Millisecond,
		Patience: time.Hour, // a node waits for its pods to be deleted from the start
		Ready: func(c *trace.Call) bool {
			return c.Method == "create leases" && strings.HasPrefix(c.Sender, "system:node:") && c.End > 0
		},
		StartUp: "a node's first call until its lease is created, which waits for the operator to create the node",
		Limits:  judge.Limits{Latency: time.Second, Lag: 250 * time.Millisecond}, // one machine plays and runs the target
		Paper:   otherFigures(),
	}
	if o.Quick {
		t.Sweep = []int{100}
	}
	return t
}

// startAPIServer starts a fresh API server to play to.
func startAPIServer(ctx context.Context, dir string) (*System, error) {
	k, err := engine.BuildKubernetes(ctx, func() {})
	if err != nil {
		return nil, err
	}
	c, err := k.StartBare(ctx, dir)
	if err != nil {
		return nil, err
	}
	to := &url.URL{Scheme: "https", Host: c.Address, RawQuery: url.Values{"kubeconfig": {c.Kubeconfig}, "as": {"sender"}, "groups": {"system:masters"}}.Encode()}
	executor, err := httpcall.Open(ctx, to)
	if err != nil {
		c.Stop()
		return nil, err
	}
	peak := &peak{}
	watching, stop := context.WithCancel(ctx)
	go peak.watch(watching, c)
	return &System{Targets: map[string]replay.Executor{"apiserver": executor}, PID: c.API.PID(), Log: c.AuditLog(),
		Stop: func() {
			stop()
			c.Stop()
		},
		Says: func(ctx context.Context) (string, error) {
			is, err := c.Samples(ctx)
			if err != nil {
				return "", err
			}
			watched := executor.(interface{ Watched() httpcall.Watched }).Watched()
			return fmt.Sprintf("%.0f requests, at most %.0f at once; a request takes %.1f ms, and etcd %.1f ms of it; %d watches opened, %d of them again, %d events; %.0f MB, GC %.0f ms",
				is.Sum("apiserver_request_total"), peak.most(), is.Mean("apiserver_request_duration_seconds", `verb="WATCH"`, `verb="CONNECT"`), is.Mean("etcd_request_duration_seconds"),
				watched.Opened, watched.Reopened, watched.Events, is.Sum("process_resident_memory_bytes")/1e6, 1e3*is.Sum("go_gc_duration_seconds_sum")), nil
		}}, nil
}

// A peak is the most requests that an API server had at once.
type peak struct {
	mu   sync.Mutex
	seen float64
}

// watch asks every few seconds: an answer is a megabyte, and takes the server's time.
func (p *peak) watch(ctx context.Context, c *engine.ControlPlane) {
	every := time.NewTicker(5 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if is, err := c.Samples(ctx); err == nil { // one that does not answer has given in, which the run shows
			p.mu.Lock()
			p.seen = max(p.seen, is.Sum("apiserver_current_inflight_requests"))
			p.mu.Unlock()
		}
	}
}

func (p *peak) most() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}
