package kube_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/kube"
	"gleaner/kube/api/v1alpha1"
)

// A forgery is a pod that says it is a run of a job.
type forgery struct {
	job            int64
	stage, index   string
	seconds        string
	counted, alone bool // it has the finalizer; it is of a namespace of its own
}

func (l *lab) forge(t *testing.T, name string, h *v1alpha1.HarvestJob, f forgery) {
	t.Helper()
	yes, no := true, false
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", SchedulerName: kube.Scheduler, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{Name: "task", Image: "none", Command: []string{"sleep", f.seconds}}}}}
	p.Name, p.Namespace = name, namespace
	if f.alone {
		p.Namespace = "mallory"
	}
	if f.counted {
		p.Finalizers = []string{"gleaner.dev/counted"}
	}
	p.Labels = map[string]string{kube.JobLabel: fmt.Sprint(f.job), "gleaner.dev/stage": f.stage, "gleaner.dev/index": f.index, "gleaner.dev/attempt": "0"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "HarvestJob", Name: h.Name, UID: h.UID, Controller: &yes}}
	if err := l.client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.client.Get(context.Background(), client.ObjectKeyFromObject(p), p)
		p.Finalizers = nil
		_ = l.client.Update(context.Background(), p)
		_ = l.client.Delete(context.Background(), p, client.GracePeriodSeconds(0))
	})
}

// Whoever may make pods can give them the labels and the owner of a run. They are not taken for one, whether a controller sees
// them come or finds them there: no task counts as finished or killed by them, and no controller ends.
func TestForgedPods(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.agents(t, idle, "n1")
	if err := l.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mallory"}}); err != nil {
		t.Fatal(err)
	}
	stop := l.control(t)
	h := load("victim", 2, "6")
	if err := l.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	l.running(t, h, 2)
	stage := h.Spec.Stages[0].Name
	l.forge(t, "elsewhere", h, forgery{job: h.Status.Number, stage: stage, index: "0", seconds: "0.1", alone: true})
	l.forge(t, "here", h, forgery{job: h.Status.Number, stage: stage, index: "1", seconds: "0.1"})
	time.Sleep(time.Second)
	stop()
	l.forge(t, "later", h, forgery{job: h.Status.Number, stage: stage, index: "1", seconds: "0.1", alone: true, counted: true})
	l.forge(t, "beyond", h, forgery{job: h.Status.Number, stage: stage, index: "2000000", seconds: "0.1", counted: true})
	l.forge(t, "no-stage", h, forgery{job: h.Status.Number, stage: "none", index: "0", seconds: "0.1", counted: true})
	l.forge(t, "no-job", h, forgery{job: 99999, stage: stage, index: "0", seconds: "2"})
	defer l.control(t)()
	h = l.ended(t, "victim")
	if s := h.Status; s.State != v1alpha1.Finished || s.Finished != 2 || s.Kills != 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	if took := h.Status.Ended.Sub(h.CreationTimestamp.Time); took < 5*time.Second {
		t.Errorf("it ended after %v: its tasks take 6 s", took)
	}
}

// A job whose status somebody else has written over is left alone, and all others run.
func TestUnreadableStatus(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.agents(t, idle, "n1")
	h := load("spoilt", 1, "1")
	if err := l.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"status":{"number":7,"stages":[{"name":"` + h.Spec.Stages[0].Name + `","finished":"2000000"}]}}`)
	if err := l.client.Status().Patch(t.Context(), h, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
	defer l.control(t)()
	if err := l.client.Create(t.Context(), load("sound", 1, "0.1")); err != nil {
		t.Fatal(err)
	}
	if s := l.ended(t, "sound").Status; s.State != v1alpha1.Finished {
		t.Errorf("%+v", s)
	}
}
