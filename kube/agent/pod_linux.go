package agent

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"gleaner/cluster"
	"gleaner/kube"
	"gleaner/local/cgroup"
)

// patience is how long killed processes may take to end before the API is told anyway.
const patience = time.Second

// linger is how long a pod is remembered that is gone and has no group: its kubelet may be
// about to start it, and does not end it for long.
const linger = time.Minute

// A pod is a harvested one of this node.
type pod struct {
	object *corev1.Pod
	id     cluster.TaskID
	reason string    // why it was killed; empty if it was not
	left   bool      // the guard does not count it any more
	forget time.Time // once it has left, and has no group

	group  cgroup.Group
	found  bool          // there is the group
	cpu    time.Duration // that the group has used
	ending bool          // its processes are being killed
}

func (a *Agent) seen(o *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.take(o)
}

// take takes in a pod, or what has changed of it; a.mu is held.
func (a *Agent) take(o *corev1.Pod) {
	p := a.pods[taskOf(o)]
	if p == nil {
		p = &pod{object: o, id: taskOf(o), left: leaving(o)}
		a.pods[p.id] = p
		if !p.left {
			a.step(cluster.Event{Kind: cluster.TaskStarted, Task: p.id, On: a.server, Request: kube.RequestOf(o)})
		}
		return
	}
	if p.object = o; leaving(o) {
		a.leave(p)
	}
}

func (a *Agent) gone(o *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pods[taskOf(o)]; p != nil {
		a.leave(p)
	}
}

// leave has the guard forget a pod. Its processes are killed if it has any left: an object
// that is gone is not CPU that came back.
func (a *Agent) leave(p *pod) {
	if !p.left {
		p.left = true
		a.step(cluster.Event{Kind: cluster.TaskKilled, Task: p.id, On: a.server})
	}
}

// step asks the guard what an event means, and does it.
func (a *Agent) step(ev cluster.Event) {
	for _, action := range a.guard.Step(ev) {
		if p := a.pods[action.Task]; p != nil && action.Kind == cluster.KillTask {
			p.reason = action.Reason
			a.Log.Info("killing a pod", "pod", nameOf(p.object), "because", p.reason)
			o := p.object
			a.end(p, func() { a.tellKilled(o, action.Reason) })
		}
	}
}

// end kills the processes of a pod, and then calls then.
func (a *Agent) end(p *pod, then func()) {
	if p.ending {
		return
	}
	p.ending = true
	name, group, found := nameOf(p.object), p.group, p.found
	a.behind.Go(func() {
		if found {
			group.Hurry() // on a busy node processes of the idle class wait long for the CPU to exit
			if err := group.Kill(patience); err != nil {
				a.Log.Warn("a pod is not killed yet", "pod", name, "because", err)
			}
		}
		a.mu.Lock()
		p.ending = false
		a.mu.Unlock()
		then()
	})
}

// measure reads what the group of a pod has used and holds, once there is one. A group that
// is new is given the lowest priority and no more memory than the pod asked for.
func (a *Agent) measure(p *pod) (held cluster.Bytes) {
	if !p.found {
		if p.group, p.found = a.tree.group(p.object.UID); !p.found {
			return 0
		}
		p.group.Relax()
		if memory := kube.RequestOf(p.object).Memory; memory > 0 {
			if err := p.group.LimitMemory(memory); err != nil {
				a.Log.Warn("a pod's memory is not limited", "pod", nameOf(p.object), "because", err)
			}
		}
	}
	cpu, memory, err := p.group.Used()
	if err != nil { // the group is gone
		a.retired += p.cpu
		p.found, p.cpu = false, 0
		return 0
	}
	p.cpu = cpu
	return cluster.Bytes(memory)
}
