package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/image"
	"gleaner/kube"
	"gleaner/kube/agent"
	"gleaner/lab/engine"
	"gleaner/local/proc"
)

// taskImage is the image of testdata/task.
const taskImage = "gleaner.local/task:1"

// A machine is a real node: a kubelet with containerd and runc on this machine.
type machine struct {
	*lab
	node    *engine.Node
	program string // testdata/task, for processes outside Kubernetes
}

// startMachine adds a real node to the cluster, once.
var startMachine = sync.OnceValues(func() (*machine, error) {
	l, err := open()
	if err != nil {
		return nil, err
	}
	programs, err := engine.BuildNode(context.Background(), func() { fmt.Fprintln(os.Stderr, "building containerd and runc") })
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(l.Kubeconfig)
	m := &machine{lab: l, program: filepath.Join(dir, "task")}
	build := exec.Command("go", "build", "-o", m.program, "./testdata/task")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(m.program)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	if err := image.Write(&archive, image.Image{Name: taskImage, Architecture: runtime.GOARCH, Program: text, Path: "task"}); err != nil {
		return nil, err
	}
	if err := os.WriteFile(m.program+".tar", archive.Bytes(), 0o600); err != nil {
		return nil, err
	}
	m.node, err = l.StartNode(context.Background(), programs, 0, m.program+".tar")
	return m, err
})

// realNode is the real node. It skips the test where there can be none.
func realNode(t *testing.T) *machine {
	t.Helper()
	if os.Getenv("GLEANER_REAL") == "" {
		t.Skip("GLEANER_REAL=1 starts a real node, which needs root and an idle machine")
	}
	if err := engine.CanNode(); err != nil {
		t.Skip(err)
	}
	l := real(t)
	m, err := startMachine()
	if err != nil {
		t.Fatal(err)
	}
	l.empty(t)
	return m
}

// patient is a reserve by which only what the test takes makes a difference: others use this
// machine too. For CPU that needs two idle cores.
func patient(burst string) harvest.Reserve {
	r := harvest.Reserve{Step: 100, Fixed: cluster.Resources{CPU: 1, Memory: cluster.GB}}
	if burst == "memory" {
		r.Fixed.CPU = -cluster.MilliCPU(runtime.NumCPU()) * cluster.Core
	}
	return r
}

// guard runs the agent of the node; what it returns stops it.
func (m *machine) guard(t *testing.T, reserve harvest.Reserve) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- guardNode(ctx, m.asAgent(m.node.Name), m.node.Name, m.node.CgroupRoot, reserve, t.Output())
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// guardNode is an agent that reports often and does not wait long before it offers more.
func guardNode(ctx context.Context, config *rest.Config, node, root string, reserve harvest.Reserve, log io.Writer) error {
	s, err := kube.Scheme()
	if err != nil {
		return err
	}
	o := agent.Options{Node: node, Namespace: system, Reserve: reserve, Log: slog.New(slog.NewTextHandler(log, nil)), Root: root,
		Report: 200 * time.Millisecond, Settle: 500 * time.Millisecond}
	var err1, err2 error
	o.Client, err1 = client.New(config, client.Options{Scheme: s})
	o.Cache, err2 = cache.New(config, agent.CacheOptions(s, node))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- o.Cache.Start(ctx) }()
	err = agent.Run(ctx, o)
	cancel()
	return errors.Join(err, <-ended)
}

// room waits until the node offers at least so much, and returns its size and what it offers.
func (m *machine) room(t *testing.T, least cluster.Resources) (size, offered cluster.Resources, err error) {
	var n corev1.Node
	err = soon(t.Context(), func() error {
		if err := m.client.Get(t.Context(), client.ObjectKey{Name: m.node.Name}, &n); err != nil {
			return err
		}
		if offered = kube.OfferedBy(&n); offered.CPU < least.CPU || offered.Memory < least.Memory {
			return fmt.Errorf("it offers %v", offered)
		}
		return nil
	})
	return kube.SizeOf(&n), offered, err
}

