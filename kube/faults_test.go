package kube_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/kube"
	"gleaner/kube/api/v1alpha1"
	"gleaner/kube/controller"
	"gleaner/kv"
	"gleaner/kv/pebble"
)

// load is a job of many tasks, of which two fit on a node at once.
func load(name string, tasks int32, seconds string) *v1alpha1.HarvestJob {
	h := job(name, tasks, "sleep", seconds)
	h.Spec.Stages[0].CPU = resource.MustParse("1")
	return h
}

// faultsFor is how long TestControllerIsKilledAgainAndAgain goes on killing: GLEANER_FAULTS, as 20m.
func faultsFor(t *testing.T) time.Duration {
	text := os.Getenv("GLEANER_FAULTS")
	if text == "" {
		return 45 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// program builds gleaner-kube, once.
var program = sync.OnceValues(func() (string, error) {
	l, err := open()
	if err != nil {
		return "", err
	}
	to := filepath.Join(filepath.Dir(l.Kubeconfig), "gleaner-kube")
	out, err := exec.Command("go", "build", "-o", to, "./cmd/gleaner-kube").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return to, err
})

// process starts a controller as a process and waits until it leads. One that loses its Lease,
// on a busy machine, is started again, as a kubelet does.
func (l *lab) process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(l.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	as := filepath.Join(t.TempDir(), "kubeconfig") // with no more rights than it will have
	given := strings.Replace(string(text), "user: {", "user: {as: \"system:serviceaccount:"+system+":gleaner-controller\", ", 1)
	if err := os.WriteFile(as, []byte(given), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"controller", "--kubeconfig", as, "--lease", "3s", "--policy", "primary"}, args...)
	for end := time.Now().Add(5 * time.Minute); ; {
		cmd := exec.Command(path, args...)
		said, leads := leads(t, cmd)
		if leads {
			return cmd
		}
		_ = cmd.Wait()
		if !strings.Contains(said, "leader election lost") || time.Now().After(end) {
			t.Fatalf("the controller ended:\n%s", said)
		}
	}
}

// leads starts a controller, and reports whether it leads before it ends and what it said until then.
func leads(t *testing.T, cmd *exec.Cmd) (said string, leads bool) {
	t.Helper()
	says, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(says); lines.Scan(); {
		if said += lines.Text() + "\n"; strings.Contains(lines.Text(), "msg=leading") {
			go func() { _, _ = io.Copy(io.Discard, says) }()
			return said, true
		}
	}
	return said, false
}

// Controllers are killed, as by a power cut, at any moment of what they do, while a job of many
// short tasks runs.
func TestControllerIsKilledAgainAndAgain(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("GLEANER_LONG=1 kills controllers for a minute")
	}
	l := real(t)
	l.empty(t)
	a := l.audited(t)
	nodes := []string{"n1", "n2", "n3", "n4"}
	for _, n := range nodes {
		l.node(t, n)
	}
	l.agents(t, idle, nodes...)
	long, data := faultsFor(t), t.TempDir()
	tasks := int(long / time.Second) // more than finish before the last kill
	if err := l.client.Create(t.Context(), load("killed", int32(tasks), "0.7")); err != nil {
		t.Fatal(err)
	}
	kills := 0
	for end := time.Now().Add(long); time.Now().Before(end); kills++ {
		c := l.process(t, "--data", data)
		time.Sleep(time.Duration(kills*370%2000) * time.Millisecond)
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	t.Logf("%d controllers were killed in %v", kills, long)
	defer l.control(t, func(o *controller.Options) {
		o.Store = func(context.Context) (kv.Store, error) {
			return pebble.Open(filepath.Join(data, "kv"), pebble.Options{})
		}
	})()
	a.check(t, l, "killed", tasks)
}

// A door is a proxy: the connections through it can be cut.
type door struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func newDoor(t *testing.T, to string) *door {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: listener}
	t.Cleanup(func() { _ = d.Close(); d.cut() })
	go func() {
		for {
			in, err := d.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			d.mu.Lock()
			d.open = append(d.open, in, out)
			d.mu.Unlock()
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return d
}

// cut cuts all connections.
func (d *door) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.open {
		_ = c.Close()
	}
	d.open = nil
}

// through is a config that reaches the API server through a door.
func (d *door) through(config *rest.Config) *rest.Config {
	config.Host = "https://" + d.Addr().String()
	return config
}

// The connections of the controller, watches among them, are cut again and again.
func TestWatchesAreCut(t *testing.T) {
	l := real(t)
	l.empty(t)
	a := l.audited(t)
	l.node(t, "n1")
	l.node(t, "n2")
	l.agents(t, idle, "n1", "n2")
	at, err := url.Parse(l.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(t, at.Host)
	defer l.control(t, func(o *controller.Options) {
		o.Config, o.Log = d.through(l.asController()), slog.New(slog.NewTextHandler(t.Output(), nil))
	})()
	if err := l.client.Create(t.Context(), load("cut", 24, "0.5")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(time.Duration(150+i*170%700) * time.Millisecond)
			d.cut()
		}
	}()
	time.Sleep(8 * time.Second)
	stop()
	a.check(t, l, "cut", 24)
}

// The API server is killed twice while a job runs.
func TestAPIServerIsKilled(t *testing.T) {
	l := real(t)
	l.empty(t)
	a := l.audited(t)
	l.node(t, "n1")
	l.node(t, "n2")
	stop := l.agents(t, idle, "n1", "n2")
	defer l.control(t)()
	if err := l.client.Create(t.Context(), load("severed", 12, "1")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		time.Sleep(1300 * time.Millisecond)
		stop() // they would see errors, and a node may be silent for longer than this takes
		l.API.Kill()
		if err := l.StartAPI(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop = l.agents(t, idle, "n1", "n2")
	}
	a.check(t, l, "severed", 12)
}

// await waits until something runs on a node.
func (a *audit) await(t *testing.T, node string) {
	t.Helper()
	err := soon(t.Context(), func() error {
		if a.on(node) == 0 {
			return fmt.Errorf("nothing runs on %s", node)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A node whose agent is gone gets nothing once it has been silent for long enough; what runs
// there goes on to its end.
func TestAgentIsGone(t *testing.T) {
	l := real(t)
	l.empty(t)
	a := l.audited(t)
	l.node(t, "n1")
	l.node(t, "n2")
	stop := l.agents(t, idle, "n1")
	l.agents(t, idle, "n2")
	const silence = 3 * time.Second
	defer l.control(t, func(o *controller.Options) { o.Silence = silence })()
	if err := l.client.Create(t.Context(), load("orphaned", 20, "2")); err != nil {
		t.Fatal(err)
	}
	a.await(t, "n1")
	stop()
	time.Sleep(silence + time.Second)
	before := a.on("n1")
	h := a.check(t, l, "orphaned", 20)
	if after := a.on("n1"); after != before {
		t.Errorf("%d pods were started on a node without an agent", after-before)
	}
	if h.Status.Kills != 0 {
		t.Errorf("%d of its pods were killed", h.Status.Kills)
	}
}

// A node vanishes with all that ran on it: its tasks run elsewhere.
func TestNodeVanishes(t *testing.T) {
	l := real(t)
	l.empty(t)
	a := l.audited(t)
	l.node(t, "n1")
	l.node(t, "n2")
	stop := l.agents(t, idle, "n1")
	l.agents(t, idle, "n2")
	defer l.control(t)()
	if err := l.client.Create(t.Context(), load("moved", 8, "2")); err != nil {
		t.Fatal(err)
	}
	a.await(t, "n1")
	stop()
	a.lose("n1")
	if err := l.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	a.check(t, l, "moved", 8)
	if n := a.on("n1"); n == 0 || n > 2 {
		t.Errorf("%d pods were on n1", n)
	}
}

// The clocks of nodes are minutes ahead or behind, in all that their agents and kubelets write:
// jobs run all the same.
func TestClocksAreOff(t *testing.T) {
	l := real(t)
	l.empty(t)
	a := l.audited(t)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for node, off := range map[string]time.Duration{"behind": -10 * time.Minute, "ahead": 10 * time.Minute} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: corev1.NodeStatus{Capacity: size, Allocatable: size,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(time.Now().Add(off))}}}}
		if err := l.client.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = l.client.Delete(context.Background(), n)
			_ = l.client.Delete(context.Background(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: system}})
		})
		all.Go(func() { l.playOff(ctx, node, off) })
	}
	defer l.control(t, func(o *controller.Options) { o.Silence = 5 * time.Second })()
	if err := l.client.Create(t.Context(), load("untimely", 12, "1")); err != nil {
		t.Fatal(err)
	}
	h := a.check(t, l, "untimely", 12)
	if h.Status.Kills != 0 || a.on("behind") == 0 || a.on("ahead") == 0 {
		t.Errorf("%d kills; %d pods on the node behind, %d on the one ahead", h.Status.Kills, a.on("behind"), a.on("ahead"))
	}
	if took := h.Status.Ended.Sub(h.Status.Started.Time); took < 2*time.Second || took > time.Minute {
		t.Errorf("a job of a few seconds took %v", took)
	}
}

// playOff plays the agent and the kubelet of a node whose clock is off, until ctx is done: each
// pod takes a second.
func (l *lab) playOff(ctx context.Context, node string, off time.Duration) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		now := time.Now().Add(off)
		_ = kube.Report(ctx, l.client, kube.ReportOf(cluster.ServerID(node), system, cluster.Resources{}, now)) // it is tried again
		_ = l.client.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, now.UTC().Format(time.RFC3339))))
		var pods corev1.PodList
		if err := l.client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			continue
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.Spec.NodeName == node {
				playPod(p, now)
				_ = l.client.Status().Update(ctx, p)
			}
		}
	}
}

// playPod is what a kubelet writes about a pod at a time.
func playPod(p *corev1.Pod, now time.Time) {
	at := metav1.NewTime(now)
	switch started := p.Status.StartTime; {
	case p.Status.Phase == corev1.PodPending:
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &at,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "task", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}}}
	case p.Status.Phase == corev1.PodRunning && now.Sub(started.Time) > time.Second:
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: *started, FinishedAt: at}}
	}
}
