package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"manifests --image i:1 --namespace here", 0, "namespace: here"},
		{"manifests --image i:1 --volume 10Gi --controller-arg=--tenants=owner", 0, "--tenants=owner"},
		{"manifests --image i:1 --volume much", 2, "--volume"},
		{"manifests", 2, "--image: is needed"},
		{"version", 0, "gleaner-kube"},
		{"version --json", 0, `"version":`},
		{"manifests --chart nowhere/x", 2, "--chart"},
		{"manifests --chart x --image i", 2, "--chart"},
		{"", 0, "Available Commands"},
		{"bogus", 2, "unknown command"},
		{"controller", 2, "--kubeconfig: is needed"},
		{"manifests more", 2, "unknown command"},
		{"job ../../../examples/primes.yaml --image busybox", 0, "kind: HarvestJob"},
		{"job ../../../examples/primes.yaml", 2, "--image: is needed"},
		{"job nowhere.yaml --image busybox", 2, "nowhere.yaml"},
		{"job main.go --image busybox", 2, "main.go:"},
		{"controller --policy none", 2, "--policy"},
		{"controller --data here --store cassandra://h/k", 2, "--data"},
		{"controller --store elsewhere://h/k", 2, "--store"},
		{"controller --lease 1ms", 2, "--lease"},
		{"controller --tenants nobody", 2, "--tenants"},
		{"controller --query up", 2, "--query: goes with --prometheus"},
		{"controller --prometheus here", 2, "--prometheus"},
		{"controller --prometheus http://here --query-step 1ms", 2, "--query-step"},
		{"controller --kubeconfig nowhere", 2, "--kubeconfig"},
		{"controller --kubeconfig main.go --record nowhere/x", 2, "--kubeconfig"},
		{"controller --speed 0", 2, "--speed"},
		{"play", 2, "--kubeconfig"},
		{"play --kubeconfig nowhere", 2, "--kubeconfig"},
		{"play --kubeconfig x --nodes 3", 2, "--nodes"},
		{"play --kubeconfig x --hours -1", 2, "--hours"},
		{"play --kubeconfig x --speed 0.1", 2, "--speed"},
		{"play --kubeconfig x --policy none", 2, "--policy"},
		{"play --kubeconfig x --load 2", 2, "--load"},
		{"play --kubeconfig x --utilisation 0", 2, "--utilisation"},
		{"agent", 2, "--node: is needed"},
		{"agent --node n1 --cgroups nowhere", 2, "--cgroups"},
		{"agent --node n1 --kubeconfig nowhere", 2, "--kubeconfig"},
		{"controller --what", 2, "unknown flag"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(tc.args), &out, &errs)
		if said := out.String() + errs.String(); code != tc.code || !strings.Contains(said, tc.says) || strings.Count(errs.String(), "\n") > 1 {
			t.Errorf("%s: exit code %d, want %d:\n%s", tc.args, code, tc.code, said)
		}
	}
}
