package kube

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gleaner/cluster"
	"gleaner/kube/api/v1alpha1"
)

// Tasks have their item in the command and in the environment, and limits of time as pods have them.
func TestPodsOfItems(t *testing.T) {
	h := &v1alpha1.HarvestJob{Spec: v1alpha1.HarvestJobSpec{Stages: []v1alpha1.Stage{
		{Name: "zip", Tasks: 2, Command: []string{"gzip", "{}.txt"}, Each: []string{"a b", "c"}, TimeSeconds: 90, GraceSeconds: 5},
		{Name: "draw", Tasks: 3, Command: []string{"draw", "{}"}, Array: &v1alpha1.Array{First: 10, Step: 5}},
		{Name: "plain", Tasks: 2, Command: []string{"echo", "{}"}},
		{Name: "long", Tasks: 1, Command: []string{strings.Repeat("{}", 100)}, Each: []string{strings.Repeat("x", 4096)}},
	}}}
	for _, tc := range []struct {
		stage   string
		index   int32
		command []string
		item    string
	}{
		{"zip", 0, []string{"gzip", "a b.txt"}, "a b"}, {"zip", 1, []string{"gzip", "c.txt"}, "c"}, {"draw", 2, []string{"draw", "20"}, "20"}, {"plain", 1, []string{"echo", "{}"}, ""},
	} {
		pod := podOf(h, cluster.Action{Task: cluster.TaskID{Job: 1, Stage: tc.stage, Index: tc.index}})
		c := pod.Spec.Containers[0]
		has := slices.Contains(c.Env, corev1.EnvVar{Name: "GLEANER_ITEM", Value: tc.item})
		if !slices.Equal(c.Command, tc.command) || has != (tc.item != "") {
			t.Errorf("%s %d: %q, %v", tc.stage, tc.index, c.Command, c.Env)
		}
		if limit := pod.Spec.ActiveDeadlineSeconds; (limit != nil) != (tc.stage == "zip") || limit != nil && (*limit != 90 || *pod.Spec.TerminationGracePeriodSeconds != 5) {
			t.Errorf("%s: %v", tc.stage, limit)
		}
	}
	if c := podOf(h, cluster.Action{Task: cluster.TaskID{Job: 1, Stage: "long"}}).Spec.Containers[0].Command; len(c) != 1 || !strings.Contains(c[0], "argument list too long") {
		t.Errorf("%.100q", c)
	}
}