// pod makes a pod on the node and waits until its processes run, whose numbers it returns.
// One that asks for something harvested is a harvested one, others are Burstable.
func (m *machine) pod(t *testing.T, name string, asks cluster.Resources, args ...string) (*corev1.Pod, []int, error) {
	t.Helper()
	no := false
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: m.node.Name, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{Name: "task", Image: taskImage, ImagePullPolicy: corev1.PullNever, Args: args}}}}
	p.Name, p.Namespace = name, namespace
	group := "burstable"
	if asks != (cluster.Resources{}) {
		p.Spec.SchedulerName, group = kube.Scheduler, "besteffort"
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{kube.CPU: *resource.NewQuantity(int64(asks.CPU), resource.DecimalSI), kube.Memory: *resource.NewQuantity(int64(asks.Memory), resource.BinarySI)}
	} else {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	}
	if err := m.client.Create(t.Context(), p); err != nil {
		return nil, nil, err
	}
	var pids []int
	err := soon(t.Context(), func() error {
		if err := m.client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		pids = pidsBelow(filepath.Join("/sys/fs/cgroup/freezer", m.node.CgroupRoot, "kubepods", group, "pod"+string(p.UID)))
		if len(pids) < 2 || !isTask(pids[len(pids)-1]) && !slices.ContainsFunc(pids, isTask) {
			return fmt.Errorf("%s %s: %s has processes %v", p.Status.Phase, p.Status.Reason, p.Name, pids)
		}
		return nil
	})
	return p, pids, err
}

// pidsBelow are the processes of a group and all groups below it.
func pidsBelow(group string) (pids []int) {
	_ = filepath.WalkDir(group, func(name string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(name) == "cgroup.procs" {
			text, _ := os.ReadFile(name)
			for field := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
		return nil
	})
	return pids
}

// isTask reports whether a process is testdata/task, and no longer the runtime that starts it.
func isTask(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.HasPrefix(string(text), "/task\x00")
}

// gone waits by pidfds until all processes have ended, and returns when.
func gone(t *testing.T, pids, fds []int) time.Time {
	t.Helper()
	for i, fd := range fds {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for end := time.Now().Add(time.Minute); ; {
			n, err := unix.Poll(polled, 1000)
			if n > 0 {
				break
			}
			if err != nil && !errors.Is(err, unix.EINTR) {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[i]))
				t.Fatalf("a harvested process still runs a minute after the burst:\n%s", status)
			}
		}
		_ = unix.Close(fd)
	}
	return time.Now()
}

// A burst is how a primary begins to need the node.
type burst struct {
	what    string   // cpu or memory
	outside bool     // by a process outside Kubernetes; else by a Burstable pod
	args    []string // of the harvested task
	age     time.Duration
	before  func() // the burst
	gone    func() // all processes are gone
	times   int    // it is measured
}

// watch looks all the time whether a pod fits beside the primary by the rule of the docs: primary, requests and
// reserve are no more than the node has. All that is not available counts as the primary's. need returns when it was
// last seen to fit.
func watch(size cluster.Resources, asks cluster.Bytes, reserve harvest.Reserve) (need func() time.Time) {
	left := size.Memory - reserve.Of(size).Memory - asks
	var last time.Time
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			at := time.Now()
			text, _ := os.ReadFile("/proc/meminfo")
			if memory, err := proc.ParseMemory(text); err == nil && reserve.Counted(cluster.Resources{Memory: memory.Total - memory.Available}).Memory <= left {
				last = at
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() time.Time { close(stop); <-ended; return last }
}

// A delay is how long it took until the last harvested process was gone.
type delay struct {
	burst time.Duration // from when the primary began to take more
	need  time.Duration // from when the pod was last seen to fit
	told  time.Duration // from the burst until the API server had the deletion, if it is there
}

// run has a harvested pod run and a primary burst.
func (m *machine) run(t *testing.T, i int, b burst) (none delay, err error) {
	t.Helper()
	least := cluster.Resources{CPU: 800, Memory: 2 * cluster.GB}
	time.Sleep(2 * time.Second) // the offer rises again after the last burst
	size, offered, err := m.room(t, least)
	if err != nil {
		return none, fmt.Errorf("others use this machine: %w", err)
	}
	asks := cluster.Resources{CPU: least.CPU, Memory: 16 * cluster.MB}
	if b.what == "memory" {
		asks = cluster.Resources{CPU: 100, Memory: offered.Memory - 256*cluster.MB}
	}
	primary, end, err := m.primary(t, i, b)
	if err != nil {
		return none, err
	}
	defer end()
	p, pids, err := m.pod(t, fmt.Sprintf("harvested-%d", i), asks, b.args...)
	if p != nil {
		defer func() { _ = m.client.Delete(context.Background(), p, client.GracePeriodSeconds(0)) }()
	}
	if err != nil {
		return none, err
	}
	var fds []int
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return none, fmt.Errorf("it was killed before the burst: %w", err)
		}
		fds = append(fds, fd)
	}
	time.Sleep(b.age)
	if b.before != nil {
		b.before()
	}
	need := func() time.Time { return time.Time{} }
	if b.what == "memory" {
		need = watch(size, asks.Memory, patient(b.what))
	}
	start := time.Now()
	if err := syscall.Kill(primary, syscall.SIGUSR1); err != nil {
		return none, err
	}
	last, told := gone(t, pids, fds), time.Time{}
	if b.gone != nil {
		b.gone()
	} else if err := m.deleted(t, p); err != nil {
		return none, err
	} else {
		told = time.Now()
	}
	since := start
	if crossed := need(); crossed.After(start) {
		since = crossed
	}
	return delay{last.Sub(start), last.Sub(since), told.Sub(start)}, nil
}

