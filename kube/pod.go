package kube

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gleaner/cluster"
	"gleaner/kube/api/v1alpha1"
)

// What harvested pods ask for. CPU is in thousandths of a core, because such a resource is
// counted in whole numbers.
const (
	CPU    corev1.ResourceName = "gleaner.dev/cpu"
	Memory corev1.ResourceName = "gleaner.dev/memory"
)

// Scheduler is the schedulerName of all harvested pods, also of those that others make.
const Scheduler = "gleaner"

// PrimaryNeedsNode is the reason in the condition DisruptionTarget of a pod that an agent
// killed.
const PrimaryNeedsNode = "PrimaryNeedsNode"

// PriorityClass is that of harvested pods: the cluster may take them back.
const PriorityClass = "gleaner-harvested"

// The labels of a run, which name its task.
const (
	JobLabel     = "gleaner.dev/job"
	stageLabel   = "gleaner.dev/stage"
	indexLabel   = "gleaner.dev/index"
	attemptLabel = "gleaner.dev/attempt"
)

// counted is the finalizer of a pod whose end is not in the status of its job yet.
const counted = "gleaner.dev/counted"

// podOf is the pod of a run.
func podOf(h *v1alpha1.HarvestJob, a cluster.Action) *corev1.Pod {
	st := &h.Spec.Stages[slices.IndexFunc(h.Spec.Stages, func(s v1alpha1.Stage) bool { return s.Name == a.Task.Stage })]
	yes, no := true, false
	id := a.Task
	as := st.Stage()
	command, err := as.CommandOf(id.Index)
	if err != nil {
		command = []string{err.Error()} // which cannot be run, and is told as the reason
	}
	asked := corev1.ResourceList{CPU: *resource.NewQuantity(int64(a.Request.CPU), resource.DecimalSI), Memory: *resource.NewQuantity(int64(a.Request.Memory), resource.BinarySI)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(h, id), Namespace: h.Namespace, Finalizers: []string{counted},
			Labels:          map[string]string{JobLabel: strconv.FormatInt(int64(id.Job), 10), stageLabel: id.Stage, indexLabel: strconv.Itoa(int(id.Index)), attemptLabel: strconv.Itoa(int(id.Attempt))},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "HarvestJob", Name: h.Name, UID: h.UID, Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName: string(a.On), SchedulerName: Scheduler, RestartPolicy: corev1.RestartPolicyNever, PriorityClassName: PriorityClass,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Containers: []corev1.Container{{Name: "task", Image: st.Image, Command: command, WorkingDir: st.Dir, Env: environment(h, st, id),
				Resources: corev1.ResourceRequirements{Requests: asked, Limits: asked}}},
		},
	}
	if st.TimeSeconds > 0 {
		pod.Spec.ActiveDeadlineSeconds = &st.TimeSeconds
	}
	if st.GraceSeconds > 0 {
		pod.Spec.TerminationGracePeriodSeconds = &st.GraceSeconds
	}
	return pod
}

// podName is the name of a run's pod: what can be read of it, and a hash of all of it, so
// that no two runs share one, not even of two jobs with the same name.
func podName(h *v1alpha1.HarvestJob, id cluster.TaskID) string {
	readable := strings.ReplaceAll(fmt.Sprintf("%s-%s-%d-%d", h.Name, id.Stage, id.Index, id.Attempt+1), ".", "-")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%d", h.UID, id.Stage, id.Index, id.Attempt))
	return fmt.Sprintf("%.50s-%s", readable, hex.EncodeToString(sum[:5]))
}

// environment is that of a task, as docs/formats/job.md lists it.
func environment(h *v1alpha1.HarvestJob, st *v1alpha1.Stage, id cluster.TaskID) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "GLEANER_JOB", Value: cmp.Or(h.Spec.Name, h.Name)},
		{Name: "GLEANER_JOB_ID", Value: strconv.FormatInt(int64(id.Job), 10)},
		{Name: "GLEANER_STAGE", Value: id.Stage},
		{Name: "GLEANER_TASK_INDEX", Value: strconv.Itoa(int(id.Index))},
		{Name: "GLEANER_TASKS", Value: strconv.Itoa(int(cmp.Or(st.Tasks, 1)))},
		{Name: "GLEANER_ATTEMPT", Value: strconv.Itoa(int(id.Attempt) + 1)},
	}
	as := st.Stage()
	if item, has := as.Item(id.Index); has {
		env = append(env, corev1.EnvVar{Name: "GLEANER_ITEM", Value: item})
	}
	for _, e := range st.Env {
		env = append(env, corev1.EnvVar{Name: e.Name, Value: e.Value})
	}
	return env
}

