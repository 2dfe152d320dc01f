package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/kube/api/v1alpha1"
)

// A job is a HarvestJob that has a number, or a plain pod.
type job struct {
	object    *v1alpha1.HarvestJob          // as last written; nil for a plain pod
	pod       *corev1.Pod                   // the plain pod
	run       *task                         // its run, once it has a node
	past      cluster.PastJob               // what its status is to say
	running   int                           // tasks that were to be started and have not ended
	gone      bool                          // the object was deleted
	changed   bool                          // since it was last written
	uncounted map[types.NamespacedName]bool // pods whose end is not written yet
	failed    bool                          // the last run to end failed by itself

	idle  time.Time // since then no task runs; zero if one does
	waits string    // why, once it was said
	said  time.Time // and when
}

func newJob(h *v1alpha1.HarvestJob) (*job, error) {
	past, err := h.Past(nil)
	return &job{object: h, past: past, uncounted: map[types.NamespacedName]bool{}}, err
}

// began notes that a run has started.
func (j *job) began(at time.Time) {
	if j.past.Started.IsZero() {
		j.past.Started = at
	}
	j.changed = true
}

// count counts a run that has ended.
func (j *job) count(id cluster.TaskID, kind cluster.EventKind) {
	j.running--
	j.changed, j.failed = true, kind == cluster.TaskFailed
	i := slices.IndexFunc(j.past.Stages, func(s cluster.PastStage) bool { return s.Name == id.Stage })
	if i < 0 {
		i = len(j.past.Stages)
		j.past.Stages = append(j.past.Stages, cluster.PastStage{Name: id.Stage})
	}
	switch st := &j.past.Stages[i]; kind {
	case cluster.TaskFinished:
		st.Finished = st.Finished.With(id.Index)
	case cluster.TaskFailed:
		st.Failures++
	case cluster.TaskKilled:
		j.past.Kills++
	}
}

// leave notes a pod to be released once the status is written.
func (j *job) leave(pod types.NamespacedName) {
	j.uncounted[pod] = true
	j.changed = true
}

