package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:generate go tool controller-gen object crd paths=. output:crd:dir=../../manifests

// A HarvestJob is a batch job that runs on what the services of a cluster do not use:
// stages of equal tasks that form a directed acyclic graph. Each task is a pod.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hj
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Tasks",type=integer,JSONPath=`.status.tasks`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Finished",type=integer,JSONPath=`.status.finished`
// +kubebuilder:printcolumn:name="Kills",type=integer,JSONPath=`.status.kills`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.reason`
type HarvestJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the job consists of.
	Spec HarvestJobSpec `json:"spec"`
	// Status is what has become of it.
	Status HarvestJobStatus `json:"status,omitempty"`
}

// A HarvestJobSpec is what a job consists of. It never changes: delete the job and
// create another.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a job does not change; delete it and create another"
type HarvestJobSpec struct {
	// Name is the same every time the job is submitted, so that history has how long it
	// took last time. Left out, it is the name of the object.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// Stages are what the job does. A stage is listed after those it comes after.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(i, s, !has(s.after) || s.after.all(a, self.exists(j, t, j < i && t.name == a)))",message="a stage comes after a stage that does not exist or is listed below it"
	// +kubebuilder:validation:XValidation:rule="self.map(s, s.tasks).sum() <= 1000000",message="a job has at most 1000000 tasks, all its stages together"
	Stages []Stage `json:"stages"`

	// TimeSeconds is how long the job may take from the start of its first task. Left out, any time.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	TimeSeconds int64 `json:"timeSeconds,omitempty"`
}

// A Stage is a number of equal tasks, which start once all tasks of the stages it comes
// after have finished.
//
// +kubebuilder:validation:XValidation:rule="!has(self.each) || self.each.size() == self.tasks",message="tasks must be as many as each has items"
// +kubebuilder:validation:XValidation:rule="!has(self.each) || !has(self.array)",message="a stage has each or array, not both"
type Stage struct {
	// Name is a DNS label, unique within the job.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	// Tasks is how many tasks the stage has.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Tasks int32 `json:"tasks,omitempty"`

	// CPU is what each task may use, in cores: "0.25", "250m" or 2.
	//
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be more than 0"
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isGreaterThan(quantity('1000000'))",message="must be at most 1000000 cores"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=20
	CPU resource.Quantity `json:"cpu"`

	// Memory is what each task may use: "64Mi", "2G". At least 4Mi, or not even a shell
	// starts.
	//
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('4Mi'))",message="must be at least 4Mi"
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isGreaterThan(quantity('1Pi'))",message="must be at most 1Pi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=20
	Memory resource.Quantity `json:"memory"`

	// Image is the container image that the command runs in.
	//
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`

	// Command is the program and its arguments. Left out, it is the image's.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0] != ''",message="the command is empty"
	// +kubebuilder:validation:MaxItems=1000
	Command []string `json:"command,omitempty"`

	// Each has an item for each task, which stands wherever the command has {}, and in the
	// environment variable GLEANER_ITEM.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MaxLength=4096
	Each []string `json:"each,omitempty"`

	// Array numbers the tasks instead.
	//
	// +optional
	Array *Array `json:"array,omitempty"`

	// TimeSeconds is how long one run of a task may take. Left out, any time.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	TimeSeconds int64 `json:"timeSeconds,omitempty"`

	// GraceSeconds is how long a task that is told to end may take to do so. Left out, as
	// long as any pod.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	GraceSeconds int64 `json:"graceSeconds,omitempty"`

	// KeepGoing says that the other tasks run on when one has failed too often. The job
	// then fails when they have ended.
	//
	// +optional
	KeepGoing bool `json:"keepGoing,omitempty"`

	// After are the stages that must have finished before this one starts.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=40
	After []string `json:"after,omitempty"`

	// Env are further environment variables.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Env []EnvVar `json:"env,omitempty"`

	// Dir is where the command runs. Left out, it is the image's.
	//
	// +optional
	Dir string `json:"dir,omitempty"`

	// Retries is how often a task that fails by itself is run again; when it fails once
	// more its job has failed. Kills do not count.
	//
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Retries *int32 `json:"retries,omitempty"`
}

// An Array numbers the tasks of a stage: first, first + step and so on.
type Array struct {
	// First is the number of the first task.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	First int64 `json:"first"`
	// Step is from one task's number to the next.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Step int64 `json:"step"`
}

// An EnvVar is an environment variable.
type EnvVar struct {
	// Name of the variable.
	//
	// +kubebuilder:validation:Pattern=`^[^=]+$`
	Name string `json:"name"`
	// Value of the variable.
	//
	// +optional
	Value string `json:"value,omitempty"`
}

// A HarvestJobStatus is what has become of a job.
type HarvestJobStatus struct {
	// Number is the job's number in this cluster: 7 for job-7.
	//
	// +optional
	Number int64 `json:"number,omitempty"`
	// State is Waiting, Running, Finished or Failed.
	//
	// +optional
	// +kubebuilder:validation:Enum=Waiting;Running;Finished;Failed
	State State `json:"state,omitempty"`
	// Reason is why the job has failed, or why no task of it runs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Tasks is how many tasks the job has.
	//
	// +optional
	Tasks int32 `json:"tasks"`
	// Running is how many of them run.
	//
	// +optional
	Running int32 `json:"running"`
	// Finished is how many have finished.
	//
	// +optional
	Finished int32 `json:"finished"`
	// Kills is how many runs were killed, most of them because a primary needed its
	// server.
	//
	// +optional
	Kills int32 `json:"kills"`
	// Failures is how many runs failed by themselves.
	//
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// Started is when the first task started.
	//
	// +optional
	Started *metav1.MicroTime `json:"started,omitempty"`
	// Ended is when the job finished or failed.
	//
	// +optional
	Ended *metav1.MicroTime `json:"ended,omitempty"`
	// WorkMilliseconds is what the finished tasks took, in thousandths of core-seconds.
	//
	// +optional
	WorkMilliseconds int64 `json:"workMilliseconds,omitempty"`
	// Stages has the stages that were ever started.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Stages []StageStatus `json:"stages,omitempty"`
}

// A StageStatus is what has become of a stage.
type StageStatus struct {
	// Name of the stage.
	Name string `json:"name"`
	// Finished are the numbers of the tasks that have finished: "0-5,7".
	//
	// +optional
	Finished string `json:"finished,omitempty"`
	// Failures is how often its tasks failed by themselves.
	//
	// +optional
	Failures int32 `json:"failures,omitempty"`
}

// A State says where a job stands.
type State string

// The states of a job.
const (
	Waiting  State = "Waiting" // no task of it runs
	Running  State = "Running"
	Finished State = "Finished"
	Failed   State = "Failed"
)

// A HarvestJobList is some jobs.
//
// +kubebuilder:object:root=true
type HarvestJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HarvestJob `json:"items"`
}