// deleted waits until the API server has the deletion of a pod.
func (m *machine) deleted(t *testing.T, p *corev1.Pod) error {
	return soon(t.Context(), func() error {
		err := m.client.Get(t.Context(), client.ObjectKeyFromObject(p), p)
		if err == nil && p.DeletionTimestamp == nil {
			return fmt.Errorf("the API still has %s", p.Name)
		}
		return client.IgnoreNotFound(err)
	})
}

// primary starts what will burst; end ends it.
func (m *machine) primary(t *testing.T, i int, b burst) (pid int, end func(), err error) {
	args := []string{"-burst", b.what}
	if b.outside {
		cmd := exec.Command(m.program, args...)
		if err := cmd.Start(); err != nil {
			return 0, nil, err
		}
		time.Sleep(300 * time.Millisecond) // until it waits for the signal
		return cmd.Process.Pid, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
	}
	p, pids, err := m.pod(t, fmt.Sprintf("primary-%d", i), cluster.Resources{}, args...)
	if err != nil {
		return 0, nil, err
	}
	time.Sleep(300 * time.Millisecond)
	return pids[slices.IndexFunc(pids, isTask)], func() { _ = m.client.Delete(context.Background(), p, client.GracePeriodSeconds(0)) }, nil
}

// measure runs a burst several times and logs how long each took. A machine that others use
// too may have killed before the burst; then it is tried again, and at last skipped.
func (m *machine) measure(t *testing.T, b burst) {
	t.Helper()
	var bursts, needs, told []time.Duration
	for i := 0; len(bursts) < b.times; i++ {
		d, err := m.run(t, i, b)
		if err == nil {
			bursts, needs, told = append(bursts, d.burst), append(needs, d.need), append(told, d.told)
			continue
		}
		if t.Log(err); i > 2*b.times {
			t.Skip("others use this machine too much to measure on it")
		}
	}
	t.Log("from the burst to the last harvested process gone:", rounded(bursts))
	if b.what == "memory" {
		t.Log("from when the pod was last seen to fit:", rounded(needs))
	}
	if b.gone == nil {
		t.Log("from the burst to the deletion:", rounded(told))
	}
}

// rounded sorts, too.
func rounded(all []time.Duration) []time.Duration {
	for i := range all {
		all[i] = all[i].Round(time.Millisecond)
	}
	slices.Sort(all)
	return all
}

// starve has processes of the primary want all CPU, several times over, from begin to end.
func (m *machine) starve(t *testing.T) (begin, end func()) {
	var hog *exec.Cmd
	begin = func() {
		hog = exec.Command(m.program, "-burst", "cpu")
		if err := hog.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // until it waits for the signal
		if err := syscall.Kill(hog.Process.Pid, syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	return begin, func() { _ = hog.Process.Kill(); _ = hog.Wait() }
}

// A burst of the primary on a real node is followed by the last harvested process gone,
// whatever the task does with SIGTERM and however young it is.
func TestRealNodeBursts(t *testing.T) {
	m := realNode(t)
	for _, what := range []string{"memory", "cpu"} {
		stop := m.guard(t, patient(what))
		for _, where := range []string{"process", "pod"} {
			for name, b := range map[string]burst{
				"honours": {age: 2 * time.Second},
				"ignores": {age: 2 * time.Second, args: []string{"-ignore"}},
				"young":   {age: 500 * time.Millisecond},
				"starved": {age: 2 * time.Second},
			} {
				b.what, b.outside, b.times = what, where == "process", 5
				if name == "starved" {
					if what == "cpu" {
						continue // what starves it is a burst of its own
					}
					b.before, b.gone = m.starve(t)
				}
				t.Run(strings.Join([]string{what, where, name}, "/"), func(t *testing.T) { m.measure(t, b) })
			}
		}
		stop()
	}
}