// resume takes in the jobs and pods there are.
func (w *World) resume(objects []v1alpha1.HarvestJob, pods []corev1.Pod) error {
	runs := map[types.UID][]*corev1.Pod{}
	for i := range pods {
		if _, owner, ok := taskOf(&pods[i]); ok {
			runs[owner] = append(runs[owner], &pods[i])
		}
	}
	slices.SortFunc(objects, func(a, b v1alpha1.HarvestJob) int {
		return cmp.Or(cmp.Compare(a.Status.Number, b.Status.Number), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	var past []cluster.PastJob
	for _, p := range w.Past {
		if !slices.ContainsFunc(objects, func(h v1alpha1.HarvestJob) bool { return isAgain(&p, &h) }) {
			past = append(past, p)
		}
	}
	var live []*task
	for i := range objects {
		h := &objects[i]
		if h.Status.Number == 0 {
			continue // it is seen in a moment, as any new one
		}
		number := cluster.JobID(h.Status.Number)
		w.numbers[h.UID], w.last = number, max(w.last, number)
		j, err := newJob(h)
		if err != nil { // somebody else wrote it; all other jobs go on
			w.Log.Error("a job is left alone: its status cannot be read", "job", h.Namespace+"/"+h.Name, "because", err)
			continue
		}
		if h.DeletionTimestamp != nil {
			continue // its pods are strays
		}
		if h.Status.Ended == nil {
			w.jobs[j.past.Job.ID] = j
			running, last := w.restore(j, runs[h.UID])
			live = append(live, running...)
			j.past.Runs = last
		}
		past = append(past, j.past)
		j.past.Runs = nil
	}
	for i := range pods {
		if pod := &pods[i]; isPlain(pod) && !over(pod) && unfit(pod) == "" && w.nodes[cluster.ServerID(pod.Spec.NodeName)] != nil {
			p, t := w.resumePlain(pod)
			past, live = append(past, p), append(live, t)
		}
	}
	w.tell(cluster.Event{Kind: cluster.Resumed, Past: past})
	slices.SortFunc(live, func(a, b *task) int { return a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time) })
	for _, t := range live {
		w.tell(cluster.Event{Kind: cluster.TaskStarted, Task: t.id, On: t.on, Request: t.request})
	}
	return nil
}

// isAgain reports whether a job of the past is one that the API still has, whose times are in
// whole seconds there.
func isAgain(p *cluster.PastJob, h *v1alpha1.HarvestJob) bool {
	return h.Status.Ended != nil && cmp.Or(h.Spec.Name, h.Name) == p.Job.Name && h.Status.Ended.Sub(p.Ended).Abs() < 2*time.Second
}

// restore counts the runs of a job that have ended since its status was written, and
// returns those that go on and the last run of each task that has not finished.
func (w *World) restore(j *job, pods []*corev1.Pod) (live []*task, last []cluster.PastRun) {
	of := map[cluster.TaskID]*cluster.PastRun{} // by attempt 0
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !isRunOf(pod, j.object) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		x, _, _ := taskOf(a)
		y, _, _ := taskOf(b)
		return cmp.Or(cmp.Compare(x.Stage, y.Stage), cmp.Compare(x.Index, y.Index), cmp.Compare(x.Attempt, y.Attempt))
	})
	for _, pod := range pods {
		id, owner, _ := taskOf(pod)
		first := id
		first.Attempt = 0
		r := of[first]
		if r == nil {
			r = &cluster.PastRun{}
			of[first] = r
		}
		r.Task, r.On, r.Since, r.State = id, cluster.ServerID(pod.Spec.NodeName), pod.CreationTimestamp.Time, cluster.Stopped
		if !over(pod) && w.nodes[r.On] != nil {
			r.State = cluster.Running
			t := &task{id: id, owner: owner, on: r.On, request: RequestOf(pod), pod: pod, created: true}
			w.tasks[id] = t
			live = append(live, t)
			j.running++
			j.began(r.Since)
			continue
		}
		kind, reason := outcome(pod, "")
		if slices.Contains(pod.Finalizers, counted) {
			j.running++
			j.count(id, kind)
			j.leave(keyOf(pod))
		}
		if kind == cluster.TaskFailed {
			r.Failures++
			r.Reason = reason
		}
	}
	for first, r := range of {
		if !j.past.Finished(first.Stage).Has(first.Index) {
			last = append(last, *r)
		}
	}
	slices.SortFunc(last, func(a, b cluster.PastRun) int {
		return cmp.Or(cmp.Compare(a.Task.Stage, b.Task.Stage), cmp.Compare(a.Task.Index, b.Task.Index))
	})
	return live, last
}

func (w *World) jobSeen(h *v1alpha1.HarvestJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	number, known := w.numbers[h.UID]
	switch {
	case h.DeletionTimestamp != nil:
		w.cancel(number)
	case !known && h.Status.Number == 0:
		w.numbers[h.UID] = 0
		w.waiting = append(w.waiting, h)
		poke(w.fresh)
	}
}

func (w *World) jobGone(h *v1alpha1.HarvestJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel(w.numbers[h.UID])
	delete(w.numbers, h.UID)
}

// cancel tells that the object of a job was deleted.
func (w *World) cancel(number cluster.JobID) {
	if j := w.jobs[number]; j != nil && !j.gone {
		j.gone, j.changed = true, true
		if j.past.Ended.IsZero() {
			w.tell(cluster.Event{Kind: cluster.JobCancelled, ID: number})
		}
	}
}

// admit gives new jobs their numbers, one after the other.
func (w *World) admit() {
	for {
		select {
		case <-w.fresh:
		case <-w.ctx.Done():
			return
		}
		w.mu.Lock()
		waiting := w.waiting
		w.waiting = nil
		w.mu.Unlock()
		for _, h := range waiting {
			w.number(h.DeepCopy())
		}
	}
}

