package kube

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
)

// The labels of nodes that show people the class of their tenant. Nothing reads them.
const (
	ClassLabel   = "gleaner.dev/class"
	PatternLabel = "gleaner.dev/pattern"
)

// Publish sends the classes to the core, and labels the nodes with them.
func (w *World) Publish(classes []cluster.Class) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(cluster.Event{Kind: cluster.ClassesPublished, Classes: classes})
	of := map[cluster.TenantID]*cluster.Class{}
	for i := range classes {
		for _, t := range classes[i].Tenants {
			of[t] = &classes[i]
		}
	}
	for id, n := range w.nodes {
		class, pattern := "", ""
		if c := of[n.server.Tenant()]; c != nil {
			class, pattern = c.ID, c.Pattern.String()
		}
		if n.labels[ClassLabel] != class || n.labels[PatternLabel] != pattern {
			w.label(string(id), class, pattern)
		}
	}
}

// label labels a node; what is empty is taken off.
func (w *World) label(node, class, pattern string) {
	labels := map[string]any{ClassLabel: nil, PatternLabel: nil}
	if class != "" {
		labels[ClassLabel], labels[PatternLabel] = class, pattern
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return // a map of strings can be written
	}
	w.behind.Go(func() {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		err := w.insist(unanswered, func(ctx context.Context) error {
			return w.Client.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch))
		})
		if err != nil && !apierrors.IsNotFound(err) && w.ctx.Err() == nil {
			w.Log.Warn("a node is not labelled with its class", "node", node, "because", err)
		}
	})
}

// Servers are the nodes there are, with all they have.
func (w *World) Servers() (all []cluster.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		all = append(all, n.server)
	}
	return all
}
