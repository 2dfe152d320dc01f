package main

import (
	_ "embed"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// ends are the stages in which pods end: by themselves, by their command, and when they are
// deleted, as a kubelet ends them: they have failed before they are gone.
//
//go:embed ends.yaml
var ends string

// stages is what kwok does to the nodes and pods it plays: its own stages but for the end of
// pods, which by its own come to an end for a Job only.
func stages() string {
	return strings.Join([]string{nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, ends}, "\n---\n")
}
