package kube_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/kube"
)

// plainJob is a Kubernetes Job that is left to gleaner: any number of pods, two at a time.
func (l *lab) plainJob(t *testing.T, name string, pods int32, command ...string) *batchv1.Job {
	t.Helper()
	two := int32(2)
	asked := corev1.ResourceList{kube.CPU: resource.MustParse("500"), kube.Memory: resource.MustParse("64Mi")}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: batchv1.JobSpec{Completions: &pods, Parallelism: &two,
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}}}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: kube.Scheduler, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "task", Image: "busybox", Command: command, Resources: corev1.ResourceRequirements{Limits: asked}}}}}}}
	if err := l.client.Create(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.client.Delete(context.Background(), j, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Error(err)
		}
	})
	return j
}

// A Kubernetes Job runs as it is, also if controllers come and go: each of its pods runs once.
func TestPlainJob(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.agents(t, idle, "n1")
	stop := l.control(t)
	defer func() { stop() }()
	j := l.plainJob(t, "plain", 6, "sleep", "1")
	for range 3 {
		time.Sleep(700 * time.Millisecond)
		stop()
		stop = l.control(t)
	}
	err := soon(t.Context(), func() error {
		err := l.client.Get(t.Context(), client.ObjectKeyFromObject(j), j)
		if err == nil && j.Status.CompletionTime == nil {
			err = fmt.Errorf("%+v", j.Status)
		}
		return err
	})
	if err != nil || j.Status.Succeeded != 6 || j.Status.Failed != 0 {
		t.Fatalf("%+v, %v", j.Status, err)
	}
}

// Pods that wait are started when there is room, in their order. One that is gone, or that
// somebody else has bound, is forgotten; one that asks for more than harvested work may is
// told so.
func TestPlainPodsWait(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.agents(t, idle, "n1")
	defer l.control(t)()
	pod := func(name string, request corev1.ResourceList, command ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: corev1.PodSpec{SchedulerName: kube.Scheduler, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "task", Image: "busybox", Command: command, Resources: corev1.ResourceRequirements{Limits: request}}}}}
		if err := l.client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	phase := func(p *corev1.Pod, want corev1.PodPhase) {
		t.Helper()
		err := soon(t.Context(), func() error {
			err := l.client.Get(t.Context(), client.ObjectKeyFromObject(p), p)
			if err == nil && p.Status.Phase != want {
				err = fmt.Errorf("%s is %s", p.Name, p.Status.Phase)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := corev1.ResourceList{kube.CPU: resource.MustParse("2000"), kube.Memory: resource.MustParse("64Mi")} // that can be harvested
	one := pod("one", all, "sleep", "1000")
	phase(one, corev1.PodRunning)
	two := pod("two", all, "true")
	never := pod("never", all, "true")
	greedy := pod("greedy", corev1.ResourceList{"cpu": resource.MustParse("1"), kube.CPU: resource.MustParse("1")}, "true")
	l.says(t, greedy.UID, "NotHarvested", "container task asks for cpu")
	phase(two, corev1.PodPending)
	bound := pod("bound", all, "sleep", "1000")
	to := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}} // by somebody else, while it waits
	if err := l.client.SubResource("binding").Create(t.Context(), bound, to); err != nil {
		t.Fatal(err)
	}
	phase(bound, corev1.PodRunning)
	for _, p := range []*corev1.Pod{never, one} {
		if err := l.client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	phase(two, corev1.PodSucceeded)
	phase(greedy, corev1.PodPending)
}
