package v1alpha1

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gleaner/cluster"
	"gleaner/input"
)

// Job is the job as the core knows it.
func (h *HarvestJob) Job() *cluster.Job {
	j := &cluster.Job{ID: cluster.JobID(h.Status.Number), Name: cmp.Or(h.Spec.Name, h.Name), Time: time.Duration(h.Spec.TimeSeconds) * time.Second}
	for i := range h.Spec.Stages {
		j.Stages = append(j.Stages, h.Spec.Stages[i].Stage())
	}
	return j
}

// Stage is the stage as the core knows it.
func (s *Stage) Stage() cluster.Stage {
	out := cluster.Stage{Name: s.Name, Tasks: int(cmp.Or(s.Tasks, 1)), After: s.After, Command: s.Command, Dir: s.Dir, Each: s.Each, KeepGoing: s.KeepGoing,
		Time: time.Duration(s.TimeSeconds) * time.Second, Grace: time.Duration(s.GraceSeconds) * time.Second,
		Request: cluster.Resources{CPU: cluster.MilliCPU(s.CPU.MilliValue()), Memory: cluster.Bytes(s.Memory.Value())}}
	for _, e := range s.Env {
		out.Env = append(out.Env, e.Name+"="+e.Value)
	}
	if s.Array != nil {
		out.Array = cluster.Array{First: int(s.Array.First), Step: int(s.Array.Step)}
	}
	if s.Retries != nil {
		out.Failures = int(*s.Retries) + 1
	}
	return out
}

// Past is what the core of a new controller must know of the job. Runs are the last runs of
// tasks that have not finished.
func (h *HarvestJob) Past(runs []cluster.PastRun) (cluster.PastJob, error) {
	s := &h.Status
	p := cluster.PastJob{Job: h.Job(), Submitted: h.CreationTimestamp.Time,
		Account: cluster.Account{Work: float64(s.WorkMilliseconds) / 1e3, Kills: int(s.Kills)}}
	if s.Started != nil {
		p.Started = s.Started.Time
	}
	if s.Ended != nil {
		p.Ended, p.Reason = s.Ended.Time, s.Reason
	} else {
		p.Runs = runs
	}
	for _, st := range s.Stages {
		finished, err := parseIndices(st.Finished)
		if err != nil {
			return p, fmt.Errorf("%s/%s: status.stages %q: %w", h.Namespace, h.Name, st.Name, err)
		}
		p.Stages = append(p.Stages, cluster.PastStage{Name: st.Name, Finished: finished, Failures: int(st.Failures)})
	}
	return p, nil
}

// SetPast writes what has become of the job, of which running tasks run, to its status.
func (s *HarvestJobStatus) SetPast(p *cluster.PastJob, running int) {
	s.Number, s.Reason, s.Running = int64(p.Job.ID), p.Reason, int32(running)
	s.Kills, s.WorkMilliseconds = int32(p.Kills), int64(math.Round(p.Work*1e3))
	s.Started, s.Ended = moment(p.Started), moment(p.Ended)
	s.Tasks, s.Finished, s.Failures, s.Stages = 0, 0, 0, nil
	for _, st := range p.Job.Stages {
		s.Tasks += int32(st.Tasks)
	}
	for _, st := range p.Stages {
		s.Finished += int32(st.Finished.Len())
		s.Failures += int32(st.Failures)
		s.Stages = append(s.Stages, StageStatus{Name: st.Name, Finished: formatIndices(st.Finished), Failures: int32(st.Failures)})
	}
	switch {
	case s.Ended != nil && s.Reason == "":
		s.State = Finished
	case s.Ended != nil:
		s.State = Failed
	case running > 0:
		s.State = Running
	default:
		s.State = Waiting
	}
}

// moment is a time to the microsecond, which is what the API keeps; nil for none.
func moment(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	return &metav1.MicroTime{Time: t.Truncate(time.Microsecond)}
}

// label is what a stage may be called here, where its name becomes a part of a pod's.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// FromJob makes a HarvestJob of a job file's job, whose commands run in image. What a pod
// cannot have is a mistake.
func FromJob(j *cluster.Job, image string) (*HarvestJob, error) {
	h := &HarvestJob{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "HarvestJob"}, Spec: HarvestJobSpec{Name: j.Name}}
	h.GenerateName = strings.Trim(strings.ToLower(strings.ReplaceAll(j.Name, "_", "-")), ".-") + "-"
	h.Spec.TimeSeconds = seconds(j.Time)
	if j.Priority != 0 {
		return nil, input.Errorf("", "job %q: on Kubernetes a job has no priority", j.Name)
	}
	waves := j.Waves()
	order := make([]int, len(waves))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waves[a], waves[b]) })
	for _, i := range order {
		st := &j.Stages[i]
		switch {
		case !label.MatchString(st.Name):
			return nil, input.Errorf("", "job %q: stage %q: on Kubernetes a stage's name is lower case letters, digits and '-', at most 40", j.Name, st.Name)
		case st.Processes > 0 || st.Output > 0:
			return nil, input.Errorf("", "job %q: stage %q: on Kubernetes the kubelet limits processes and output, not the job", j.Name, st.Name)
		case len(st.Each) > mostItems:
			return nil, input.Errorf("", "job %q: stage %q: on Kubernetes each has at most %d items", j.Name, st.Name, mostItems)
		}
		h.Spec.Stages = append(h.Spec.Stages, fromStage(st, image))
	}
	return h, nil
}

// mostItems is how many items a stage may have: the whole job is one object.
const mostItems = 10_000

// seconds is a time in whole seconds, which is what pods have, and no less.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func fromStage(st *cluster.Stage, image string) Stage {
	out := Stage{Name: st.Name, Tasks: int32(st.Tasks), Image: image, Command: st.Command, After: st.After, Dir: st.Dir,
		Each: st.Each, TimeSeconds: seconds(st.Time), GraceSeconds: seconds(st.Grace), KeepGoing: st.KeepGoing,
		CPU: *resource.NewMilliQuantity(int64(st.Request.CPU), resource.DecimalSI), Memory: *resource.NewQuantity(int64(st.Request.Memory), resource.BinarySI)}
	for _, e := range st.Env {
		name, value, _ := strings.Cut(e, "=")
		out.Env = append(out.Env, EnvVar{Name: name, Value: value})
	}
	if st.Array != (cluster.Array{}) {
		out.Array = &Array{First: int64(st.Array.First), Step: int64(st.Array.Step)}
	}
	if st.Failures > 0 {
		retries := int32(st.Failures - 1)
		out.Retries = &retries
	}
	return out
}

// formatIndices writes numbers of tasks as "0-5,7".
func formatIndices(x cluster.Indices) string {
	var out []string
	for _, s := range x {
		text := strconv.Itoa(int(s.First))
		if s.Last > s.First {
			text += "-" + strconv.Itoa(int(s.Last))
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

// parseIndices reads them.
func parseIndices(text string) (cluster.Indices, error) {
	if text == "" {
		return nil, nil
	}
	var x cluster.Indices
	for span := range strings.SplitSeq(text, ",") {
		from, to, more := strings.Cut(span, "-")
		if !more {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 31)
		last, err2 := strconv.ParseUint(to, 10, 31)
		if err1 != nil || err2 != nil || last < first || last >= cluster.MaxTasks || len(x) > 0 && int(first) <= int(x[len(x)-1].Last)+1 {
			return nil, fmt.Errorf("%q is not a list of tasks, as 0-5,7", text)
		}
		x = append(x, cluster.Span{First: int32(first), Last: int32(last)})
	}
	return x, nil
}
