package kube

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
)

// A task is a run that has not ended.
type task struct {
	id      cluster.TaskID
	owner   types.UID // of its pod: the job
	on      cluster.ServerID
	request cluster.Resources
	pod     *corev1.Pod
	created bool   // the API server has its pod; its start was told
	reason  string // why it is to be killed; empty if it is not
}

func (w *World) start(a cluster.Action) {
	j := w.jobs[a.Task.Job]
	if j == nil || !j.past.Ended.IsZero() || j.gone || w.nodes[a.On] == nil {
		w.tell(cluster.Event{Kind: cluster.TaskNotStarted, Task: a.Task, On: a.On, Reason: "there is no such job or node"})
		return
	}
	if j.pod != nil {
		t := w.runs(j, a)
		w.behind.Go(func() { w.bind(t) })
		return
	}
	t := &task{id: a.Task, owner: j.object.UID, on: a.On, request: a.Request, pod: podOf(j.object, a)}
	j.running++
	w.tasks[a.Task] = t
	w.behind.Go(func() { w.create(t) })
}

// create creates the pod of a run. That it exists already says that an earlier call did it.
// An API server that starts refuses what it allows a moment later: once a call went
// unanswered, and may have created the pod, a refusal decides nothing.
func (w *World) create(t *task) {
	maybe := false
	again := func(err error) bool {
		maybe = maybe || unanswered(err)
		return unanswered(err) || maybe && forbidden(err)
	}
	err := w.insist(again, func(ctx context.Context) error { return w.Client.Create(ctx, t.pod.DeepCopy()) })
	if w.ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.tasks[t.id] != t: // it has ended since
	case err == nil || apierrors.IsAlreadyExists(err):
		w.started(t)
	case forbidden(err) || apierrors.IsNotFound(err):
		w.over(t, cluster.TaskNotStarted, "its pod was refused: "+err.Error())
	default:
		w.started(t)
		w.over(t, cluster.TaskFailed, "its pod was refused: "+err.Error())
	}
}

// started tells that a run has started, once, and carries out a kill that came before.
func (w *World) started(t *task) {
	if t.created {
		return
	}
	t.created = true
	w.jobs[t.id.Job].began(time.Now())
	w.tell(cluster.Event{Kind: cluster.TaskStarted, Task: t.id, On: t.on, Request: t.request})
	if t.reason != "" {
		w.remove(t.pod)
	}
}

func (w *World) kill(t *task, reason string) {
	if t.reason != "" {
		return
	}
	t.reason = reason
	if t.created {
		w.remove(t.pod)
	}
}

// remove deletes a pod. Its end is told when it is seen.
func (w *World) remove(pod *corev1.Pod) {
	w.behind.Go(func() {
		err := w.insist(passing, func(ctx context.Context) error {
			return w.Client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))
		})
		if err != nil && !apierrors.IsNotFound(err) && w.ctx.Err() == nil {
			w.Log.Error("a pod cannot be deleted", "pod", pod.Namespace+"/"+pod.Name, "because", err)
		}
	})
}

func (w *World) podSeen(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if isPlain(pod) {
		w.plainSeen(pod)
		return
	}
	id, owner, ok := taskOf(pod)
	if !ok {
		return
	}
	t := w.tasks[id]
	if t == nil || t.owner != owner || keyOf(t.pod) != keyOf(pod) {
		w.stray(pod, id, owner)
		return
	}
	w.started(t)
	if over(pod) {
		w.ended(t, pod)
	}
}

func (w *World) podGone(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if isPlain(pod) {
		w.plainGone(pod)
		return
	}
	id, owner, ok := taskOf(pod)
	if t := w.tasks[id]; ok && t != nil && t.owner == owner && keyOf(t.pod) == keyOf(pod) {
		w.started(t)
		w.ended(t, pod)
	}
}

// stray ends a pod that the core does not know: the controller before this one created it
// in its last moment, or its job is gone.
func (w *World) stray(pod *corev1.Pod, id cluster.TaskID, owner types.UID) {
	if j := w.jobs[id.Job]; j != nil && w.numbers[owner] == id.Job && j.uncounted[keyOf(pod)] {
		return // its end is about to be written
	}
	if over(pod) {
		w.release(keyOf(pod))
	} else if pod.DeletionTimestamp == nil {
		w.remove(pod)
	}
}

// ended tells how a run ended by its pod, which is over or gone.
func (w *World) ended(t *task, pod *corev1.Pod) {
	kind, reason := outcome(pod, t.reason)
	j := w.jobs[t.id.Job]
	if kind == cluster.TaskFinished {
		j.past.Work += took(pod).Seconds() * float64(t.request.CPU) / float64(cluster.Core)
	}
	w.over(t, kind, reason)
}

// over tells how a run ended, and has that written.
func (w *World) over(t *task, kind cluster.EventKind, reason string) {
	j := w.jobs[t.id.Job]
	delete(w.tasks, t.id)
	j.count(t.id, kind)
	j.leave(keyOf(t.pod))
	switch kind {
	case cluster.TaskKilled:
		w.tellUse(t.on)
		w.say(j, corev1.EventTypeNormal, "TaskKilled", "%s on %s: %s", t.id, t.on, reason)
	case cluster.TaskFailed:
		w.say(j, corev1.EventTypeWarning, "TaskFailed", "%s on %s: %s", t.id, t.on, reason)
	case cluster.TaskNotStarted:
		w.say(j, corev1.EventTypeWarning, "TaskNotStarted", "%s on %s: %s", t.id, t.on, reason)
	}
	w.tell(cluster.Event{Kind: kind, Task: t.id, On: t.on, Reason: reason})
}

// lose forgets a run whose node is gone; the core knows by that.
func (w *World) lose(t *task) {
	delete(w.tasks, t.id)
	j := w.jobs[t.id.Job]
	j.running--
	j.leave(keyOf(t.pod))
	w.remove(t.pod)
}

// release lets go of a pod: its end is written, or of no use.
func (w *World) release(pod types.NamespacedName) {
	w.behind.Go(func() {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["`+counted+`"]}}`))
		err := w.insist(passing, func(ctx context.Context) error { return w.Client.Patch(ctx, p, patch) })
		if err != nil && !apierrors.IsNotFound(err) && w.ctx.Err() == nil {
			w.Log.Error("a pod cannot be released", "pod", pod.String(), "because", err)
		}
	})
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// insist calls the API server, again while its error is one to try again on.
func (w *World) insist(again func(error) bool, call func(context.Context) error) error {
	pause := 50 * time.Millisecond
	for {
		select {
		case w.calls <- struct{}{}:
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
		ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
		err := call(ctx)
		cancel()
		<-w.calls
		if err == nil || !again(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// passing reports whether an error may be gone the next time.
func passing(err error) bool { return unanswered(err) || forbidden(err) }

// unanswered reports whether the API server did not say what became of a call.
func unanswered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// forbidden reports whether the API server, or a quota, does not allow a call now.
func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
