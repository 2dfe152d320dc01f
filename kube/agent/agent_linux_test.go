package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/kube"
)

// A scene is an agent on a node of 12 cores and 8 GiB, whose files are of the test's making.
// Of its memory 2560 MiB are the reserve, and the primary uses 2 GiB.
type scene struct {
	*Agent
	machine machine
	at      time.Time
	api     client.Client
}

func stage(t *testing.T, mount, root string) *scene {
	t.Helper()
	s := &scene{machine: machine{dir: t.TempDir(), available: 6 * cluster.GB}, at: time.Unix(1000, 0)}
	schemes, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	size := corev1.ResourceList{"cpu": resource.MustParse("12"), "memory": resource.MustParse("8Gi")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Capacity: size, Allocatable: size}}
	s.api = fake.NewClientBuilder().WithScheme(schemes).WithStatusSubresource(&corev1.Node{}, &corev1.Pod{}).WithObjects(node).Build()
	ctx, cancel := context.WithCancel(t.Context())
	s.Agent = newAgent(ctx, Options{Client: s.api, Node: "n1", Namespace: "x", Reserve: harvest.PaperReserve, Log: slog.New(slog.DiscardHandler),
		Mount: mount, Root: root, Proc: s.machine.dir}, node)
	t.Cleanup(func() {
		cancel()
		s.behind.Wait()
	})
	return s
}

// pod makes a pod that asks for a core and 1 GiB, and shows it to the agent.
func (s *scene) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	asked := corev1.ResourceList{kube.CPU: resource.MustParse("1000"), kube.Memory: resource.MustParse("1Gi")}
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), Finalizers: []string{"test/stay"}},
		Spec: corev1.PodSpec{NodeName: "n1", SchedulerName: kube.Scheduler, Containers: []corev1.Container{{Name: "task", Resources: corev1.ResourceRequirements{Requests: asked}}}}}
	if err := s.api.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.seen(o)
	return o
}

// pass has the agent look that often.
func (s *scene) pass(t *testing.T, looks int) {
	t.Helper()
	for range looks {
		s.at = s.at.Add(s.Every)
		s.machine.write(t)
		if err := s.look(s.at); err != nil {
			t.Fatal(err)
		}
	}
}

// killed waits for the pods that the API says were killed.
func (s *scene) killed(t *testing.T, want ...string) {
	t.Helper()
	var names []string
	for range 100 {
		var pods corev1.PodList
		if err := s.api.List(t.Context(), &pods); err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, o := range pods.Items {
			i := slices.IndexFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == kube.PrimaryNeedsNode })
			if i >= 0 && o.DeletionTimestamp != nil && strings.HasPrefix(o.Status.Conditions[i].Message, "reserve short by") {
				names = append(names, o.Name)
			}
		}
		if slices.Equal(names, want) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("killed: %v, want %v", names, want)
}

// files makes the control group of a pod with a container, as the kernel shows it: its
// processes end when they are killed. It returns the pod's directory.
func files(t *testing.T, mount, path string) string {
	t.Helper()
	dir := filepath.Join(mount, path)
	if err := os.MkdirAll(dir+"/container", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cpu.stat": "usage_usec 5000000\n", "memory.stat": "anon 1000\nfile 99999999999\n", "cgroup.procs": "", "container/cgroup.procs": "0\n",
		"cgroup.events": "populated 1\n", "cgroup.kill": "", "cpu.weight": "5\n", "cpu.idle": "0\n", "memory.max": "max\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for t.Context().Err() == nil && content(dir+"/cgroup.kill") == "" {
			time.Sleep(time.Millisecond)
		}
		_ = os.WriteFile(dir+"/cgroup.events", []byte("populated 0\n"), 0o644)
	}()
	return dir
}

func content(file string) string {
	text, _ := os.ReadFile(file)
	return strings.TrimSpace(string(text))
}

