package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gleaner/cluster"
)

// A plain pod is one that others made and left to the scheduler "gleaner": of a Job, of a
// workflow, or alone. It is a job of one task that has the name of its owner, so that history
// has how long such pods take. It runs once: if it is to run again, whoever made it makes
// another.

// NameLabel names what a plain pod does, for its history, if its owner has another name every
// time.
const NameLabel = "gleaner.dev/name"

// plainStage is the only stage of the job of a plain pod.
const plainStage = "pod"

// plainJob is the job that a plain pod is.
func plainJob(pod *corev1.Pod, id cluster.JobID) *cluster.Job {
	name := cmp.Or(pod.Labels[NameLabel], strings.TrimSuffix(pod.GenerateName, "-"), pod.Name)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		name = cmp.Or(pod.Labels[NameLabel], owner.Name)
	}
	return &cluster.Job{ID: id, Name: name, Stages: []cluster.Stage{{Name: plainStage, Tasks: 1, Request: RequestOf(pod)}}}
}

// unfit is why a plain pod cannot be harvested work; empty if it can.
func unfit(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if _, asked := c.Resources.Requests[name]; asked {
				return fmt.Sprintf("container %s asks for %s, which the cluster's own scheduler counts: ask for %s and %s instead", c.Name, name, CPU, Memory)
			}
		}
	}
	if RequestOf(pod).CPU <= 0 {
		return fmt.Sprintf("it asks for no %s", CPU)
	}
	return ""
}

// isPlain reports whether a harvested pod was made by others.
func isPlain(pod *corev1.Pod) bool { return pod.Labels[JobLabel] == "" }

// plainSeen takes in a plain pod, or what has changed of it; w.mu is held.
func (w *World) plainSeen(pod *corev1.Pod) {
	id, known := w.numbers[pod.UID]
	t := w.runOf(id)
	switch {
	case t != nil && over(pod):
		w.started(t)
		w.plainEnded(t, pod)
	case t != nil && pod.Spec.NodeName == string(t.on):
		w.started(t)
	case pod.Spec.NodeName != "" && w.jobs[id] != nil: // somebody else bound it
		w.plainLost(id)
	case !known && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !over(pod):
		w.submit(pod)
	}
}

// runOf is the run of the job of a plain pod; nil if it has no node.
func (w *World) runOf(id cluster.JobID) *task {
	if j := w.jobs[id]; j != nil {
		return j.run
	}
	return nil
}

// submit has the core find a node for a plain pod.
func (w *World) submit(pod *corev1.Pod) {
	if why := unfit(pod); why != "" {
		w.numbers[pod.UID] = 0 // it is said once
		if w.Events != nil {
			w.Events.Eventf(pod, nil, corev1.EventTypeWarning, "NotHarvested", "Harvest", "%s", why)
		}
		return
	}
	j := w.plain(pod)
	w.tell(cluster.Event{Kind: cluster.JobSubmitted, Job: j.past.Job})
}

// plain gives a plain pod a number, which lasts as long as this world: what runs is known by
// its pod.
func (w *World) plain(pod *corev1.Pod) *job {
	w.last++
	j := &job{pod: pod, past: cluster.PastJob{Job: plainJob(pod, w.last), Submitted: pod.CreationTimestamp.Time}}
	w.numbers[pod.UID], w.jobs[w.last] = w.last, j
	return j
}

// resumePlain takes in a plain pod that runs.
func (w *World) resumePlain(pod *corev1.Pod) (cluster.PastJob, *task) {
	j := w.plain(pod)
	j.past.Started = pod.CreationTimestamp.Time
	t := w.runs(j, cluster.Action{Task: cluster.TaskID{Job: j.past.Job.ID, Stage: plainStage}, On: cluster.ServerID(pod.Spec.NodeName), Request: RequestOf(pod)})
	t.created = true
	past := j.past
	past.Runs = []cluster.PastRun{{Task: t.id, On: t.on, State: cluster.Running, Since: past.Started}}
	return past, t
}

// runs notes that the job of a plain pod is to run.
func (w *World) runs(j *job, a cluster.Action) *task {
	j.run = &task{id: a.Task, owner: j.pod.UID, on: a.On, request: a.Request, pod: j.pod}
	w.tasks[a.Task] = j.run
	return j.run
}

// stops notes that it does not any more.
func (w *World) stops(t *task) {
	delete(w.tasks, t.id)
	if j := w.jobs[t.id.Job]; j != nil {
		j.run = nil
	}
}

// bind binds a plain pod to its node. That it is bound there already says that an earlier
// call did it.
func (w *World) bind(t *task) {
	err := w.insist(passing, func(ctx context.Context) error {
		to := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: string(t.on)}}
		return w.Client.SubResource("binding").Create(ctx, t.pod.DeepCopy(), to)
	})
	if apierrors.IsConflict(err) {
		var now corev1.Pod
		again := w.insist(passing, func(ctx context.Context) error { return w.Client.Get(ctx, keyOf(t.pod), &now) })
		if again == nil && now.UID == t.pod.UID && now.Spec.NodeName == string(t.on) {
			err = nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ctx.Err() != nil || w.tasks[t.id] != t: // it has ended since
	case err == nil:
		w.started(t)
	default:
		w.stops(t)
		w.tell(cluster.Event{Kind: cluster.TaskNotStarted, Task: t.id, On: t.on, Reason: "its pod was not bound: " + err.Error()})
	}
}

// plainEnded tells how the run of a plain pod ended. If it did not finish its job is
// cancelled first: it is not run again.
func (w *World) plainEnded(t *task, pod *corev1.Pod) {
	kind, reason := outcome(pod, t.reason)
	if kind != cluster.TaskFinished {
		w.tellUse(t.on)
		w.tell(cluster.Event{Kind: cluster.JobCancelled, ID: t.id.Job})
	}
	w.stops(t)
	w.tell(cluster.Event{Kind: kind, Task: t.id, On: t.on, Reason: reason})
}

// plainGone forgets a plain pod.
func (w *World) plainGone(pod *corev1.Pod) {
	id := w.numbers[pod.UID]
	if t := w.runOf(id); t != nil {
		w.plainEnded(t, pod)
	} else if w.jobs[id] != nil {
		w.plainLost(id)
	}
	delete(w.numbers, pod.UID)
}

// plainLost tells that a plain pod is not ours to run any more.
func (w *World) plainLost(id cluster.JobID) {
	w.tell(cluster.Event{Kind: cluster.JobCancelled, ID: id})
	if t := w.runOf(id); t != nil {
		w.stops(t)
		w.tell(cluster.Event{Kind: cluster.TaskNotStarted, Task: t.id, On: t.on, Reason: "its pod was bound by somebody else"})
	}
}
