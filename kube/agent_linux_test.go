package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/kube"
	"gleaner/kube/agent"
)

// asAgent is how the agent of a node reaches the API: with no more rights than it will have.
func (l *lab) asAgent(node string) *rest.Config {
	config := rest.CopyConfig(l.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + system + ":gleaner-agent",
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
	return config
}

// agent runs the real agent on a played node: it has no control groups, and its primary uses
// that much memory. What it returns stops the agent.
func (l *lab) agent(t *testing.T, node, proc string) (stop func()) {
	t.Helper()
	mount := t.TempDir()
	if err := os.WriteFile(mount+"/cgroup.controllers", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	config := l.asAgent(node)
	o := agent.Options{Node: node, Namespace: system, Reserve: harvest.PaperReserve, Log: slog.New(slog.DiscardHandler), Mount: mount, Proc: proc,
		Report: 100 * time.Millisecond, Settle: 300 * time.Millisecond}
	var err1, err2 error
	o.Client, err1 = client.New(config, client.Options{Scheme: l.client.Scheme()})
	o.Cache, err2 = cache.New(config, agent.CacheOptions(l.client.Scheme(), node))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- o.Cache.Start(ctx) }()
	go func() { ended <- agent.Run(ctx, o) }()
	return func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	}
}

// primaryHolds makes a /proc of a machine of 8 GiB whose primary holds so much of it.
func primaryHolds(t *testing.T, proc string, memory cluster.Bytes) {
	t.Helper()
	for name, text := range map[string]string{"stat": "cpu  0 0 0 1000\n", "meminfo": fmt.Sprintf("MemTotal: 8388608 kB\nMemAvailable: %d kB\n", (8*cluster.GB-memory)/1024)} {
		if err := os.WriteFile(filepath.Join(proc, "next"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(proc, "next"), filepath.Join(proc, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// offered waits until a node offers that much memory.
func (l *lab) offered(t *testing.T, node string, want cluster.Bytes) {
	t.Helper()
	err := soon(t.Context(), func() error {
		var n corev1.Node
		if err := l.client.Get(t.Context(), client.ObjectKey{Name: node}, &n); err != nil {
			return err
		}
		if got := kube.OfferedBy(&n); got.Memory != want {
			return fmt.Errorf("%s offers %v", node, got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Agent and controller together: a job runs on what the agent offers, the agent kills one of
// its tasks when the primary needs the memory, the API says so, and the task runs again when
// there is room.
func TestAgentAndController(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	proc := t.TempDir()
	primaryHolds(t, proc, cluster.GB)
	stop := l.agent(t, "n1", proc)
	defer l.control(t)()
	l.offered(t, "n1", 8*cluster.GB-cluster.GB-2560*cluster.MB)
	h := job("guarded", 2, "sleep", "8")
	h.Spec.Stages[0].Memory = resource.MustParse("2Gi")
	if err := l.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	l.running(t, h, 2)
	primaryHolds(t, proc, 3*cluster.GB)
	l.running(t, h, 1)
	primaryHolds(t, proc, cluster.GB)
	l.running(t, h, 2)
	if s := l.ended(t, "guarded").Status; s.Finished != 2 || s.Kills != 1 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	stop()
	l.offered(t, "n1", 0)
	var lease coordinationv1.Lease
	if err := l.client.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "n1"}, &lease); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("its report is left: %v", err)
	}
}

// The agent of one node can change nothing of another, nor a pod that is not harvested.
func TestAgentChangesOnlyItsNode(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.node(t, "n2")
	c, err := client.New(l.asAgent("n1"), client.Options{Scheme: l.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	make := func(name, node, scheduler string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, SchedulerName: scheduler, Containers: []corev1.Container{{Name: "a", Image: "busybox", Command: []string{"sleep", "1000"}}}}}
		p.Name, p.Namespace = name, namespace
		if err := l.client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	own, primary, other := make("own", "n1", kube.Scheduler), make("primary", "n1", ""), make("other", "n2", kube.Scheduler)
	status := func(node string) error {
		n := &corev1.Node{}
		n.Name = node
		return c.Status().Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(`{"status":{"capacity":{"gleaner.dev/cpu":"1"}}}`)))
	}
	report := func(node cluster.ServerID) error {
		return kube.Report(t.Context(), c, kube.ReportOf(node, system, cluster.Resources{}, time.Now()))
	}
	for what, try := range map[string]func() error{
		"the status of another node": func() error { return status("n2") },
		"another node's report":      func() error { return report("n2") },
		"a pod of another node":      func() error { return c.Delete(t.Context(), other) },
		"a pod of the primary":       func() error { return c.Delete(t.Context(), primary) },
		"the controller's Lease":     func() error { return report("gleaner-controller") },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "an agent may change only its own node") {
			t.Errorf("%s: %v", what, err)
		}
	}
	namesake, err := client.New(l.asAgent("gleaner-controller"), client.Options{Scheme: l.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	leader := kube.ReportOf("gleaner-controller", system, cluster.Resources{}, time.Now())
	if err := kube.Report(t.Context(), namesake, leader); err == nil || !strings.Contains(err.Error(), "the Lease of the leader") {
		t.Errorf("a node that is called like the controller: %v", err)
	}
	for _, text := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"no","uid":"00000000-0000-0000-0000-000000000001"}]}}`} {
		n := &corev1.Node{}
		n.Name = "n1"
		if err := c.Status().Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(text))); err == nil || !strings.Contains(err.Error(), "only the status") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for what, try := range map[string]func() error{
		"its status": func() error { return status("n1") },
		"its report": func() error { return report("n1") },
		"its pod":    func() error { return c.Delete(t.Context(), own) },
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.Delete(t.Context(), kube.ReportOf("n1", system, cluster.Resources{}, time.Now())); err != nil {
		t.Error(err)
	}
}