// number gives a job its number, which is written before anything else is done about it: the
// next controller knows it by that.
func (w *World) number(h *v1alpha1.HarvestJob) {
	w.mu.Lock()
	w.last++
	number := int64(w.last)
	w.mu.Unlock()
	err := w.writeNumber(h, number)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.numbers[h.UID]; !there {
		return // it was deleted since
	}
	if err != nil {
		if !apierrors.IsNotFound(err) && w.ctx.Err() == nil {
			w.Log.Error("a job gets no number", "job", h.Namespace+"/"+h.Name, "because", err)
			delete(w.numbers, h.UID) // until it changes
		}
		return
	}
	j, err := newJob(h)
	if err != nil {
		return // a status that was just made is sound
	}
	id := j.past.Job.ID
	w.numbers[h.UID], w.jobs[id] = id, j
	w.tell(cluster.Event{Kind: cluster.JobSubmitted, Job: j.past.Job})
}

// writeNumber writes the number of a job. If the job has changed meanwhile, that may be this very change, whose answer was lost.
func (w *World) writeNumber(h *v1alpha1.HarvestJob, number int64) error {
	for {
		base := h.DeepCopy()
		h.Status.Number = number
		h.Status.SetPast(&cluster.PastJob{Job: h.Job()}, 0)
		err := w.insist(passing, func(ctx context.Context) error {
			return w.Client.Status().Patch(ctx, h, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
		})
		if !apierrors.IsConflict(err) {
			return err
		}
		is := &v1alpha1.HarvestJob{}
		err = w.insist(passing, func(ctx context.Context) error { return w.Client.Get(ctx, client.ObjectKeyFromObject(base), is) })
		switch {
		case err != nil:
			return err
		case is.UID != base.UID:
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("harvestjobs").GroupResource(), base.Name)
		}
		if is.DeepCopyInto(h); h.Status.Number == number {
			return nil
		}
	}
}

func (w *World) finish(a cluster.Action) {
	j := w.jobs[a.ID]
	if j != nil && j.pod != nil {
		delete(w.jobs, a.ID)
		return
	}
	if j == nil || !j.past.Ended.IsZero() {
		return
	}
	j.past.Account, j.past.Ended, j.past.Reason, j.changed = a.Account, time.Now(), a.Reason, true
	if a.Reason == "" {
		w.say(j, corev1.EventTypeNormal, "Finished", "%s has finished", a.ID)
	} else {
		w.say(j, corev1.EventTypeWarning, "Failed", "%s", a.Reason)
	}
}

// write writes what has changed of jobs to their status, from time to time.
func (w *World) write() {
	ticks := time.NewTicker(w.Every)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-w.ctx.Done():
			return
		}
		var all sync.WaitGroup
		w.mu.Lock()
		for id, j := range w.jobs {
			if j.changed && j.object != nil {
				all.Go(func() { w.writeJob(id, j) })
			}
		}
		w.mu.Unlock()
		all.Wait()
	}
}

// writeJob writes the status of a job and releases the pods that it counts.
func (w *World) writeJob(id cluster.JobID, j *job) {
	w.mu.Lock()
	now, pods, gone := j.object.DeepCopy(), j.uncounted, j.gone
	now.Status.SetPast(&j.past, j.running)
	if now.Status.State == v1alpha1.Waiting {
		now.Status.Reason = j.waits
	}
	j.uncounted, j.changed = map[types.NamespacedName]bool{}, false
	w.mu.Unlock()
	if !gone {
		base := j.object.DeepCopy()
		err := w.insist(passing, func(ctx context.Context) error { return w.Client.Status().Patch(ctx, now, client.MergeFrom(base)) })
		if err != nil && !apierrors.IsNotFound(err) {
			w.unwritten(j, pods, err)
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j.object = now
	for pod := range pods {
		w.release(pod)
	}
	if !j.past.Ended.IsZero() && j.running == 0 && !j.changed {
		delete(w.jobs, id)
	}
}

// unwritten takes back that the status of a job was written; it is tried again.
func (w *World) unwritten(j *job, pods map[types.NamespacedName]bool, because error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(j.uncounted, pods)
	j.changed = true
	if w.ctx.Err() == nil {
		w.Log.Error("the status of a job cannot be written", "job", j.object.Namespace+"/"+j.object.Name, "because", because)
	}
}
