package kube_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/history/prometheus"
	"gleaner/kube"
	"gleaner/kube/controller"
	"gleaner/kv"
	"gleaner/kv/pebble"
)

// A tape has the events that a controller recorded.
type tape struct {
	mu     sync.Mutex
	events []cluster.Event
}

func (t *tape) Action(cluster.Action) error { return nil }

func (t *tape) Event(ev cluster.Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, ev)
	return nil
}

// has reports whether there was such an event.
func (t *tape) has(such func(*cluster.Event) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.events, func(ev cluster.Event) bool { return such(&ev) })
}

// past is the history in a folder, while do runs.
func past(t *testing.T, dir string, do func(*history.Store)) {
	t.Helper()
	under, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := history.Open(t.Context(), under, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	do(s)
	if err := under.Close(); err != nil {
		t.Fatal(err)
	}
}

// lastMonth has one node rise and fall every day and another do the same all the time, for as long as
// it takes to tell.
func lastMonth(t *testing.T, s *history.Store) {
	t.Helper()
	now := time.Now()
	err := s.Import(t.Context(), func(im *history.Import) error {
		for at := now.Add(-15 * 24 * time.Hour); at.Before(now); at = at.Add(10 * time.Minute) {
			of := float64(at.Unix()%86400) / 86400
			for id, cpu := range map[cluster.ServerID]float64{"n1": 0.3 + 0.25*math.Sin(2*math.Pi*of), "n2": 0.4} {
				tenant := cluster.TenantID(map[cluster.ServerID]string{"n1": "web", "n2": "batch"}[id])
				if err := im.Add(t.Context(), history.Sample{Milli: at.UnixMilli(), Server: id, Tenant: tenant, CPU: float32(cpu), Mem: 0.1}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// labelled returns an error if a node has another class.
func (l *lab) labelled(t *testing.T, node, pattern string) error {
	var n corev1.Node
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: node}, &n); err != nil {
		return err
	}
	if n.Labels[kube.PatternLabel] != pattern || !strings.HasPrefix(n.Labels[kube.ClassLabel], pattern) {
		return fmt.Errorf("%s has the labels %v", node, n.Labels)
	}
	return nil
}

// What a controller has learned outlives it: samples of what agents report, the classes, and how
// long a job took whose object is gone. Nodes are labelled with their class.
func TestHistoryOutlivesTheController(t *testing.T) {
	l := real(t)
	l.empty(t)
	dir := t.TempDir()
	past(t, dir, func(s *history.Store) { lastMonth(t, s) })
	for node, of := range map[string]string{"n1": "web", "n2": "batch"} {
		l.node(t, node)
		patch := fmt.Sprintf(`{"metadata":{"labels":{"gleaner.dev/environment":%q}}}`, of)
		if err := l.client.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	l.agents(t, idle, "n1", "n2")
	keep := func(o *controller.Options) {
		o.Sample = 200 * time.Millisecond
		o.Store = func(context.Context) (kv.Store, error) { return pebble.Open(dir, pebble.Options{}) }
	}
	begun := time.Now()
	stop := l.control(t, keep)
	for node, pattern := range map[string]string{"n1": "periodic", "n2": "constant"} {
		if err := soon(t.Context(), func() error { return l.labelled(t, node, pattern) }); err != nil {
			t.Error(err)
		}
	}
	h := job("sort", 2, "sleep", "1")
	if err := l.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	l.ended(t, "sort")
	if err := l.client.Delete(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // for a sample
	stop()
	var found time.Time
	past(t, dir, func(s *history.Store) {
		samples := 0
		for sample, err := range s.Samples(t.Context(), "n1", begun, time.Now()) {
			if samples++; err != nil || sample.CPU != 0 {
				t.Errorf("%+v, %v", sample, err)
			}
		}
		runs, err1 := s.JobRuns(t.Context())
		classes, err2 := s.Classes(t.Context())
		if samples == 0 || len(runs) != 1 || runs[0].Name != "sort" || runs[0].Took < time.Second || len(classes.All) < 2 || errors.Join(err1, err2) != nil {
			t.Errorf("%d samples, runs %v %v, classes %v %v", samples, runs, err1, classes, err2)
		}
		found = classes.At
	})
	seen := &tape{}
	stop = l.control(t, keep, func(o *controller.Options) { o.Recorder = seen })
	err := soon(t.Context(), func() error {
		remembered := seen.has(func(ev *cluster.Event) bool {
			return ev.Kind == cluster.Resumed && slices.ContainsFunc(ev.Past, func(p cluster.PastJob) bool { return p.Job.Name == "sort" && !p.Ended.IsZero() })
		})
		published := seen.has(func(ev *cluster.Event) bool { return ev.Kind == cluster.ClassesPublished && len(ev.Classes) >= 2 })
		if !remembered || !published {
			return fmt.Errorf("the next controller knows of the job: %t, of the classes: %t", remembered, published)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	stop()
	past(t, dir, func(s *history.Store) {
		if classes, err := s.Classes(t.Context()); err != nil || !classes.At.Equal(found) || found.Before(begun) {
			t.Errorf("classes found at %v are found again at %v, on the same day; %v", found, classes.At, err)
		}
	})
}

// Prometheus can have the history, of nodes of other clusters too.
func TestHistoryFromPrometheus(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err1 := strconv.ParseFloat(r.FormValue("start"), 64)
		to, err2 := strconv.ParseFloat(r.FormValue("end"), 64)
		step, err3 := strconv.ParseFloat(r.FormValue("step"), 64)
		if err := errors.Join(err1, err2, err3); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var values []string
		for at := from; at <= to; at += step {
			values = append(values, fmt.Sprintf(`[%.0f,"%.4f"]`, at, 0.3+0.25*math.Sin(2*math.Pi*at/86400)))
		}
		all := strings.Join(values, ",")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"node":"n1"},"values":[%s]},{"metric":{"node":"stranger"},"values":[%s]}]}}`, all, all)
	}))
	defer server.Close()
	dir := t.TempDir()
	stop := l.control(t, func(o *controller.Options) {
		o.Prometheus = &prometheus.Query{URL: server.URL, CPU: "busy", Label: "node", Step: 10 * time.Minute}
		o.Store = func(context.Context) (kv.Store, error) { return pebble.Open(dir, pebble.Options{}) }
	})
	if err := soon(t.Context(), func() error { return l.labelled(t, "n1", "periodic") }); err != nil {
		t.Error(err)
	}
	stop()
	past(t, dir, func(s *history.Store) {
		if servers, err := s.Servers(t.Context()); err != nil || len(servers) != 1 || servers[0].ID != "n1" {
			t.Errorf("the history has %v, %v", servers, err)
		}
	})
}

// Nodes can belong to the namespace whose pods are on them.
func TestTenantsByNamespace(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	l.agents(t, idle, "n1")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "service", Namespace: namespace}, Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{
		{Name: "a", Image: "busybox", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}}
	if err := l.client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	seen := &tape{}
	defer l.control(t, func(o *controller.Options) { o.Tenancy, o.Recorder = kube.ByNamespace, seen })()
	err := soon(t.Context(), func() error {
		if !seen.has(func(ev *cluster.Event) bool {
			return ev.Kind == cluster.ServerJoined && ev.Server.Environment == namespace
		}) {
			return errors.New("n1 does not belong to its namespace")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The controller may label a node with its class, and change nothing else of it.
func TestControllerOnlyLabelsNodes(t *testing.T) {
	l := real(t)
	l.empty(t)
	l.node(t, "n1")
	c, err := client.New(l.asController(), client.Options{Scheme: l.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(text string) error {
		return c.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	for _, text := range []string{
		`{"spec":{"unschedulable":true}}`,
		`{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`,
		`{"metadata":{"labels":{"gleaner.dev/class":"a","other":"b"}}}`,
		`{"metadata":{"annotations":{"other":"b"}}}`,
		`{"metadata":{"finalizers":["other.dev/x"]}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"no","uid":"00000000-0000-0000-0000-000000000001"}]}}`, // which deletes it
	} {
		if err := patch(text); err == nil || !strings.Contains(err.Error(), "may change only the labels") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{"metadata":{"labels":{"gleaner.dev/class":"a","gleaner.dev/pattern":"b"}}}`, `{"metadata":{"labels":{"gleaner.dev/class":null}}}`} {
		if err := patch(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
