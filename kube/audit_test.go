package kube_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"gleaner/kube"
	"gleaner/kube/api/v1alpha1"
)

// An audit watches the pods of tasks from outside: it knows nothing of what the controller
// thinks, only what the API shows of pods, in its order.
type audit struct {
	mu     sync.Mutex
	of     map[types.UID]run
	may    map[string]map[types.UID]bool // by task, the pods whose processes may run
	lost   map[string]bool               // nodes that are gone with all that ran there
	ended  map[string]map[types.UID]bool // by task, the pods that succeeded
	faults []string
}

// A run is a pod of a task.
type run struct{ task, attempt, node string }

func newAudit() *audit {
	return &audit{of: map[types.UID]run{}, may: map[string]map[types.UID]bool{}, lost: map[string]bool{}, ended: map[string]map[types.UID]bool{}}
}

// audited watches until the test ends.
func (l *lab) audited(t *testing.T) *audit {
	t.Helper()
	a := newAudit()
	c, err := cache.New(l.config, cache.Options{Scheme: l.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if _, err := kube.Follow(ctx, c, a.seen, a.gone); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *audit) seen(p *corev1.Pod) {
	job := p.Labels[kube.JobLabel]
	if job == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r, known := a.of[p.UID]
	if !known {
		r = run{fmt.Sprintf("job-%s/%s-%s", job, p.Labels["gleaner.dev/stage"], p.Labels["gleaner.dev/index"]), p.Labels["gleaner.dev/attempt"], p.Spec.NodeName}
		for uid, other := range a.of {
			if other == r && uid != p.UID {
				a.faults = append(a.faults, fmt.Sprintf("%s has two pods of attempt %s", r.task, r.attempt))
			}
		}
		a.of[p.UID] = r
	}
	if p.Status.Phase == corev1.PodSucceeded {
		if a.ended[r.task] == nil {
			a.ended[r.task] = map[types.UID]bool{}
		}
		a.ended[r.task][p.UID] = true
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || a.lost[r.node] {
		delete(a.may[r.task], p.UID)
		return
	}
	if a.may[r.task] == nil {
		a.may[r.task] = map[types.UID]bool{}
	}
	if a.may[r.task][p.UID] = true; len(a.may[r.task]) > 1 {
		a.faults = append(a.faults, fmt.Sprintf("%s runs %d times at once, the last as attempt %s on %s", r.task, len(a.may[r.task]), r.attempt, r.node))
	}
}

func (a *audit) gone(p *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.may[a.of[p.UID].task], p.UID)
}

// lose notes that a node is gone, before its object is.
func (a *audit) lose(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost[node] = true
	for uid, r := range a.of {
		if r.node == node {
			delete(a.may[r.task], uid)
		}
	}
}

// on is how many pods were ever on a node.
func (a *audit) on(node string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.of {
		if r.node == node {
			n++
		}
	}
	return n
}

// check waits for the end of a job: no task was lost, none ran twice at once, and none again
// after it had succeeded.
func (a *audit) check(t *testing.T, l *lab, name string, tasks int) *v1alpha1.HarvestJob {
	t.Helper()
	h := l.ended(t, name)
	if s := h.Status; s.State != v1alpha1.Finished || int(s.Finished) != tasks || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	l.pods(t, h)
	err := soon(t.Context(), func() error { // its watch may have been cut, too
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.ended) != tasks {
			return fmt.Errorf("%d of %d tasks were seen to succeed", len(a.ended), tasks)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, fault := range a.faults {
		t.Error(fault)
	}
	for task, pods := range a.ended {
		if len(pods) != 1 {
			t.Errorf("%s succeeded %d times", task, len(pods))
		}
	}
	t.Logf("%d pods ran %d tasks", len(a.of), tasks)
	return h
}

// The audit notices what it is there for.
func TestAuditNotices(t *testing.T) {
	a := newAudit()
	pod := func(uid types.UID, attempt, node string) *corev1.Pod {
		p := &corev1.Pod{}
		p.UID, p.Spec.NodeName = uid, node
		p.Labels = map[string]string{kube.JobLabel: "1", "gleaner.dev/stage": "map", "gleaner.dev/index": "0", "gleaner.dev/attempt": attempt}
		return p
	}
	first := pod("a", "0", "n1")
	a.seen(first)
	a.lose("n1") // its node is gone: it may run again
	a.seen(pod("b", "1", "n2"))
	if len(a.faults) != 0 {
		t.Errorf("%q", a.faults)
	}
	a.seen(pod("c", "2", "n3"))
	if len(a.faults) != 1 {
		t.Errorf("a task that runs twice at once: %q", a.faults)
	}
	a.seen(pod("d", "2", "n3"))
	if len(a.faults) != 3 {
		t.Errorf("two pods of one attempt: %q", a.faults)
	}
}
