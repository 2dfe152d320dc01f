package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gleaner/cluster"
)

// A node belongs to whoever's pods ask for the most CPU there; daemons, harvested pods and
// those that have ended do not count.
func TestTenants(t *testing.T) {
	yes := true
	pod := func(namespace, owner, kind, hash, cpu string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: map[string]string{"pod-template-hash": hash}}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: &yes}}
		}
		p.Spec = corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{}}}
		if cpu != "" {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
		}
		return p
	}
	harvested, done, waits := pod("shop", "h", "HarvestJob", "", "9"), pod("shop", "d", "Job", "", "9"), pod("shop", "w", "Job", "", "9")
	harvested.Spec.SchedulerName, done.Status.Phase, waits.Spec.NodeName = Scheduler, corev1.PodSucceeded, ""
	all := []*corev1.Pod{harvested, done, waits, pod("kube-system", "log", "DaemonSet", "", "9"), pod("shop", "cart-abc", "ReplicaSet", "abc", "1"),
		pod("shop", "cart-abc", "ReplicaSet", "abc", "1"), pod("mail", "smtp", "StatefulSet", "", "2500m"), pod("shop", "db", "StatefulSet", "", "1"), pod("mail", "", "", "", "")}
	for by, want := range map[Tenancy]tenant{ByNamespace: {"shop", ""}, ByOwner: {"mail", "smtp"}} {
		w := &World{Options: Options{Tenancy: by}}
		asked := map[cluster.ServerID]map[tenant]int64{}
		for _, p := range all {
			w.count(asked, p)
		}
		if len(asked) != 1 || largest(asked["n1"]) != want {
			t.Errorf("by %s: %v", by, asked)
		}
		if by == ByOwner && asked["n1"][tenant{"shop", "cart"}] != 2000 {
			t.Errorf("the pods of a Deployment are not counted together: %v", asked)
		}
	}
}
