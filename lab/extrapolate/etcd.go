package extrapolate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gleaner/lab"
	"gleaner/lab/engine"
	"gleaner/trace"
	"gleaner/trace/record"
	"gleaner/trace/replay"
	"gleaner/trace/replay/grpccall"
	"gleaner/trace/replay/judge"
)

// etcd is a job that runs on etcd (lab/etcd) and is recorded.
func etcd(o lab.Options) Target {
	t := Target{
		Name: "etcd", Unit: "nodes", Learn: []int{3, 4, 6, 8, 12, 26}, Check: 50, AtOnce: 1,
		Trace: recordEtcd, Start: startEtcd,
		Sweep: []int{250, 500, 1000, 2000, 4000, 8000}, Time: 20 * time.Second,
		Denied: func(c *trace.Call) bool {
			done, _ := trace.Get(c.Response, "succeeded")
			return c.Method == "etcdserverpb.KV/Txn" && done != "true"
		},
		Lost: func(c *trace.Call) bool {
			_, alive := trace.Get(c.Response, "TTL")
			return c.Method == "etcdserverpb.Lease/LeaseKeepAlive" && c.End > 0 && !alive
		},
		Ready: func(c *trace.Call) bool {
			key, _ := trace.Get(c.Request, "key")
			return c.Method == "etcdserverpb.KV/Put" && strings.HasPrefix(key, "/nodes/")
		},
		StartUp: "a node's first call until it is registered, with the waits that were learned from small scales",
		Paper:   otherFigures(),
	}
	// One machine plays and runs the target, and may do other things too.
	t.Limits = judge.Limits{Latency: time.Second, Lag: 250 * time.Millisecond}
	switch {
	case o.Quick:
		t.AtOnce, t.Sweep, t.Time = 7, []int{100, 400, 1600, 6400}, 6*time.Second
	case o.Full:
		t.Time = 0
	}
	return t
}

// buildEtcd builds etcd if needed, and writes its descriptors.
func buildEtcd(ctx context.Context, dir string) (e engine.Etcd, descriptors string, err error) {
	if e, err = engine.BuildEtcd(ctx, func() {}); err != nil {
		return e, "", err
	}
	set, err := e.Descriptors(ctx)
	if err != nil {
		return e, "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return e, "", fmt.Errorf("extrapolate: %w", err)
	}
	descriptors = filepath.Join(dir, "etcd.protoset")
	return e, descriptors, os.WriteFile(descriptors, set, 0o600)
}

// building keeps two recordings from building etcd at once.
var building sync.Mutex

// recordEtcd runs the job with scale nodes on a fresh etcd and records it.
func recordEtcd(ctx context.Context, dir string, scale int) ([]string, error) {
	home := filepath.Join(dir, fmt.Sprintf("record-%d", scale))
	defer os.RemoveAll(home)
	building.Lock()
	e, descriptors, err := buildEtcd(ctx, home)
	building.Unlock()
	if err != nil {
		return nil, err
	}
	at, err := engine.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := e.Start(ctx, at, home)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	set, err := os.ReadFile(descriptors)
	if err != nil {
		return nil, fmt.Errorf("extrapolate: %w", err)
	}
	known, err := record.ReadDescriptors(set)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, fmt.Sprintf("n%03d.jsonl", scale))
	return []string{file}, overhear(ctx, file, at, known, scale, func(ctx context.Context, through string) error { return e.Work(ctx, through, scale) })
}

// overhear records the calls to a server of the clients that body starts.
func overhear(ctx context.Context, file, server string, known *record.Descriptors, scale int, body func(ctx context.Context, through string) error) error {
	to, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("extrapolate: %w", err)
	}
	defer to.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("extrapolate: %w", err)
	}
	w := trace.NewWriter(to)
	var mu sync.Mutex
	var bad error
	listener := &record.Listener{Decode: known.Decode, Sender: "node-name", Scale: scale, Emit: func(c *trace.Call) {
		mu.Lock()
		defer mu.Unlock()
		c.Target = "etcd" // its address differs each time
		bad = errors.Join(bad, w.Write(c))
	}}
	proxy := &record.Proxy{Hear: listener.Hear, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server)
	}}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- proxy.Serve(serving, l) }()
	err = body(ctx, l.Addr().String())
	stop()
	err = errors.Join(err, <-done, bad, w.Flush())
	if err == nil && proxy.Lost.Load() > 0 {
		err = fmt.Errorf("extrapolate: the recording of %d connections at scale %d fell behind", proxy.Lost.Load(), scale)
	}
	return err
}

// startEtcd starts a fresh etcd to play to.
func startEtcd(ctx context.Context, dir string) (*System, error) {
	e, descriptors, err := buildEtcd(ctx, dir)
	if err != nil {
		return nil, err
	}
	at, err := engine.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := e.Start(ctx, at, dir)
	if err != nil {
		return nil, err
	}
	to := &url.URL{Scheme: "grpc", Host: at, RawQuery: url.Values{"descriptors": {descriptors}, "sender": {"node-name"}}.Encode()}
	executor, err := grpccall.Open(ctx, to)
	if err != nil {
		p.Stop()
		return nil, err
	}
	return &System{Targets: map[string]replay.Executor{"etcd": executor}, PID: p.PID(), Stop: p.Stop,
		Says: func(ctx context.Context) (string, error) {
			is, err := engine.Metrics(ctx, "http://"+at+"/metrics")
			return fmt.Sprintf("%.0f proposals applied, %.0f failed, %.0f leases expired, fsync %.1f ms, GC %.0f ms", is["etcd_server_proposals_applied_total"], is["etcd_server_proposals_failed_total"],
				is["etcd_debugging_server_lease_expired_total"], 1e3*is["etcd_disk_wal_fsync_duration_seconds_sum"]/max(is["etcd_disk_wal_fsync_duration_seconds_count"], 1), 1e3*is["go_gc_duration_seconds_sum"]), err
		}}, nil
}
