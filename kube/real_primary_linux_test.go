package kube_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/lab/engine"
	"gleaner/lab/search"
)

// The search service of Figure 10 in a Burstable pod answers queries that come independently of each other, at a quarter of what
// it can, alone and beside harvested pods that would take all CPU: how long its queries take, and what was harvested.
func TestRealNodePrimary(t *testing.T) {
	m := realNode(t)
	const rounds, length = 5, 20 * time.Second
	url := m.searchPod(t)
	queries := search.Usual.Queries(2000, rand.New(rand.NewPCG(1, 1)))
	whole, err := search.Capacity(t.Context(), url, queries, 4, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer m.guard(t, harvest.Reserve{Step: 100, Fixed: cluster.Resources{CPU: cluster.Core / 3, Memory: cluster.GB}})()
	var records [2]search.Record // alone, and beside harvested pods
	var harvested time.Duration
	kills := 0
	for round := range 2 * rounds {
		beside := round % 2
		stop := func() int { return 0 }
		if beside == 1 {
			stop = m.keepBusy(t)
		}
		before := m.harvestedCPU(t)
		load := search.Follow(func(time.Duration) float64 { return whole / 4 }, length, search.Usual, rand.New(rand.NewPCG(uint64(round/2), 2)))
		record, err := load.Play(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		harvested += m.harvestedCPU(t) - before
		kills += stop()
		if record.Failed() > 0 {
			t.Errorf("%d of %d queries failed", record.Failed(), len(record))
		}
		records[beside] = append(records[beside], record...)
	}
	for i, how := range []string{"alone", "beside harvested pods"} {
		t.Logf("%s: %d queries, half within %.1f ms, 99%% within %.1f ms", how, len(records[i]), records[i].Percentile(0.5), records[i].Percentile(0.99))
	}
	t.Logf("p99 beside harvested pods %.2f times that alone; %.2f cores harvested, %d pods killed for the primary",
		records[1].Percentile(0.99)/records[0].Percentile(0.99), harvested.Seconds()/(rounds*length).Seconds(), kills)
	if harvested == 0 {
		t.Error("nothing was harvested")
	}
}

// searchPod starts the service in a pod, and gives where it answers.
func (m *machine) searchPod(t *testing.T) (url string) {
	t.Helper()
	dir := filepath.Dir(m.program)
	program, index := filepath.Join(dir, "gleaner"), filepath.Join(dir, "index")
	build := exec.Command("go", "build", "-o", program, "./cmd/gleaner")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(program, "lab", "search", "--build", index).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address, err := engine.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	no := false
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: m.node.Name, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
		Volumes: []corev1.Volume{{Name: "service", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}},
		Containers: []corev1.Container{{Name: "search", Image: taskImage, ImagePullPolicy: corev1.PullNever, Stdin: true,
			Command:      []string{"/service/gleaner", "lab", "search", "--listen", address, "/service/index"},
			VolumeMounts: []corev1.VolumeMount{{Name: "service", MountPath: "/service"}},
			Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}}}
	p.Name, p.Namespace = "search", namespace
	if err := m.client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.client.Delete(context.Background(), p, client.GracePeriodSeconds(0)) })
	url = "http://" + address
	err = soon(t.Context(), func() error {
		_, err := search.Capacity(t.Context(), url, []string{"a"}, 1, time.Millisecond)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// keepBusy has harvested pods use all CPU that they get, and makes others where one was killed, until stop,
// which gives how many were.
func (m *machine) keepBusy(t *testing.T) (stop func() (killed int)) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		killed := 0
		var now *corev1.Pod
		for i := 0; ctx.Err() == nil; {
			if now != nil {
				var p corev1.Pod
				if err := m.client.Get(ctx, client.ObjectKeyFromObject(now), &p); ctx.Err() == nil && (err != nil || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed) {
					killed, now = killed+1, nil
				}
			} else if _, offered, err := m.room(t, cluster.Resources{CPU: 200, Memory: 64 * cluster.MB}); err == nil {
				i++
				asks := cluster.Resources{CPU: min(offered.CPU, 500), Memory: 64 * cluster.MB}
				if now, _, err = m.pod(t, fmt.Sprintf("busy-%d-%d", time.Now().UnixNano(), i), asks, "-burn", "2"); err != nil {
					t.Log(err) // it was killed while it began, say
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		if now != nil {
			_ = m.client.Delete(context.Background(), now, client.GracePeriodSeconds(0))
		}
		ended <- killed
	}()
	time.Sleep(3 * time.Second) // until the first one runs
	return func() int {
		cancel()
		return <-ended
	}
}

// harvestedCPU is what all harvested pods of the node have used.
func (m *machine) harvestedCPU(t *testing.T) time.Duration {
	t.Helper()
	for name, unit := range map[string]time.Duration{
		filepath.Join("/sys/fs/cgroup/cpuacct", m.node.CgroupRoot, "kubepods/besteffort/cpuacct.usage"): time.Nanosecond,
		filepath.Join("/sys/fs/cgroup", m.node.CgroupRoot, "kubepods/besteffort/cpu.stat"):              time.Microsecond,
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the other version of control groups
		}
		fields := strings.Fields(string(text))
		if at := slices.Index(fields, "usage_usec"); at >= 0 {
			fields = fields[at+1:]
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(n) * unit
	}
	t.Fatal("no control group tells what harvested pods used")
	return 0
}
