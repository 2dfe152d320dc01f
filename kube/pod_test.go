package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"gleaner/cluster"
	"gleaner/kube/api/v1alpha1"
)

func harvestJob(name string, uid types.UID) *v1alpha1.HarvestJob {
	return &v1alpha1.HarvestJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "x", UID: uid}, Spec: v1alpha1.HarvestJobSpec{Stages: []v1alpha1.Stage{{Name: "map"}, {Name: "map-1"}}}}
}

// A pod says which run it is, and asks for nothing that the cluster's scheduler counts.
func TestPodIsItsRun(t *testing.T) {
	a := cluster.Action{Kind: cluster.StartTask, On: "n1", Task: cluster.TaskID{Job: 7, Stage: "map", Index: 3, Attempt: 2}, Request: cluster.Resources{CPU: 250, Memory: 64 * cluster.MB}}
	pod := podOf(harvestJob("count", "u1"), a)
	if id, owner, ok := taskOf(pod); !ok || id != a.Task || owner != "u1" || RequestOf(pod) != a.Request || pod.Spec.NodeName != "n1" {
		t.Errorf("%v of %s: %+v", id, owner, pod)
	}
	for name := range pod.Spec.Containers[0].Resources.Requests {
		if name != CPU && name != Memory {
			t.Errorf("it asks for %s", name)
		}
	}
	for _, spoil := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.OwnerReferences = nil },
		func(p *corev1.Pod) { p.Labels[indexLabel] = "-1" },
		func(p *corev1.Pod) { p.Labels[JobLabel] = "count" },
	} {
		other := pod.DeepCopy()
		spoil(other)
		if id, _, ok := taskOf(other); ok {
			t.Errorf("taken for %s: %v", id, other.ObjectMeta)
		}
	}
}

// No two runs have pods of the same name, and each is a DNS label.
func TestPodNames(t *testing.T) {
	names := map[string]cluster.TaskID{}
	long := strings.Repeat("a", 200)
	for _, h := range []*v1alpha1.HarvestJob{harvestJob("a", "1"), harvestJob("a", "2"), harvestJob("a.map", "3"), harvestJob(long, "4")} {
		for _, id := range []cluster.TaskID{{Stage: "map"}, {Stage: "map", Index: 1}, {Stage: "map", Attempt: 1}, {Stage: "map-1"}, {Stage: "map", Index: 1, Attempt: 1}, {Stage: "map-1", Attempt: 1}} {
			name := podName(h, id)
			if other, twice := names[name]; twice {
				t.Errorf("%s: %v and %v", name, id, other)
			}
			if wrong := validation.IsDNS1123Label(name); wrong != nil {
				t.Errorf("%s: %v", name, wrong)
			}
			names[name] = id
		}
	}
}

// A pod of others is a job with the name of what it is for, and is no harvested work if the
// cluster's own scheduler would count it.
func TestPlainPods(t *testing.T) {
	yes := true
	asked := func(names ...corev1.ResourceName) []corev1.Container {
		list := corev1.ResourceList{}
		for _, name := range names {
			list[name] = resource.MustParse("1000")
		}
		return []corev1.Container{{Name: "task", Resources: corev1.ResourceRequirements{Requests: list}}}
	}
	meta := metav1.ObjectMeta{Name: "nightly-x7", GenerateName: "nightly-", UID: "u1"}
	owned, named := meta, meta
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "count", Controller: &yes}}
	named.OwnerReferences, named.Labels = owned.OwnerReferences, map[string]string{NameLabel: "report"}
	for _, tc := range []struct {
		pod       corev1.Pod
		name, why string
	}{
		{corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: asked(CPU)}}, "nightly", ""},
		{corev1.Pod{ObjectMeta: owned, Spec: corev1.PodSpec{Containers: asked(CPU, Memory)}}, "count", ""},
		{corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: asked(CPU)}}, "report", ""},
		{corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: asked(CPU, "memory")}}, "nightly", "container task asks for memory"},
		{corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: asked(CPU), InitContainers: asked("cpu")}}, "nightly", "container task asks for cpu"},
		{corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: asked(Memory)}}, "nightly", "it asks for no gleaner.dev/cpu"},
	} {
		j := plainJob(&tc.pod, 7)
		if why := unfit(&tc.pod); j.Name != tc.name || !strings.HasPrefix(why, tc.why) || (why == "") != (tc.why == "") {
			t.Errorf("%s: %q, want %s: %q", j.Name, why, tc.name, tc.why)
		}
		if err := j.Validate(); tc.why == "" && err != nil {
			t.Error(err)
		}
	}
}

