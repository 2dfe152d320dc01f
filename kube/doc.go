// Package kube is a world: a Kubernetes cluster. A node is a server, a pod is one run of a
// task, a HarvestJob is a job, and so is a pod that others left to the scheduler "gleaner".
// All that is known is in the API, so that a controller that starts reads back what runs,
// what has finished and what has not.
//
// # A run is a pod with a finalizer
//
// A task is started by creating its pod on its node in one call, under a name that follows
// from job, stage, index and attempt: a call that is repeated because its answer was lost
// creates nothing twice. Pods ask for gleaner.dev/cpu and gleaner.dev/memory only, so that
// the cluster's own scheduler never counts them as load.
//
// Each pod has a finalizer that is removed once the end of the run is in the status of its
// job. Until then the pod stays, also if it was deleted by force: a run that has finished is
// not forgotten, and a run whose processes may still be alive is not replaced. It has ended
// when its kubelet says so, or when its node is gone.
//
// # A node without a report offers nothing
//
// The agent of a node reports what its primary uses in a Lease, which it renews. A node
// that is not ready, is cordoned or whose Lease is not renewed joins with a size of
// nothing: nothing is started there, and what runs there stays. Whether a Lease is renewed
// is judged by the controller's clock alone.
//
// # A plain pod runs once
//
// A pod that others made is bound, not created, and has no finalizer: whether it is to run
// again is for its owner to decide, who makes another pod. Its number is not written down: a
// controller that starts knows the pod by its node.
package kube
