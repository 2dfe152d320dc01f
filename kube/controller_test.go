package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/kube"
	"gleaner/kube/api/v1alpha1"
	"gleaner/kube/controller"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// control starts a controller, with its options changed; what it returns stops it.
func (l *lab) control(t *testing.T, change ...func(*controller.Options)) (stop func()) {
	t.Helper()
	policy, err := harvest.PolicyNamed("primary")
	if err != nil {
		t.Fatal(err)
	}
	o := controller.Options{Config: l.asController(), Namespace: system, Policy: policy, Reserve: harvest.PaperReserve,
		Labels: kube.DefaultLabels, Log: slog.New(slog.DiscardHandler), Every: 50 * time.Millisecond, Steady: time.Millisecond,
		Store: func(context.Context) (kv.Store, error) { return mem.New(), nil }}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		for { // one that has lost its Lease or the API ends, and its kubelet starts it again
			err := controller.Run(ctx, o)
			if ctx.Err() != nil {
				ended <- err
				return
			}
			o.Log.Info("the controller has ended", "because", err)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// asController is how the controller reaches the API: with no more rights than it will have.
func (l *lab) asController() *rest.Config {
	config := rest.CopyConfig(l.config)
	config.Impersonate.UserName = "system:serviceaccount:" + system + ":gleaner-controller"
	return config
}

// idle is the use of a primary that does nothing.
func idle() cluster.Resources { return cluster.Resources{} }

// running waits until so many tasks of a job run, and reads it.
func (l *lab) running(t *testing.T, h *v1alpha1.HarvestJob, want int32) {
	t.Helper()
	err := soon(t.Context(), func() error {
		err := l.client.Get(t.Context(), client.ObjectKeyFromObject(h), h)
		if err == nil && h.Status.Running != want {
			err = fmt.Errorf("%d tasks run, not %d: %+v", h.Status.Running, want, h.Status)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ended waits until a job has ended, and returns it.
func (l *lab) ended(t *testing.T, name string) *v1alpha1.HarvestJob {
	t.Helper()
	var h v1alpha1.HarvestJob
	err := soon(t.Context(), func() error {
		if err := l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &h); err != nil {
			return err
		}
		if h.Status.Ended == nil {
			return fmt.Errorf("it has not ended: %+v", h.Status)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &h
}

// pods are those of a job, once they are all released.
func (l *lab) pods(t *testing.T, h *v1alpha1.HarvestJob) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	err := soon(t.Context(), func() error {
		if err := l.client.List(t.Context(), &all, client.InNamespace(namespace), client.MatchingLabels{kube.JobLabel: fmt.Sprint(h.Status.Number)}); err != nil {
			return err
		}
		for _, p := range all.Items {
			if len(p.Finalizers) > 0 {
				return fmt.Errorf("%s is not released: %s", p.Name, p.Status.Phase)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// A job of two stages runs to its end: the second stage starts when all of the first has
// finished, and the API says all of it.
func TestJobRunsToItsEnd(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.node(t, "n2")
	l.agents(t, idle, "n1", "n2")
	defer l.control(t)()
	h := job("map", 6, "sleep", "1")
	h.Name = "count"
	h.Spec.Stages = append(h.Spec.Stages, v1alpha1.Stage{Name: "reduce", CPU: resource.MustParse("1"), Memory: resource.MustParse("8Mi"), Image: "busybox", Command: []string{"true"}, After: []string{"map"}})
	if err := l.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	h = l.ended(t, "count")
	if s := h.Status; s.State != v1alpha1.Finished || s.Tasks != 7 || s.Finished != 7 || s.Running != 0 || s.Kills != 0 || s.Stages[0].Finished != "0-5" {
		t.Errorf("%+v", s)
	}
	pods := l.pods(t, h)
	if len(pods) != 7 {
		t.Fatalf("%d pods", len(pods))
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.Contains(p.Name, "reduce") })
	for _, p := range pods {
		if p.Name != pods[i].Name && p.Status.ContainerStatuses[0].State.Terminated.FinishedAt.After(pods[i].CreationTimestamp.Time) {
			t.Errorf("%s was created before %s ended", pods[i].Name, p.Name)
		}
	}
}

// Nothing is started on a node before it is known what its primary uses there.
func TestBusyNodesGetNothing(t *testing.T) {
	l := real(t)
	l.empty(t)
	var use atomic.Int64
	use.Store(4000)
	l.node(t, "n1")
	l.agents(t, func() cluster.Resources { return cluster.Resources{CPU: cluster.MilliCPU(use.Load())} }, "n1")
	defer l.control(t)()
	if err := l.client.Create(t.Context(), job("patient", 4, "true")); err != nil {
		t.Fatal(err)
	}
	var h v1alpha1.HarvestJob
	err := soon(t.Context(), func() error {
		err := l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "patient"}, &h)
		if err == nil && h.Status.Number == 0 {
			err = errors.New("it has no number yet")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if pods := l.pods(t, &h); len(pods) > 0 {
		t.Errorf("%d pods were started", len(pods))
	}
	use.Store(0)
	if s := l.ended(t, "patient").Status; s.State != v1alpha1.Finished || s.Kills > 0 {
		t.Errorf("%+v", s)
	}
}

// A task that fails by itself is run again as often as its stage says; then its job fails,
// and the API says why.
func TestJobFails(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.agents(t, idle, "n1")
	defer l.control(t)()
	h := job("broken", 1, "false")
	once := int32(1)
	h.Spec.Stages[0].Retries = &once
	if err := l.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	h = l.ended(t, "broken")
	if s := h.Status; s.State != v1alpha1.Failed || s.Failures != 2 || !strings.Contains(s.Reason, "failed 2 times: exit code 1") {
		t.Errorf("%+v", s)
	}
	err := soon(t.Context(), func() error {
		var events eventsv1.EventList
		if err := l.client.List(t.Context(), &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		said := map[string]string{}
		for _, e := range events.Items {
			if e.Regarding.UID == h.UID {
				said[e.Reason] = e.Note
			}
		}
		if !strings.Contains(said["TaskFailed"], "on n1: exit code 1") || !strings.Contains(said["Failed"], "failed 2 times") {
			return fmt.Errorf("said: %v", said)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Controllers come and go while a job runs: each of its tasks runs once.
func TestRestartsLoseAndRepeatNothing(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.node(t, "n2")
	l.agents(t, idle, "n1", "n2")
	stop := l.control(t)
	defer func() { stop() }()
	if err := l.client.Create(t.Context(), waves()); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		time.Sleep(time.Duration(300+200*i) * time.Millisecond) // at different moments of the tasks
		stop()
		stop = l.control(t)
	}
	l.ranOnce(t)
}

// waves is a job of twelve tasks, of which few find room at once.
func waves() *v1alpha1.HarvestJob {
	h := job("waves", 12, "sleep", "1")
	h.Spec.Stages[0].CPU = resource.MustParse("1")
	return h
}

// ranOnce waits for the end of the job of waves: all its tasks have run, each once.
func (l *lab) ranOnce(t *testing.T) {
	t.Helper()
	h := l.ended(t, "waves")
	if s := h.Status; s.State != v1alpha1.Finished || s.Finished != 12 || s.Kills != 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	ran := map[string]int{}
	for _, p := range l.pods(t, h) {
		ran[p.Labels["gleaner.dev/index"]]++
	}
	for index, times := range ran {
		if times != 1 {
			t.Errorf("task %s ran %d times", index, times)
		}
	}
	if len(ran) != 12 {
		t.Errorf("%d tasks ran", len(ran))
	}
}

// Deleting a job ends its pods and leaves nothing; their room is free for the next job.
func TestDeletedJobLeavesNothing(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.agents(t, idle, "n1")
	defer l.control(t)()
	h := job("endless", 2, "sleep", "1000")
	h.Spec.Stages[0].CPU = resource.MustParse("1") // all that can be harvested, with a third of the node in reserve
	if err := l.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := soon(t.Context(), func() error { return l.count(t, 2) }); err != nil {
		t.Fatal(err)
	}
	if err := l.client.Delete(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := soon(t.Context(), func() error { return l.count(t, 0) }); err != nil {
		t.Fatal(err)
	}
	next := job("next", 2, "true")
	next.Spec.Stages[0].CPU = resource.MustParse("1")
	if err := l.client.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if s := l.ended(t, "next").Status; s.State != v1alpha1.Finished {
		t.Errorf("%+v", s)
	}
}

// What a job file may not say, a HarvestJob may not either: the API server refuses it and
// names the field.
func TestWrongJobsAreRefused(t *testing.T) {
	l := real(t)
	for want, spoil := range map[string]func(*v1alpha1.HarvestJob){
		"spec.stages[0].name":                      func(h *v1alpha1.HarvestJob) { h.Spec.Stages[0].Name = "Map" },
		"spec.stages[0].tasks":                     func(h *v1alpha1.HarvestJob) { h.Spec.Stages[0].Tasks = 1_000_001 },
		"spec.stages[0].cpu":                       func(h *v1alpha1.HarvestJob) { h.Spec.Stages[0].CPU = resource.MustParse("-1") },
		"spec.stages[0].memory":                    func(h *v1alpha1.HarvestJob) { h.Spec.Stages[0].Memory = resource.MustParse("1Mi") },
		"spec.stages[0].image":                     func(h *v1alpha1.HarvestJob) { h.Spec.Stages[0].Image = "" },
		"the command is empty":                     func(h *v1alpha1.HarvestJob) { h.Spec.Stages[0].Command = []string{""} },
		"a stage that does not exist or is listed": func(h *v1alpha1.HarvestJob) { h.Spec.Stages[0].After = []string{h.Spec.Stages[0].Name} },
		"spec.stages[1]: Duplicate":                func(h *v1alpha1.HarvestJob) { h.Spec.Stages = append(h.Spec.Stages, h.Spec.Stages[0]) },
		"spec.stages: Invalid value: 0":            func(h *v1alpha1.HarvestJob) { h.Spec.Stages = []v1alpha1.Stage{} },
		"at most 1000000 tasks": func(h *v1alpha1.HarvestJob) {
			more := h.Spec.Stages[0]
			more.Name, more.Tasks = "more", 1_000_000
			h.Spec.Stages = append(h.Spec.Stages, more)
		},
		"spec.stages[0].env[0].name": func(h *v1alpha1.HarvestJob) { h.Spec.Stages[0].Env = []v1alpha1.EnvVar{{Name: "A=B"}} },
	} {
		h := job("wrong", 1, "true")
		spoil(h)
		if err := l.client.Create(t.Context(), h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	l.empty(t)
	h := job("fixed", 1, "true")
	if err := l.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	h.Spec.Stages[0].Tasks = 2
	if err := l.client.Update(t.Context(), h); err == nil || !strings.Contains(err.Error(), "a job does not change") {
		t.Error(err)
	}
}
