// Package agent guards one node of a Kubernetes cluster: what its primary uses (all that is
// not a harvested pod), what it can give away, and whom to kill when its primary needs more.
//
// It decides from what it reads on the node and waits for nobody: pods are killed through
// their control groups, and the API is told afterwards. Deleting a pod takes its kubelet two
// seconds if a process ignores SIGTERM, and without an API server it takes forever.
package agent