func mountV2(t *testing.T) string {
	t.Helper()
	mount := t.TempDir()
	if err := os.WriteFile(mount+"/cgroup.controllers", []byte("cpu memory\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return mount
}

// When the primary takes its memory back the youngest pod dies, by its control group before
// the API knows; one that dies already is not counted again, and the older one lives.
func TestTheYoungestDies(t *testing.T) {
	mount := mountV2(t)
	s := stage(t, mount, "")
	old, young := files(t, mount, "kubepods/besteffort/poduid-old"), files(t, mount, "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_young.slice")
	s.pod(t, "old")
	s.pod(t, "young")
	s.pass(t, 20)
	for _, dir := range []string{old, young} {
		if content(dir+"/cpu.idle") != "1" || content(dir+"/cpu.weight") != "1" || content(dir+"/memory.max") != "1073741824" {
			t.Errorf("%s: idle %s, weight %s, at most %s", dir, content(dir+"/cpu.idle"), content(dir+"/cpu.weight"), content(dir+"/memory.max"))
		}
	}
	s.killed(t)
	s.machine.available = 8*cluster.GB - 4*cluster.GB // 4 of 5.5 GiB
	s.pass(t, 10)
	s.killed(t, "young")
	if content(young+"/cgroup.kill") != "1" || content(old+"/cgroup.kill") != "" {
		t.Errorf("killed: young %q, old %q", content(young+"/cgroup.kill"), content(old+"/cgroup.kill"))
	}
	if content(young+"/cpu.idle") != "0" {
		t.Error("what is killed waits for an idle core to exit")
	}
	s.machine.available = 8*cluster.GB - 5*cluster.GB
	s.pass(t, 10)
	s.killed(t, "old", "young")
}

// A pod that is killed and gone before its kubelet has made its group is killed once there is one: nobody
// else ends it for long.
func TestGoneBeforeItsGroup(t *testing.T) {
	mount := mountV2(t)
	s := stage(t, mount, "")
	s.pass(t, 20)
	s.machine.available = cluster.GB
	s.pass(t, 1)
	o := s.pod(t, "early")
	s.killed(t, "early")
	s.gone(o)
	s.pass(t, 50)
	dir := files(t, mount, "kubepods/besteffort/poduid-early")
	s.pass(t, 1)
	for i := 0; content(dir+"/cgroup.kill") != "1"; i++ {
		if i == 1000 {
			t.Fatal("it lives")
		}
		time.Sleep(time.Millisecond)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range int(linger/s.Every) + 2 {
		s.pass(t, 1)
	}
	if len(s.pods) != 0 {
		t.Error("it is remembered for ever")
	}
}

// Without an API server pods are killed as well, and the API is told when it is back.
func TestKillsNeedNoAPI(t *testing.T) {
	mount := mountV2(t)
	s := stage(t, mount, "lab/node0")
	dir := files(t, mount, "lab/node0/kubepods/besteffort/poduid-one")
	s.pod(t, "one")
	s.pass(t, 20)
	back := make(chan struct{})
	s.Client = deaf{s.api, back}
	s.machine.available = cluster.GB
	s.pass(t, 1)
	for i := 0; content(dir+"/cgroup.kill") != "1"; i++ {
		if i == 1000 {
			t.Fatal("it lives")
		}
		time.Sleep(time.Millisecond)
	}
	s.killed(t)
	close(back)
	s.killed(t, "one")
}

// deaf is an API server that answers no patch of a status until it is back.
type deaf struct {
	client.Client
	back chan struct{}
}

func (d deaf) Status() client.SubResourceWriter { return deafStatus{d.Client.Status(), d.back} }

type deafStatus struct {
	client.SubResourceWriter
	back chan struct{}
}

func (d deafStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	select {
	case <-d.back:
		return d.SubResourceWriter.Patch(ctx, o, p, opts...)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The CPU time of a pod that is gone is not taken for the primary's.
func TestCPUOfPodsThatAreGone(t *testing.T) {
	mount := mountV2(t)
	s := stage(t, mount, "")
	dir := files(t, mount, "kubepods/besteffort/poduid-one")
	o := s.pod(t, "one")
	used := 5 * time.Second
	burn := func(looks int) {
		for range looks {
			s.machine.busy += 3 * s.Every
			used += 3 * s.Every
			if err := os.WriteFile(dir+"/cpu.stat", fmt.Appendf(nil, "usage_usec %d\n", used/time.Microsecond), 0o644); err != nil {
				t.Fatal(err)
			}
			s.pass(t, 1)
		}
	}
	burn(40)
	if s.primary.CPU > 200 {
		t.Errorf("beside a busy pod: %v", s.primary)
	}
	o.Status.Phase = corev1.PodSucceeded
	s.seen(o)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range int(linger/s.Every) + 40 {
		s.pass(t, 1)
		if s.primary.CPU > 200 {
			t.Fatalf("after its end: %v", s.primary)
		}
	}
	if len(s.pods) > 0 {
		t.Errorf("%d pods are remembered", len(s.pods))
	}
}

// What a node offers stands in its status; a stopped agent leaves nothing there.
func TestOfferInTheStatus(t *testing.T) {
	s := stage(t, mountV2(t), "")
	s.pass(t, 20)
	if err := s.reportOnce(); err != nil {
		t.Fatal(err)
	}
	var n corev1.Node
	if err := s.api.Get(t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
		t.Fatal(err)
	}
	want := cluster.Resources{CPU: 8 * cluster.Core, Memory: 3584 * cluster.MB} // of 12 cores less 4, of 8 GiB less 2.5 less 2
	if got := kube.OfferedBy(&n); got != want || n.Status.Capacity[kube.CPU] != n.Status.Allocatable[kube.CPU] {
		t.Errorf("%v of %v", got, n.Status.Capacity)
	}
	if err := s.withdraw(); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Get(t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
		t.Fatal(err)
	}
	if len(n.Status.Capacity) != 2 || len(n.Status.Allocatable) != 2 {
		t.Errorf("left: %v and %v", n.Status.Capacity, n.Status.Allocatable)
	}
}

// A node that cannot be read reports nothing: it counts as silent.
func TestUnreadableNodeIsSilent(t *testing.T) {
	s := stage(t, mountV2(t), "")
	s.pass(t, 20)
	if err := os.Remove(filepath.Join(s.machine.dir, "stat")); err != nil {
		t.Fatal(err)
	}
	if err := s.look(s.at); err == nil {
		t.Fatal("without /proc/stat there is no error")
	}
	reports := func() int {
		var leases coordinationv1.LeaseList
		if err := errors.Join(s.reportOnce(), s.api.List(t.Context(), &leases)); err != nil {
			t.Fatal(err)
		}
		return len(leases.Items)
	}
	if n := reports(); n != 0 {
		t.Errorf("%d reports", n)
	}
	s.pass(t, 20)
	if n := reports(); n != 1 {
		t.Errorf("%d reports once it can be read again", n)
	}
}

// On the kernel's own control groups, a process that ignores SIGTERM and its child are gone
// soon after the primary needs their memory, and the older pod's process lives.
func TestRealGroups(t *testing.T) {
	const mount = "/sys/fs/cgroup"
	root := fmt.Sprintf("gleaner-agent-%d", os.Getpid())
	s := stage(t, mount, root)
	old, young := begin(t, mount, root, "old"), begin(t, mount, root, "young")
	s.pod(t, "old")
	s.pod(t, "young")
	s.pass(t, 20)
	if s.pods[cluster.TaskID{Stage: "uid-young"}].cpu == 0 {
		t.Error("its CPU time is not read")
	}
	s.machine.available = 8*cluster.GB - 4*cluster.GB
	begun := time.Now()
	s.pass(t, 1)
	select {
	case <-young:
		t.Logf("gone %v after the look", time.Since(begun))
	case <-time.After(10 * time.Second):
		t.Error("it lives")
	}
	s.killed(t, "young")
	select {
	case <-old:
		t.Error("the older one is gone too")
	default:
	}
}

// begin runs a shell that ignores SIGTERM, with a child, in the container of a pod's control
// group, and returns what is closed when both are gone.
func begin(t *testing.T, mount, root, name string) <-chan struct{} {
	t.Helper()
	bases := []string{mount}
	if _, err := os.Stat(mount + "/cgroup.controllers"); err != nil {
		bases = []string{mount + "/cpu", mount + "/cpuacct", mount + "/memory", mount + "/freezer"}
	}
	cmd := exec.Command("sh", "-c", `trap "" TERM; read go; sleep 1000 & n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; echo up; wait`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	var made []string
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-gone
		for _, dir := range slices.Backward(made) {
			_ = os.Remove(dir) // that of the last pod removes what they share
		}
	})
	up := make(chan struct{})
	go func() {
		defer close(gone)
		lines := bufio.NewReader(out)
		_, _ = lines.ReadString('\n')
		close(up)
		_, _ = lines.ReadString('\n') // until nobody holds the other end
		_ = cmd.Wait()
	}()
	for _, base := range bases {
		dir := base
		for _, part := range []string{root, "kubepods", "besteffort", "poduid-" + name, "container"} {
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
				t.Skipf("control groups cannot be made here: %v", err)
			}
			made = append(made, dir)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Skipf("processes cannot be put into control groups here: %v", err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "memory.stat")); base == mount && err != nil {
			t.Skipf("the root does not give its groups the memory controller: %v", err)
		}
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	<-up
	return gone
}