// taskOf is the run that a pod is, and the job that owns it; false if it is none.
func taskOf(pod *corev1.Pod) (id cluster.TaskID, owner types.UID, ok bool) {
	job, err1 := strconv.ParseInt(pod.Labels[JobLabel], 10, 64)
	index, err2 := strconv.ParseInt(pod.Labels[indexLabel], 10, 32)
	attempt, err3 := strconv.ParseInt(pod.Labels[attemptLabel], 10, 32)
	ref := metav1.GetControllerOfNoCopy(pod)
	if err1 != nil || err2 != nil || err3 != nil || index < 0 || attempt < 0 || ref == nil || ref.Kind != "HarvestJob" {
		return id, "", false
	}
	return cluster.TaskID{Job: cluster.JobID(job), Stage: pod.Labels[stageLabel], Index: int32(index), Attempt: int32(attempt)}, ref.UID, true
}

// isRunOf reports whether a pod is the one that a run of the job has. Anybody can give a pod labels and an owner.
func isRunOf(pod *corev1.Pod, h *v1alpha1.HarvestJob) bool {
	id, owner, ok := taskOf(pod)
	i := slices.IndexFunc(h.Spec.Stages, func(s v1alpha1.Stage) bool { return s.Name == id.Stage })
	return ok && i >= 0 && id.Index < cmp.Or(h.Spec.Stages[i].Tasks, 1) && owner == h.UID && int64(id.Job) == h.Status.Number &&
		pod.Namespace == h.Namespace && pod.Name == podName(h, id)
}

// RequestOf is what a harvested pod asks for: all its containers together, or an init container
// and the sidecars that run beside it, if that is more.
func RequestOf(pod *corev1.Pod) cluster.Resources {
	var most, sidecars cluster.Resources
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = sidecars.Add(asks(&c))
		} else {
			most = most.Max(sidecars.Add(asks(&c)))
		}
	}
	all := sidecars
	for _, c := range pod.Spec.Containers {
		all = all.Add(asks(&c))
	}
	return most.Max(all)
}

// asks is what one container asks for.
func asks(c *corev1.Container) cluster.Resources {
	cpu, memory := c.Resources.Requests[CPU], c.Resources.Requests[Memory]
	return cluster.Resources{CPU: cluster.MilliCPU(cpu.Value()), Memory: cluster.Bytes(memory.Value())}
}

// over reports whether the run of a pod has ended.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// outcome is how a run ended whose pod is over or gone; asked is why it was to be killed,
// if it was.
func outcome(pod *corev1.Pod, asked string) (cluster.EventKind, string) {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return cluster.TaskFinished, ""
	case asked != "":
		return cluster.TaskKilled, asked
	case refused(pod):
		return cluster.TaskNotStarted, cmp.Or(pod.Status.Message, pod.Status.Reason)
	case disrupted(pod) != "":
		return cluster.TaskKilled, disrupted(pod)
	case pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodFailed:
		return cluster.TaskKilled, "its pod was deleted"
	}
	return cluster.TaskFailed, failure(pod)
}

// refused reports whether the kubelet did not let the pod in: its containers never existed.
func refused(pod *corev1.Pod) bool {
	return pod.Status.Reason != "" && len(pod.Status.ContainerStatuses) == 0 && pod.Status.StartTime != nil && disrupted(pod) == ""
}

// disrupted is why the cluster ended a pod that was not at fault; empty if it did not.
func disrupted(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// failure says how the container of a pod failed.
func failure(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if end := c.State.Terminated; end != nil {
			text := fmt.Sprintf("exit code %d", end.ExitCode)
			if end.Reason != "" && end.Reason != "Error" {
				text += ", " + end.Reason
			}
			return text
		}
	}
	return cmp.Or(pod.Status.Message, pod.Status.Reason, "its pod failed")
}

// took is how long a run took by the clock of its node; 0 if it is not known.
func took(pod *corev1.Pod) time.Duration {
	for _, c := range pod.Status.ContainerStatuses {
		if end := c.State.Terminated; end != nil {
			return max(0, end.FinishedAt.Sub(end.StartedAt.Time))
		}
	}
	return 0
}
