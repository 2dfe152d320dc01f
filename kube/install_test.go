package kube_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/kube"
)

// Uninstalling, as the docs say it, leaves no object of any kind and nothing on the nodes.
func TestUninstallLeavesNothing(t *testing.T) {
	l := real(t)
	l.empty(t)
	t.Cleanup(func() { // for the other tests
		if err := soon(context.Background(), func() error { return l.install(context.Background()) }); err != nil {
			t.Error(err)
		}
	})
	l.node(t, "n1")
	proc := t.TempDir()
	primaryHolds(t, proc, cluster.GB)
	stopAgent, stopController := l.agent(t, "n1", proc), l.control(t)
	if err := l.client.Create(t.Context(), job("last", 2, "sleep", "1000")); err != nil {
		t.Fatal(err)
	}
	if err := soon(t.Context(), func() error { return l.count(t, 2) }); err != nil {
		t.Fatal(err)
	}
	h := job("last", 1)
	if err := l.client.Delete(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := soon(t.Context(), func() error { return l.count(t, 0) }); err != nil {
		t.Fatal(err)
	}
	stopAgent()
	stopController()
	installed, err := objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range slices.Backward(installed) {
		if err := l.client.Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	if err := soon(t.Context(), func() error { return l.clean(t) }); err != nil {
		t.Error(err)
	}
	var n corev1.Node
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
		t.Fatal(err)
	}
	for name := range n.Status.Capacity {
		if strings.Contains(string(name), "gleaner") {
			t.Errorf("n1 still has %s", name)
		}
	}
}

// clean returns an error if the cluster has an object of ours, of any kind.
func (l *lab) clean(t *testing.T) error {
	config := rest.CopyConfig(l.config)
	config.WarningHandler = rest.NoWarnings{} // of kinds that are old
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	if err != nil {
		return err
	}
	all := dynamic.NewForConfigOrDie(config)
	for _, group := range kinds {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return err
		}
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || kind.Kind == "Event" { // events expire by themselves
				continue
			}
			list, err := all.Resource(gv.WithResource(kind.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("%s: %w", kind.Name, err)
			}
			if i := slices.IndexFunc(list.Items, ours); i >= 0 {
				return fmt.Errorf("left: %s %s/%s", kind.Kind, list.Items[i].GetNamespace(), list.Items[i].GetName())
			}
		}
	}
	return nil
}

func ours(o unstructured.Unstructured) bool {
	return strings.Contains(o.GetName(), "gleaner") || o.GetNamespace() == system
}

// count returns an error if there are not as many pods of jobs.
func (l *lab) count(t *testing.T, want int) error {
	var pods corev1.PodList
	if err := l.client.List(t.Context(), &pods, client.HasLabels{kube.JobLabel}); err != nil {
		return err
	}
	if len(pods.Items) != want {
		return fmt.Errorf("%d pods, want %d", len(pods.Items), want)
	}
	return nil
}
