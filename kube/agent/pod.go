package agent

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gleaner/cluster"
	"gleaner/kube"
)

// taskOf names a pod for the guard, which knows runs of tasks.
func taskOf(o *corev1.Pod) cluster.TaskID { return cluster.TaskID{Stage: string(o.UID)} }

func nameOf(o *corev1.Pod) string { return o.Namespace + "/" + o.Name }

// leaving reports whether a pod is about to be gone or has ended: somebody took it back
// without any grace.
func leaving(o *corev1.Pod) bool {
	now := o.DeletionTimestamp != nil && o.DeletionGracePeriodSeconds != nil && *o.DeletionGracePeriodSeconds == 0
	return now || o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
}

// killedPatch is what the status of a pod says that was killed for the primary.
func killedPatch(o *corev1.Pod, reason string) ([]byte, error) {
	conditions := []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: kube.PrimaryNeedsNode, Message: reason, LastTransitionTime: metav1.Now()}}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.UID}, "status": map[string]any{"conditions": conditions}})
}
