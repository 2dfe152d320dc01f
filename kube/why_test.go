package kube_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/kube"
	"gleaner/kube/api/v1alpha1"
)

// says waits until an event of that reason says something about an object.
func (l *lab) says(t *testing.T, about types.UID, reason, text string) {
	t.Helper()
	err := soon(t.Context(), func() error {
		var events eventsv1.EventList
		if err := l.client.List(t.Context(), &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Regarding.UID == about && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s says %q", reason, text)
	})
	if err != nil {
		t.Error(err)
	}
}

// A job that waits says why, in its status and by an event; a plain pod by an event. Once it runs, nothing is left of that.
func TestWaitingJobsSayWhy(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1") // four cores, of which one is the most that can ever be harvested
	stop := l.control(t)
	nobody := load("nobody", 1, "1000")
	if err := l.client.Create(t.Context(), nobody); err != nil {
		t.Fatal(err)
	}
	l.says(t, nobody.UID, "NoAgents", "a task of nobody needs 1 core and 4 MiB: there is no ready node whose agent reports")
	if err := l.client.Delete(t.Context(), nobody); err != nil {
		t.Fatal(err)
	}
	stop()

	var use atomic.Int64
	use.Store(4000)
	l.agents(t, func() cluster.Resources { return cluster.Resources{CPU: cluster.MilliCPU(use.Load())} }, "n1")
	defer l.control(t)()
	large, patient := job("large", 2, "true"), load("patient", 1, "0")
	large.Spec.Stages[0].CPU = resource.MustParse("2")
	asked := corev1.ResourceList{kube.CPU: resource.MustParse("2000"), kube.Memory: resource.MustParse("4Mi")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: namespace}, Spec: corev1.PodSpec{SchedulerName: kube.Scheduler,
		Containers: []corev1.Container{{Name: "task", Image: "busybox", Resources: corev1.ResourceRequirements{Limits: asked}}}}}
	for _, o := range []client.Object{large, patient, pod} {
		if err := l.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	l.says(t, large.UID, "TooLarge", "needs 2 cores and 4 MiB: no node can ever give that much, but at most 1 core and ")
	l.says(t, pod.UID, "TooLarge", "no node can ever give that much")
	l.says(t, patient.UID, "NoRoom", "no node has that free now")
	var h v1alpha1.HarvestJob
	err := soon(t.Context(), func() error {
		err := l.client.Get(t.Context(), client.ObjectKeyFromObject(patient), &h)
		if err == nil && (h.Status.State != v1alpha1.Waiting || !strings.Contains(h.Status.Reason, "no node has that free now")) {
			err = fmt.Errorf("%+v", h.Status)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	use.Store(1) // a primary is never quite idle
	if s := l.ended(t, "patient").Status; s.State != v1alpha1.Finished || s.Reason != "" {
		t.Errorf("%+v", s)
	}
}
