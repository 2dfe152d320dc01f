package kube_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/kube"
)

// asAgentProcess has this test binary be the agent of a node: the node's name, its control group
// and a kubeconfig.
const asAgentProcess = "GLEANER_TEST_AGENT"

// beAgent is the agent, if this process is to be one.
func beAgent() {
	args := strings.Split(os.Getenv(asAgentProcess), " ")
	if len(args) != 3 {
		return
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[2])
	if err == nil {
		config.QPS = -1
		l := &lab{config: config}
		err = guardNode(context.Background(), l.asAgent(args[0]), args[0], args[1], patient("memory"), os.Stderr)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// guardApart runs the agent of the node as a process.
func (m *machine) guardApart(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", asAgentProcess, m.node.Name, m.node.CgroupRoot, m.Kubeconfig))
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// kubelet is the process of the node's kubelet.
func (m *machine) kubelet(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have ended
		if args := strings.Split(string(text), "\x00"); len(args) > 2 && args[1] == "kubelet" && strings.Contains(string(text), "--hostname-override="+m.node.Name+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the node has no kubelet")
	return 0
}

// A guard needs its own process, the kernel and nothing else: with the API server or kubelet gone
// it kills as ever, and tells it when they are back. Without an agent nobody kills; the next one does,
// as soon as it runs.
func TestRealNodeFaults(t *testing.T) {
	m := realNode(t)
	t.Run("API server", func(t *testing.T) {
		stop := m.guard(t, patient("memory"))
		defer stop()
		m.measure(t, burst{what: "memory", outside: true, args: []string{"-ignore"}, age: time.Second, times: 2,
			before: func() { m.API.Kill() },
			gone: func() {
				if err := m.StartAPI(t.Context()); err != nil {
					t.Fatal(err)
				}
				m.told(t)
			}})
	})
	t.Run("kubelet", func(t *testing.T) {
		stop := m.guard(t, patient("memory"))
		defer stop()
		m.measure(t, burst{what: "memory", outside: true, args: []string{"-ignore"}, age: time.Second, times: 2,
			before: func() {
				if err := syscall.Kill(m.kubelet(t), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			},
			gone: func() { m.told(t) }})
	})
	t.Run("agent", m.agentKilled)
}

// told waits until the API has no harvested pod on the node that is not killed for the primary.
func (m *machine) told(t *testing.T) {
	t.Helper()
	err := soon(t.Context(), func() error {
		var pods corev1.PodList
		if err := m.client.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Spec.SchedulerName != kube.Scheduler || p.DeletionTimestamp != nil {
				continue
			}
			return fmt.Errorf("the API still has %s: %s %v", p.Name, p.Status.Phase, p.Status.Conditions)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// agentKilled kills the agent, and has the primary burst while nobody guards.
func (m *machine) agentKilled(t *testing.T) {
	first := m.guardApart(t)
	_, offered, err := m.room(t, cluster.Resources{CPU: 100, Memory: 2 * cluster.GB})
	if err != nil {
		t.Skip("others use this machine: ", err)
	}
	primary, end, err := m.primary(t, 100, burst{what: "memory", outside: true})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	p, pids, err := m.pod(t, "unguarded", cluster.Resources{CPU: 100, Memory: offered.Memory - 256*cluster.MB}, "-ignore")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.client.Delete(context.Background(), p, client.GracePeriodSeconds(0)) }()
	var fds []int
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Skip("it was killed before the burst: ", err)
		}
		fds = append(fds, fd)
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	if err := syscall.Kill(primary, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}, 0); n != 0 {
		t.Errorf("something killed the pod while nobody guarded it: %v", err)
	}
	start := time.Now()
	m.guardApart(t)
	t.Logf("from the start of the next agent to the last harvested process gone: %v", gone(t, pids, fds).Sub(start).Round(time.Millisecond))
	m.told(t)
}
