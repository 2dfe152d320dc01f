package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
)

// Tenancy says what makes nodes belong to a tenant.
type Tenancy string

// A tenant is named by labels of its nodes; or it is the namespace, or the owner of pods, as a
// Deployment, that asks for the most CPU on a node.
const (
	ByLabels    Tenancy = "labels"
	ByNamespace Tenancy = "namespace"
	ByOwner     Tenancy = "owner"
)

// Tenancies are all there are.
func Tenancies() []Tenancy { return []Tenancy{ByLabels, ByNamespace, ByOwner} }

// A tenant is who a node belongs to.
type tenant struct{ environment, function string }

// FindTenants finds whom the nodes belong to, if that is not said by labels. It lists the pods
// of the cluster, a few at a time: to watch them all would cost the API server and this process
// more than the answer is worth.
func (w *World) FindTenants(ctx context.Context) error {
	if w.Tenancy != ByNamespace && w.Tenancy != ByOwner {
		return nil
	}
	asked := map[cluster.ServerID]map[tenant]int64{}
	for next := ""; ; {
		var pods corev1.PodList
		if err := w.Client.List(ctx, &pods, client.Limit(500), client.Continue(next)); err != nil {
			return fmt.Errorf("kube: list pods to find tenants: %w", err)
		}
		for i := range pods.Items {
			w.count(asked, &pods.Items[i])
		}
		if next = pods.Continue; next == "" {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tenants = map[cluster.ServerID]tenant{}
	for id, by := range asked {
		w.tenants[id] = largest(by)
	}
	for _, n := range w.nodes {
		n.server.Environment, n.server.Function = w.tenantOf(n.labels, n.server.ID)
		w.offer(n, time.Now())
	}
	return nil
}

// count adds what a pod asks for to its tenant's. Daemons are on every node and belong to none
// of those who share it.
func (w *World) count(asked map[cluster.ServerID]map[tenant]int64, pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if pod.Spec.NodeName == "" || over(pod) || pod.Spec.SchedulerName == Scheduler || owner != nil && owner.Kind == "DaemonSet" {
		return
	}
	t := tenant{environment: pod.Namespace}
	if w.Tenancy == ByOwner {
		t.function = ownerName(pod, owner)
	}
	var cpu int64
	for _, c := range pod.Spec.Containers {
		cpu += c.Resources.Requests.Cpu().MilliValue()
	}
	id := cluster.ServerID(pod.Spec.NodeName)
	if asked[id] == nil {
		asked[id] = map[tenant]int64{}
	}
	asked[id][t] += max(1, cpu)
}

// ownerName is the name of what owns a pod: of the Deployment, if it is a ReplicaSet of one.
func ownerName(pod *corev1.Pod, owner *metav1.OwnerReference) string {
	if owner == nil {
		return pod.Name
	}
	if hash := pod.Labels["pod-template-hash"]; hash != "" && owner.Kind == "ReplicaSet" {
		return strings.TrimSuffix(owner.Name, "-"+hash)
	}
	return owner.Name
}

// largest is the tenant that asks for the most; of two that ask for the same the first by name.
func largest(by map[tenant]int64) tenant {
	var all []tenant
	for t := range by {
		all = append(all, t)
	}
	return slices.MinFunc(all, func(a, b tenant) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a.environment, b.environment), cmp.Compare(a.function, b.function))
	})
}

// tenantOf is whom a node with some labels belongs to.
func (w *World) tenantOf(labels map[string]string, id cluster.ServerID) (environment, function string) {
	if w.Tenancy == ByNamespace || w.Tenancy == ByOwner {
		return w.tenants[id].environment, w.tenants[id].function
	}
	return labels[w.Labels.Environment], labels[w.Labels.Function]
}
