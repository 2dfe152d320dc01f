package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/kube"
)

// answer is how long a call to the API server may take.
const answer = 10 * time.Second

// report tells the API what the primary uses and what the node offers, from time to time and
// when the offer changes.
func (a *Agent) report() {
	ticks := time.NewTicker(a.Report)
	defer ticks.Stop()
	for {
		if err := a.reportOnce(); err != nil && a.ctx.Err() == nil {
			a.Log.Warn("the API is not told what the node uses and offers; it is tried again", "because", err)
		}
		select {
		case <-ticks.C:
		case <-a.news:
		case <-a.ctx.Done():
			return
		}
	}
}

func (a *Agent) reportOnce() error {
	a.mu.Lock()
	ready, primary, given, changed := a.meter.ready, a.primary, a.given, a.given != a.stands
	a.mu.Unlock()
	if !ready {
		return nil // once it is, the offer changes or a tick comes
	}
	ctx, cancel := context.WithTimeout(a.ctx, answer)
	defer cancel()
	// The report goes first: who reads it may not count on what is not offered any more.
	if err := kube.Report(ctx, a.Client, kube.ReportOf(a.server, a.Namespace, primary, time.Now())); err != nil || !changed {
		return err
	}
	return a.put(ctx, kube.Offer(given))
}

// put writes resources to the status of the node, which keeps its others; nil removes one.
func (a *Agent) put(ctx context.Context, offered map[corev1.ResourceName]*string) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": offered, "allocatable": offered}})
	if err != nil {
		return err
	}
	return a.Client.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.Node}}, client.RawPatch(types.MergePatchType, patch))
}

// withdraw leaves the node as if there had been no agent.
func (a *Agent) withdraw() error {
	ctx, cancel := context.WithTimeout(context.Background(), answer)
	defer cancel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: a.Node, Namespace: a.Namespace}}
	err := errors.Join(client.IgnoreNotFound(a.Client.Delete(ctx, lease)), client.IgnoreNotFound(a.put(ctx, kube.Withdrawn())))
	if err != nil {
		return fmt.Errorf("agent: the offer of the node is not taken back: %w", err)
	}
	return nil
}

// tellKilled has the API know why a pod was killed, and removes it: its kubelet would start
// it again, or its owner wait for it. What the primary uses is reported first, so that nobody
// starts another pod in its place.
func (a *Agent) tellKilled(o *corev1.Pod, reason string) {
	if err := a.reportOnce(); err != nil && a.ctx.Err() == nil {
		a.Log.Warn("the API is not told what the node uses", "because", err)
	}
	patch, err := killedPatch(o, reason)
	if err != nil {
		a.Log.Error("it cannot be said why a pod was killed", "pod", nameOf(o), "because", err)
		return
	}
	a.insist(o, func(ctx context.Context) error {
		err := a.Client.Status().Patch(ctx, o.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
		if err != nil {
			return err
		}
		return a.Client.Delete(ctx, o.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &o.UID})
	})
}

// insist makes calls about a pod until they are done or the pod is not there any more.
func (a *Agent) insist(o *corev1.Pod, call func(context.Context) error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		ctx, cancel := context.WithTimeout(a.ctx, answer)
		err := call(ctx)
		cancel()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict: another pod has its name
			return
		}
		a.Log.Warn("the API does not know yet that a pod was killed", "pod", nameOf(o), "because", err)
		select {
		case <-time.After(pause):
		case <-a.ctx.Done():
			return
		}
	}
}