// A pod asks for what it takes at its widest.
func TestRequestOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	c := func(cpu string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{RestartPolicy: policy, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{CPU: resource.MustParse(cpu)}}}
	}
	for want, spec := range map[cluster.MilliCPU]corev1.PodSpec{
		300: {Containers: []corev1.Container{c("100", nil), c("200", nil)}},
		500: {Containers: []corev1.Container{c("100", nil)}, InitContainers: []corev1.Container{c("500", nil), c("400", nil)}},
		150: {Containers: []corev1.Container{c("100", nil)}, InitContainers: []corev1.Container{c("20", nil), c("50", &always)}},
		450: {Containers: []corev1.Container{c("100", nil)}, InitContainers: []corev1.Container{c("50", &always), c("400", nil), c("1", &always)}},
	} {
		if got := RequestOf(&corev1.Pod{Spec: spec}); got.CPU != want {
			t.Errorf("%v: %v, want %v", spec, got, want)
		}
	}
}

// A job that waits says why after a while; one whose task has failed by itself, once that is not the pause before it is run again.
func TestWaitsBeforeItSaysWhy(t *testing.T) {
	for _, tc := range []struct {
		failed bool
		after  time.Duration
		says   bool
	}{{false, 9 * time.Second, false}, {false, 11 * time.Second, true}, {true, 4 * time.Minute, false}, {true, 6 * time.Minute, true}} {
		j, err := newJob(harvestJob("count", "u1"))
		if err != nil {
			t.Fatal(err)
		}
		j.failed = tc.failed
		w, began := &World{jobs: map[cluster.JobID]*job{1: j}}, time.Now()
		w.explain(began)
		w.explain(began.Add(tc.after))
		if said := strings.Contains(j.waits, "no ready node"); said != tc.says || j.changed != tc.says {
			t.Errorf("failed %v, after %v: it says %q", tc.failed, tc.after, j.waits)
		}
	}
}

func TestOutcome(t *testing.T) {
	ended := func(code int32, reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}}
	}
	now := metav1.NewTime(time.Unix(1000, 0))
	deleted := metav1.ObjectMeta{DeletionTimestamp: &now}
	failed := corev1.PodFailed
	for _, tc := range []struct {
		name  string
		pod   corev1.Pod
		asked string
		kind  cluster.EventKind
		why   string
	}{
		{"done", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, "", cluster.TaskFinished, ""},
		{"done before the kill", corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, "burst", cluster.TaskFinished, ""},
		{"killed", corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{Phase: failed, ContainerStatuses: ended(137, "Error")}}, "burst", cluster.TaskKilled, "burst"},
		{"killed by its agent", corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{Phase: failed, ContainerStatuses: ended(137, "Error"), Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: PrimaryNeedsNode, Message: "reserve short"}}}}, "", cluster.TaskKilled, "reserve short"},
		{"deleted by somebody", corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{Phase: failed, ContainerStatuses: ended(137, "Error")}}, "", cluster.TaskKilled, "its pod was deleted"},
		{"gone without an end", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, "", cluster.TaskKilled, "its pod was deleted"},
		{"refused by the kubelet", corev1.Pod{Status: corev1.PodStatus{Phase: failed, Reason: "OutOfgleaner.dev/cpu", Message: "Pod was rejected", StartTime: &now}}, "", cluster.TaskNotStarted, "Pod was rejected"},
		{"evicted", corev1.Pod{Status: corev1.PodStatus{Phase: failed, Reason: "Evicted", StartTime: &now, Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Message: "low on memory"}}}}, "", cluster.TaskKilled, "low on memory"},
		{"failed", corev1.Pod{Status: corev1.PodStatus{Phase: failed, ContainerStatuses: ended(3, "Error")}}, "", cluster.TaskFailed, "exit code 3"},
		{"out of memory", corev1.Pod{Status: corev1.PodStatus{Phase: failed, ContainerStatuses: ended(137, "OOMKilled")}}, "", cluster.TaskFailed, "exit code 137, OOMKilled"},
	} {
		if kind, why := outcome(&tc.pod, tc.asked); kind != tc.kind || why != tc.why {
			t.Errorf("%s: %s %q, want %s %q", tc.name, kind, why, tc.kind, tc.why)
		}
	}
}

// A report is read as it was written; anything else is an error or sizes that make sense.
func FuzzReport(f *testing.F) {
	f.Add("1500m", "64Mi")
	f.Add("-1", "1e400")
	f.Add("1e99", "1e99")   // was taken for nothing
	f.Add("e74000000", "0") // took minutes
	f.Fuzz(func(t *testing.T, cpu, memory string) {
		lease := ReportOf("n1", "x", cluster.Resources{}, time.Unix(0, 0))
		lease.Annotations[primaryCPU], lease.Annotations[primaryMemory] = cpu, memory
		use, err := readReport(lease)
		if err != nil {
			return
		}
		if again, err := readReport(ReportOf("n1", "x", use, time.Unix(0, 0))); err != nil || again != use || use.CPU < 0 || use.Memory < 0 {
			t.Fatalf("%q %q: %v, then %v (%v)", cpu, memory, use, again, err)
		}
	})
}
